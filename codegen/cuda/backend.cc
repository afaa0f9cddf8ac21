#include "codegen/cuda/backend.h"

namespace nabla::codegen {
namespace {

constexpr size_t kKernelsPerSource = 12;

std::string symbol_of(const kernel_ir::Kernel& kernel) {
  std::string symbol = "nk_" + kernel.name;
  for (char& c : symbol)
    if (!isalnum(static_cast<unsigned char>(c))) c = '_';
  return symbol;
}

}  // namespace

Result<CudaCode> print_cuda(const std::vector<kernel_ir::KernelPtr>& kernels, const ir::Target& target) {
  CudaCode out;
  std::string text;
  size_t printed = 0;
  bool procedures = false;
  auto flush = [&] {
    if (printed == 0) return;
    out.sources.push_back({fmt::format("{}_{}.cu", target.name, out.sources.size()),
                           cuda_prelude() + (procedures ? cuda_procedures() : "") + text});
    text.clear(), printed = 0, procedures = false;
  };
  for (const kernel_ir::KernelPtr& k : kernels) {
    ScopedActivity activity("printing kernel " + k->name);
    if (k->procedure && k->procedure->user)
      return error(Code::kNoLowering, "custom_call `{}` has C++ source only, none for {}", k->procedure->user->name,
                   target.name);
    CudaKernel code = NABLA_TRY(print_cuda(*k, symbol_of(*k), target));
    // Sources without procedures stay short.
    if (printed >= kKernelsPerSource || (printed > 0 && code.procedures != procedures)) flush();
    procedures = code.procedures;
    out.kernels.push_back({out.sources.size(), std::move(code.grids)});
    text += "\n" + code.text;
    ++printed;
  }
  flush();
  return out;
}

}  // namespace nabla::codegen
