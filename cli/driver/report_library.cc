#include "cli/driver/report_library.h"

#include <algorithm>

#include "ir/op_def.h"
#include "passes/lower/convolution.h"
#include "passes/lower/gemm.h"

namespace nabla::driver {
namespace {

using Json = nlohmann::ordered_json;

// "bias", "relu", "bias add gelu", or empty.
std::string epilogue(const ir::Node& n) {
  if (n.op->lower != ir::Lowering::kContraction) return "";
  std::string out, activation = n.attrs.get_string("activation");
  auto add = [&](bool there, const std::string& what) { out += there ? (out.empty() ? "" : " ") + what : ""; };
  passes::GemmExtras extras = passes::gemm_extras(n);
  add(extras.bias >= 0, "bias"), add(extras.addend >= 0, "add"), add(activation != "none", activation);
  return out;
}

struct Problem {
  std::string key, library;
  DType dtype;
  double flops;
};
Problem problem_of(const ir::Node& n, const ir::Function& f) {
  if (n.op->lower == ir::Lowering::kContraction) {
    passes::GemmProblem p = *passes::gemm_problem(n, f);
    return {p.key(), "cublaslt", p.dtype, static_cast<double>(p.flops())};
  }
  ConvolutionSpec s = passes::convolution_problem(n, f);
  return {s.key(), "cudnn", s.dtype, s.flops()};
}

// What the sums and products are computed in, and how many of them a second the target's GPU is expected to do.
std::pair<const char*, double> compute(DType dtype, const ir::Target& target) {
  const ir::CudaFacts& gpu = target.cuda;
  if (dtype == DType::kF64) return {"f64", gpu.f32_tflops / 2};
  if (dtype != DType::kF32) return {"f32", gpu.tensor_tflops};
  return target.tf32 ? std::pair("tf32", gpu.tensor_tflops / 2) : std::pair("f32", gpu.f32_tflops);
}

}  // namespace

Json library_calls(const ir::Module& planned, const ir::Target& target) {
  Json out = Json::array();
  for (const ir::FunctionPtr& f : planned.functions)
    for (const ir::Node& n : f->nodes) {
      if (!n.attrs.find("alternative")) continue;
      Problem p = problem_of(n, *f);
      int64_t bytes = f->type(n.results[0]).bytes().bounds().max;
      for (ir::ValueId id : n.operands) bytes += f->type(id).bytes().bounds().max;
      auto [kind, tflops] = compute(p.dtype, target);
      Json row = {
          {"problem", p.key},
          {"library", p.library},
          {"calls", 1},
          {"epilogue", epilogue(n)},
          {"compute", kind},
          {"workspace_bytes", n.attrs.get_int("workspace")},
          {"buffer_bytes", bytes},
          {"least_us", std::max(static_cast<double>(bytes) / (target.cuda.copy_gbs * 1e3), p.flops / (tflops * 1e6))},
          {"alternative", n.attrs.get_string("alternative")}};
      auto same = std::find_if(out.begin(), out.end(), [&](const Json& other) {
        return other["problem"] == row["problem"] && other["alternative"] == row["alternative"];
      });
      if (same == out.end())
        out.push_back(std::move(row));
      else
        (*same)["calls"] = (*same)["calls"].get<int64_t>() + 1;
    }
  return out;
}

}  // namespace nabla::driver
