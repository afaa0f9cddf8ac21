#include "ir/library/call.h"

#include <algorithm>

#include "ir/library/implementation.h"

namespace nabla::ir {
namespace {

LibraryFallback fallback_of(const Node& n) {
  LibraryFallback out{n.attrs.get_string("fallback"), {}, n.attrs.get_ints("scratch")};
  for (int64_t i : n.attrs.get_ints("order")) out.args.push_back(n.operands[static_cast<size_t>(i)]);
  out.args.push_back(n.results[0]);
  return out;
}

LibraryCall gemm_call(const Node& n, const Function& f) {
  GemmProblem p = *gemm_problem(n, f);
  LibraryCall out;
  out.roles = {{"a", n.operands[0]}, {"b", n.operands[1]}, {"c", n.results[0], true}};
  if (p.bias) out.roles.push_back({"bias", n.operands[2]});
  if (p.addend) out.roles.push_back({"addend", n.operands.back()});
  out.problem = std::move(p);
  return out;
}

LibraryCall convolution_call(const Node& n, const Function& f) {
  ConvolutionRoles roles = convolution_roles(n);
  ConvolutionProblem p{convolution_problem(n, f), f.type(roles.input).shape[0]};
  LibraryCall out;
  out.roles = {{"input", roles.input, p.spec.kind == ConvolutionKind::kInputGrad},
               {"filter", roles.filter, p.spec.kind == ConvolutionKind::kFilterGrad},
               {"output", roles.output, p.spec.kind == ConvolutionKind::kForward}};
  out.problem = std::move(p);
  return out;
}

}  // namespace

LibraryCall library_call(const Node& n, const Function& f, const Target& target) {
  bool product = n.op->name == "gemm";
  LibraryCall out = product ? gemm_call(n, f) : convolution_call(n, f);
  out.implementation = n.attrs.get_string("implementation");
  out.library = find_implementation(product ? "gemm" : "convolution", out.implementation)->library;
  if (target.is_cuda() && target.tf32 && out.dtype() == DType::kF32) out.round_factors();
  if (n.attrs.get_string("fallback").empty()) return out;
  out.workspace_bytes = n.attrs.get_int("workspace");
  out.fallback = fallback_of(n);
  return out;
}

void LibraryCall::round_factors() {
  if (auto* p = std::get_if<GemmProblem>(&problem))
    p->tf32 = true;
  else
    std::get<ConvolutionProblem>(problem).spec.tf32 = true;
}

std::string LibraryCall::key() const {
  return std::visit([](const auto& p) { return p.key(); }, problem);
}

DType LibraryCall::dtype() const {
  const auto* product = std::get_if<GemmProblem>(&problem);
  return product ? product->dtype : std::get<ConvolutionProblem>(problem).spec.dtype;
}

Dim LibraryCall::flops() const {
  if (const auto* p = std::get_if<GemmProblem>(&problem)) return Dim(2) * p->batch * p->m * p->n * p->k;
  // Only the batch may be symbolic.
  const auto& p = std::get<ConvolutionProblem>(problem);
  double each = p.spec.flops() / static_cast<double>(p.spec.output_shape[0]);
  return Dim(static_cast<int64_t>(std::min(each, 9e18))) * p.batch;
}

std::string LibraryCall::epilogue() const {
  const auto* p = std::get_if<GemmProblem>(&problem);
  return p ? p->epilogue() : "";
}

}  // namespace nabla::ir
