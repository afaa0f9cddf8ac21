#include "cli/driver/report_library.h"

#include <algorithm>

#include "ir/library/convolution.h"
#include "ir/library/gemm.h"
#include "ir/op_def.h"

namespace nabla::driver {
namespace {

using Json = nlohmann::ordered_json;

// "bias", "relu", "bias add gelu", or empty.
std::string epilogue(const ir::Node& n) {
  if (n.op->lower != ir::Lowering::kContraction) return "";
  std::string out, activation = n.attrs.get_string("activation");
  auto add = [&](bool there, const std::string& what) { out += there ? (out.empty() ? "" : " ") + what : ""; };
  ir::GemmExtras extras = ir::gemm_extras(n);
  add(extras.bias >= 0, "bias"), add(extras.addend >= 0, "add"), add(activation != "none", activation);
  return out;
}

struct Problem {
  std::string key, library;
  DType dtype;
};
Problem problem_of(const ir::Node& n, const ir::Function& f) {
  if (n.op->lower == ir::Lowering::kContraction) {
    ir::GemmProblem p = *ir::gemm_problem(n, f);
    return {p.key(), "cublaslt", p.dtype};
  }
  ConvolutionSpec s = ir::convolution_problem(n, f);
  return {s.key(), "cudnn", s.dtype};
}

}  // namespace

ir::Dim library_flops(const ir::Node& n, const ir::Function& f) {
  if (n.op->lower == ir::Lowering::kContraction) {
    ir::GemmProblem p = *ir::gemm_problem(n, f);
    return ir::Dim(2) * p.batch * p.m * p.n * p.k;
  }
  // Only the batch may be symbolic.
  ConvolutionSpec s = ir::convolution_problem(n, f);
  ir::Dim most = s.output_shape[0], batch = f.type(ir::convolution_roles(n).output).shape[0];
  double flops = s.flops() / static_cast<double>(s.output_shape[0]);
  return ir::Dim(static_cast<int64_t>(std::min(flops, 9e18))) * (batch.is_static() ? most : batch);
}

void add_time(const LeastTime& time, Json& row) {
  row["least_us"] = time.us;
  if (!time.is_static && !time.postfix.empty()) row["formulas"]["least_us"] = {{"postfix", time.postfix}};
}

LibraryCalls library_calls(const ir::Module& planned, const ir::Target& target, const LeastTimes& times) {
  LibraryCalls out;
  for (const ir::FunctionPtr& f : planned.functions)
    for (const ir::Node& n : f->nodes) {
      if (!n.attrs.find("alternative")) continue;
      Problem p = problem_of(n, *f);
      Json row = {{"problem", p.key},
                  {"library", p.library},
                  {"calls", 1},
                  {"epilogue", epilogue(n)},
                  {"compute", product_rate(p.dtype, target).first},
                  {"workspace_bytes", n.attrs.get_int("workspace")},
                  {"buffer_bytes", operand_bytes(n, *f).bounds().max},
                  {"alternative", n.attrs.get_string("alternative")}};
      add_time(times.call(n, *f), row);
      auto same = std::find_if(out.rows.begin(), out.rows.end(), [&](const Json& other) {
        return other["problem"] == row["problem"] && other["alternative"] == row["alternative"];
      });
      out.row_of[&n] = static_cast<int>(same - out.rows.begin());
      if (same == out.rows.end())
        out.rows.push_back(std::move(row));
      else
        (*same)["calls"] = (*same)["calls"].get<int64_t>() + 1;
    }
  return out;
}

}  // namespace nabla::driver
