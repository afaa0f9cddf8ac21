#include "codegen/cuda/backend.h"

#include "codegen/cuda/alignment.h"
#include "codegen/cuda/user_printer.h"
#include "codegen/print/procedure_call.h"
#include "codegen/user_text.h"

namespace nabla::codegen {
namespace {

constexpr size_t kKernelsPerSource = 12;

}  // namespace

Result<CudaCode> print_cuda(const ir::Module& module, const ir::Target& target) {
  const std::vector<bool> at_packs = kernels_at_packs(module);
  CudaCode out;
  std::string text;
  size_t printed = 0;
  bool procedures = false;
  auto file_name = [&] { return fmt::format("{}_{}.cu", target.name, out.sources.size()); };
  auto flush = [&] {
    if (printed == 0) return;
    out.sources.push_back({file_name(), cuda_prelude() + (procedures ? cuda_procedures() : "") + text});
    text.clear(), printed = 0, procedures = false;
  };
  for (size_t n = 0; n < module.kernels.size(); ++n) {
    const kernel_ir::KernelPtr& k = module.kernels[n];
    ScopedActivity activity("printing kernel " + k->name);
    if (k->procedure && k->procedure->user) {
      const kernel_ir::UserCode& user = *k->procedure->user;
      NABLA_TRY(require_device_function(*k));
      flush();
      CudaKernel code = print_user_cuda(*k, kernel_symbol(*k));
      out.kernels.push_back({out.sources.size(), std::move(code.grids)});
      out.sources.push_back({file_name(), std::move(code.text), UserSource{user.name, user.cuda, cuda_prototype(*k)}});
      continue;
    }
    CudaKernel code = print_cuda(*k, kernel_symbol(*k), at_packs[n]);
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
