#include "passes/lower/schedule_kernels.h"

#include <algorithm>
#include <map>

#include "ir/library/call.h"
#include "passes/lower/launch.h"
#include "passes/rewrite.h"

namespace nabla::passes {
namespace {

struct Scheduled {
  std::string name;                  // of the kernel, or of the first that is equal to it
  std::vector<ir::Type> workspaces;  // which its schedule added
};
using ScheduledKernels = std::map<std::string, Scheduled, std::less<>>;

Result<kernel_ir::Kernel> scheduled(kernel_ir::Kernel k, const ir::Target& target) {
  if (!k.procedure) {
    merge_axes(k, target);
    split_products(k, target);
    split_reductions(k, target);
    split_scatters(k, target);
    split_joins(k, target);
  }
  if (target.is_cuda())
    NABLA_TRY(schedule_cuda(k, target));
  else
    schedule_cpu(k, target);
  Status ok = kernel_ir::verify(k);
  NABLA_CHECK(ok.ok(), "{}{}", ok.ok() ? "" : to_string(ok.errors()), kernel_ir::print(k));
  return k;
}

int64_t bytes_of(const ir::Ints& scratch) {
  int64_t out = 0;
  for (int64_t bytes : scratch)
    out += (bytes + ir::kLibraryWorkspaceAlignment - 1) / ir::kLibraryWorkspaceAlignment * ir::kLibraryWorkspaceAlignment;
  return out;
}

// The attributes of a library call whose fallback was scheduled.
ir::Attrs with_fallback(const ir::Node& n, const Scheduled& kernel) {
  ir::FallbackKernel fallback = *ir::fallback_kernel(n);
  fallback.kernel = kernel.name, fallback.scratch = {};
  for (const ir::Type& t : kernel.workspaces) fallback.scratch.push_back(t.bytes().bounds().max);
  fallback.workspace_bytes = std::max(fallback.workspace_bytes, bytes_of(fallback.scratch));
  ir::Attrs attrs = n.attrs;
  ir::set_fallback_kernel(attrs, fallback);
  return attrs;
}

// Scratch memory is a value of the module: the loader's limit, told by what the user wrote.
Status check_workspaces(const ir::Module& m, const std::string& kernel, const std::vector<ir::Type>& workspaces) {
  for (const ir::Type& type : workspaces) {
    int64_t bytes = type.bytes().bounds().max;
    if (bytes <= kMaxArrayBytes) continue;
    Diagnostic d = error(Code::kOverBudget, "kernel @{} needs {} bytes of scratch memory, at most {} are allowed",
                         kernel, bytes, kMaxArrayBytes);
    d.help = "make its operands, or the upper bounds of their sizes, smaller";
    for (const ir::FunctionPtr& f : m.functions)
      for (const ir::Node& n : f->nodes)
        if (ir::kernel_of(n) == kernel) d.location = n.location;
    return d;
  }
  return Ok{};
}

// The launches and calls of what was scheduled, with its names and workspaces.
ir::FunctionPtr rewired(const ir::Function& f, const ir::Module& m, const ir::OpTable& ops,
                        const ScheduledKernels& kernels) {
  FunctionCopy copy(f, ops, &m);
  ir::FunctionBuilder& b = copy.builder();
  for (const ir::Node& n : f.nodes) {
    std::optional<std::string> name = ir::kernel_of(n);
    auto found = name ? kernels.find(*name) : kernels.end();
    const Scheduled* kernel = found == kernels.end() ? nullptr : &found->second;
    b.set_computes(n.computes);
    if (!kernel) {
      copy.copy(n);
      continue;
    }
    b.set_location(n.location);
    std::vector<ir::Type> results = f.types(n.results);
    bool launch = n.op->lower == ir::Lowering::kCall;
    if (launch) results.insert(results.end(), kernel->workspaces.begin(), kernel->workspaces.end());
    ir::Attrs attrs = launch ? launch_attrs(kernel->name, results) : with_fallback(n, *kernel);
    std::vector<ir::Val> values = b.add(n.op->name, copy.at(n.operands), attrs);
    values.resize(n.results.size());  // workspaces come last, and nobody reads them
    copy.set(n.results, values);
  }
  return copy.finish();
}

}  // namespace

Result<ir::Module> schedule_kernels(const ir::Module& module, PassContext& context) {
  ir::Module out = module;
  out.kernels.clear();
  ScheduledKernels changed;  // those whose launches change
  DistinctKernels distinct;
  ScopedActivity activity("schedule-kernels");
  for (const kernel_ir::KernelPtr& k : module.kernels) {
    if (k->schedule) {
      out.kernels.push_back(k);
      continue;
    }
    kernel_ir::Kernel made = NABLA_TRY(scheduled(*k, context.target));
    Scheduled after;
    for (size_t i = k->buffers.size(); i < made.buffers.size(); ++i)
      after.workspaces.emplace_back(made.buffers[i].dtype, made.buffers[i].shape);
    (void)NABLA_TRY(check_workspaces(module, k->name, after.workspaces));
    kernel_ir::KernelPtr own = std::make_shared<const kernel_ir::Kernel>(std::move(made)), first = distinct.find_or_add(own);
    after.name = first->name;
    if (first == own) out.kernels.push_back(own);
    if (first != own || !after.workspaces.empty()) changed[k->name] = std::move(after);
  }
  if (changed.empty()) return out;
  for (ir::FunctionPtr& f : out.functions) f = rewired(*f, module, context.ops, changed);
  return out;
}

}  // namespace nabla::passes
