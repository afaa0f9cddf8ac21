#include "ir/cost/node_time.h"

#include "ir/kernel_ir/contract.h"
#include "ir/library/gemm.h"
#include "ir/op_def.h"

namespace nabla::ir {
namespace {

// Of one of the products of a batch; 0: there is one.
double product_of(const kernel_ir::Kernel& k, double flops) {
  auto contraction = kernel_ir::find_contraction(k);
  if (!contraction) return 0;
  for (int axis : contraction->batch) flops /= std::max(1.0, largest_size(k.axes[static_cast<size_t>(axis)].extent));
  return flops;
}
std::optional<GemmProblem> problem_of(const Function& f, const Node& n) {
  return n.op->lower == Lowering::kLibrary && n.op->name == "gemm" ? gemm_problem(n, f) : std::nullopt;
}

}  // namespace

NodeTimes::NodeTimes(const Module& module, const Target& target) : target_(target) {
  if (module.mesh()) ranks_ = module.mesh()->ranks();
  for (const kernel_ir::KernelPtr& k : module.kernels) {
    OfKernel of{kernel_work(*k)};
    if (!target.is_cuda()) of.product = product_of(*k, largest_size(of.work.flops)), of.operations = operations_of(*k);
    kernels_[k->name] = std::move(of);
  }
}

double NodeTimes::us(const Function& f, const Node& n, double reach) const {
  if (n.results.empty()) return 0;
  const Attr* name = n.attrs.find("kernel");
  auto kernel = name ? kernels_.find(std::get<std::string>(*name)) : kernels_.end();
  const std::optional<GemmProblem> gemm = problem_of(f, n);
  Work work{operand_bytes(f, n), node_flops(f, n), gemm ? gemm->factors() : f.type(n.results[0]).dtype};
  if (target_.is_cuda()) return least_us(kernel != kernels_.end() ? kernel->second.work : work, target_);
  ThreadWork thread;
  if (kernel != kernels_.end()) {
    work.bytes = Dim::min(work.bytes, kernel->second.work.bytes), work.flops = kernel->second.work.flops;
    thread.product = kernel->second.product, thread.operations = kernel->second.operations;
  } else if (gemm) {
    thread.product = 2 * largest_size(gemm->m) * largest_size(gemm->n) * largest_size(gemm->k);
  }
  thread.bytes = largest_size(work.bytes), thread.products = largest_size(work.flops);
  return thread_us(thread, target_.lanes(DType::kF32), target_.rates, {ranks_, reach});
}

}  // namespace nabla::ir
