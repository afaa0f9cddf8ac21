#include "codegen/cuda/backend.h"

#include "codegen/cpu/kernel_printer.h"

namespace nabla::codegen {
namespace {

constexpr size_t kKernelsPerSource = 12;

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
    CudaKernel code = NABLA_TRY(print_cuda(*k, kernel_symbol(*k), target));
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
