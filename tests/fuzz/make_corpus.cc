// Writes the seed corpora of the module fuzzers from the examples of the records:
//   bazel run //tests/fuzz:make_corpus
#include <cstdlib>
#include <iostream>

#include "ir/ops/all_ops.h"
#include "ir/serialize.h"
#include "runtime/format/file.h"

namespace nabla {
namespace {

constexpr size_t kOpsPerFile = 4;

constexpr const char* kWhole = R"(nabla 1 traced
symbol batch in [8, 64] multiple 8
symbol len in [1, 100]
state w: f32[64,10] loc("model.cc":3:7 "make" "auto w = state(\"w\");")
state "odd name": i32[]
entry step calls @step {
  reads w, "odd name"
  writes w
  inputs x
  outputs y, "the sum"
}
func @helper(%x: f32[batch,64], %w: f32[64,10]) {
  %y = dot_general(%x, %w) {lhs_contract=[1], rhs_contract=[0]} loc("model.cc":9)
  %c = constant() {value=f32[3] {nan, 0x7fc00001, -0}}
  return %y
}
func @step(%w: f32[64,10], %n: i32[], %x: f32[batch,64]) {
  %0 = call(%x, %w) {callee=@helper}
  %1 = reduce_sum(%0) {axes=[0,1]}
  return %w, %0, %1
}
func @loss(%x: f32[min(len,batch)]) {
  %0 = reduce_sum(%x) {axes=[0]}
  return %0
}
func @grads(%x: f32[min(batch,len)]) {
  %0, %r = vjp_forward(%x) {callee=@loss}
  %1 = vjp_backward(%r, %0) {callee=@loss}
  %2 = grad(%x) {callee=@loss, wrt=[0]}
  return %1, %2
}
)";

constexpr const char* kKernel = R"(nabla 1 kernels
func @f(%x: f32[4]) {
  %0 = launch(%x) {kernel="twice", results="f32[4]"}
  return %0
}
kernel @twice(in x: f32[4], out y: f32[4]) {
  axes i = 4
  schedule unit 4 units 1 threads 1 vector i
  for i {
    store y[i] = 2:f32 * x[i]
  }
}
)";

Status write_all(const ir::Module& m, const std::string& folder, const std::string& name) {
  for (auto [form, kind] :
       {std::pair{ir::Form::kText, "text"}, {ir::Form::kJson, "json"}, {ir::Form::kBinary, "binary"}}) {
    Result<ir::Encoded> e = encode(m, form, name + ".consts");
    if (!e.ok()) continue;
    (void)NABLA_TRY(format::write_file(folder + "/" + kind + "_corpus/" + name, e->bytes));
  }
  return Ok{};
}

Status run(const std::string& folder) {
  const ir::OpTable& ops = ops::all_ops();
  ir::Module m;
  m.stage = ir::Stage::kFlat;
  std::string first;
  for (const ir::OpDef& op : ops.all()) {
    if (op.examples.empty() || !(op.stages >> static_cast<int>(ir::Stage::kFlat) & 1)) continue;
    const ir::Example& e = op.examples[0];
    ir::Module functions = NABLA_TRY(ir::parse_module("nabla 1 flat\n" + e.functions, op.name, ops));
    ir::FunctionBuilder b(op.name, ops, &functions);
    std::vector<ir::Val> operands;
    for (const ir::Operand& o : e.operands) operands.push_back(b.param("", o.type));
    auto example = std::make_shared<const ir::Function>(b.finish(b.add(op.name, operands, e.attrs)));
    if (!e.functions.empty()) {
      functions.set(example);
      (void)NABLA_TRY(write_all(functions, folder, op.name));
      continue;
    }
    m.set(example);
    if (first.empty()) first = op.name;
    if (m.functions.size() < kOpsPerFile) continue;
    (void)NABLA_TRY(write_all(m, folder, first));
    m.functions.clear();
    first.clear();
  }
  if (!first.empty()) (void)NABLA_TRY(write_all(m, folder, first));
  (void)NABLA_TRY(write_all(NABLA_TRY(ir::parse_module(kWhole, "whole", ops)), folder, "whole_module"));
  return write_all(NABLA_TRY(ir::parse_module(kKernel, "kernel", ops)), folder, "kernel");
}

}  // namespace
}  // namespace nabla

int main() {
  const char* workspace = std::getenv("BUILD_WORKSPACE_DIRECTORY");
  nabla::Status status = nabla::run(std::string(workspace ? workspace : ".") + "/tests/fuzz");
  if (!status.ok()) std::cerr << to_string(status.errors());
  return status.ok() ? 0 : 1;
}
