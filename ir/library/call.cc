#include "ir/library/call.h"

#include "ir/library/implementation.h"

namespace nabla::ir {
namespace {

LibraryFallback launch_of(FallbackKernel fallback, const Node& n) {
  LibraryFallback out{std::move(fallback.kernel), {}, std::move(fallback.scratch)};
  for (int64_t i : fallback.order) out.args.push_back(n.operands[static_cast<size_t>(i)]);
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
  if (std::optional<FallbackKernel> fallback = fallback_kernel(n)) {
    out.workspace_bytes = fallback->workspace_bytes;
    out.fallback = launch_of(std::move(*fallback), n);
  }
  return out;
}

std::optional<FallbackKernel> fallback_kernel(const Node& n) {
  if (n.op->lower != Lowering::kLibrary || n.attrs.get_string("fallback").empty()) return std::nullopt;
  return FallbackKernel{n.attrs.get_string("fallback"), n.attrs.get_ints("order"), n.attrs.get_ints("scratch"),
                        n.attrs.get_int("workspace")};
}

void set_fallback_kernel(Attrs& attrs, const FallbackKernel& fallback) {
  attrs.set("fallback", fallback.kernel);
  attrs.set("order", fallback.order);
  attrs.set("scratch", fallback.scratch);
  attrs.set("workspace", fallback.workspace_bytes);
}

std::optional<std::string> kernel_of(const Node& n) {
  if (n.op->name == "launch") return n.attrs.get_string("kernel");
  std::optional<FallbackKernel> fallback = fallback_kernel(n);
  return fallback ? std::optional(fallback->kernel) : std::nullopt;
}

int addend_operand(const Node& n) {
  bool addend = n.op->lower == Lowering::kLibrary && n.attrs.find("addend") && n.attrs.get_bool("addend");
  return addend ? static_cast<int>(n.operands.size()) - 1 : -1;
}

}  // namespace nabla::ir
