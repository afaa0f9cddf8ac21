#include "codegen/compile_kernels.h"

#include "codegen/compiler_messages.h"
#include "codegen/cpu/backend.h"
#include "codegen/cpu/toolchain.h"
#include "codegen/cuda/backend.h"
#include "codegen/cuda/nvrtc.h"
#include "codegen/cuda/occupancy.h"
#include "codegen/user_text.h"
#include "ir/kernel_ir/kernel.h"
#include "ir/op_def.h"

namespace nabla::codegen {
namespace {

// Where a kernel is launched first.
LocationRef place_of(const ir::Module& module, const kernel_ir::Kernel& kernel) {
  for (const ir::FunctionPtr& f : module.functions)
    for (const ir::Node& n : f->nodes)
      if (n.op->name == "launch" && n.attrs.get_string("kernel") == kernel.name) return n.location;
  return nullptr;
}

Status require_user_texts(const ir::Module& module, const ir::Target& target) {
  Diagnostics missing;
  for (const kernel_ir::KernelPtr& k : module.kernels) {
    if (!k->procedure || !k->procedure->user) continue;
    const kernel_ir::UserCode& user = *k->procedure->user;
    const kernel_ir::UserText& text = target.is_cuda() ? user.cuda : user.cpp;
    if (!text.text.empty()) {
      NABLA_TRY(require_own_text(user, text));
      continue;
    }
    Diagnostic d = error(Code::kNoLowering, "custom_call `{}` has no {} source, which {} needs", user.name,
                         target.is_cuda() ? "CUDA" : "C++", target.name);
    d.location = place_of(module, *k);
    d.help = target.is_cuda()
                 ? "give it one with .cuda(source)"
                 : "give it one with cpp_kernel(name, signature, source), or compile for GPUs alone";
    missing.push_back(std::move(d));
  }
  if (!missing.empty()) return missing;
  return Ok{};
}

// "cpu" for every CPU: a bundle holds one CPU program.
Result<TargetCode> compile_cpu(const ir::Module& module, const ir::Target& target,
                               const ToolchainOptions& options) {
  TargetCode out;
  for (const kernel_ir::KernelPtr& k : module.kernels)
    if (k->procedure && k->procedure->def->gpu_only)
      return error(Code::kNoLowering, "kernel @{}: the procedure `{}` has code for GPUs only, none for {}", k->name,
                   k->procedure->def->name, target.name);
  CpuCode code = print_cpu(module.kernels, target, options.jobs);
  for (std::string& symbol : code.symbols) out.kernels.push_back({std::move(symbol), "kernels/cpu.so", {}});
  if (!module.kernels.empty()) {
    std::string object = NABLA_TRY(compile_shared_object(code.sources, target, options));
    out.code_bytes = object.size();
    out.members.emplace_back("kernels/cpu.so", std::move(object));
  }
  for (SourceFile& s : code.sources) out.members.emplace_back("source/" + s.name, std::move(s.text));
  return out;
}

Result<CodeGrid> grid_of(const kernel_ir::Kernel& kernel, size_t number, const CudaGrid& g, const CudaObject& object,
                         const ir::Target& target, std::string_view called) {
  CodeGrid out{g.symbol, g.blocks, g.threads, g.shared_bytes};
  const CubinKernel* code = nullptr;
  for (const CudaKernelFacts& facts : object.kernels) {
    if (facts.name != g.symbol) continue;
    NABLA_TRY(check_launch(facts, target, g.threads, g.shared_bytes, called));
    out.registers = facts.registers, out.local_bytes = facts.frame_bytes;
    out.static_shared_bytes = facts.static_shared_bytes;
    out.resident_warps = occupancy(facts, target, g.threads, g.shared_bytes).warps;
    out.warnings = facts.warnings;
    code = &facts;
  }
  out.predicted = predict_grid(kernel, number, target, code);
  out.maps = g.maps;
  return out;
}

Result<TargetCode> compile_gpu(const ir::Module& module, const ir::Target& target,
                               const ToolchainOptions& options) {
  TargetCode out;
  CudaCode code = NABLA_TRY(print_cuda(module, target));
  CudaBinary binary = NABLA_TRY(compile_cuda(code.sources, target, options));
  out.cuda = binary.major * 1000 + binary.minor * 10;
  auto object_of = [&](size_t source) {
    return fmt::format("kernels/{}_{}.{}", target.name, source, target.cuda.ptx ? "ptx" : "cubin");
  };
  for (size_t n = 0; n < code.kernels.size(); ++n) {
    const CudaCode::Kernel& k = code.kernels[n];
    TargetCode::Kernel kernel{k.grids.back().symbol, object_of(k.source), {}};
    for (size_t i = 0; i < k.grids.size(); ++i) {
      const auto& user = code.sources[k.source].user;
      Result<CodeGrid> made =
          grid_of(*module.kernels[n], i, k.grids[i], binary.objects[k.source], target, user ? user->name : std::string_view());
      if (!made.ok() && user) return user_beyond_limits(made.errors()[0], *user);
      if (!made.ok()) return made.errors();
      kernel.grids.push_back(std::move(*made));
    }
    out.kernels.push_back(std::move(kernel));
    for (const CudaGrid& grid : k.grids)
      for (const CudaKernelFacts& facts : binary.objects[k.source].kernels)
        if (facts.name == grid.symbol)
          for (const std::string& text : facts.advice)
            out.remarks.push_back({ir::RemarkKind::kSlowKernel, grid.symbol,
                                   fmt::format("kernel {} for {} is slower than it could be: {}", grid.symbol, target.name, text)});
  }
  for (size_t i = 0; i < binary.objects.size(); ++i) {
    out.code_bytes += binary.objects[i].bytes.size();
    out.members.emplace_back(object_of(i), std::move(binary.objects[i].bytes));
  }
  for (SourceFile& s : code.sources) out.members.emplace_back("source/" + s.name, std::move(s.text));
  return out;
}

}  // namespace

Result<TargetCode> compile_kernels(const ir::Module& module, const ir::Target& target,
                                   const ToolchainOptions& options) {
  NABLA_TRY(require_user_texts(module, target));
  return target.is_cuda() ? compile_gpu(module, target, options) : compile_cpu(module, target, options);
}

}  // namespace nabla::codegen
