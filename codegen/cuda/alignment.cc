#include "codegen/cuda/alignment.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>

#include "ir/kernel_ir/kernel.h"
#include "ir/library/call.h"
#include "ir/plan.h"

namespace nabla::codegen {
namespace {

constexpr int64_t kPack = 16;  // bytes

// Memory of a session, and what callers hand over, begins at larger multiples.
bool at_packs(const ir::Function& f, const ir::Placement& p, ir::ValueId id, bool entry) {
  if (p.offset < 0) return true;  // nobody reads it
  if (p.offset % kPack != 0) return false;
  if (entry || (p.base != ir::Base::kInput && p.base != ir::Base::kOutput)) return true;
  // Of a loop's body it may be one of many that lie side by side.
  ir::Dim bytes = f.type(id).bytes();
  return bytes.is_static() && bytes.value() % kPack == 0;
}

}  // namespace

std::vector<bool> kernels_at_packs(const ir::Module& module) {
  std::set<std::string> called;
  for (const ir::FunctionPtr& f : module.functions)
    for (const ir::Node& n : f->nodes)
      for (const std::string& name : ir::functions_of(n.attrs)) called.insert(name);
  std::map<std::string, bool> by_name;
  for (const ir::FunctionPtr& function : module.functions) {
    const ir::Function& f = *function;
    auto plan = module.plan->functions.find(f.name);
    if (plan == module.plan->functions.end()) continue;
    const bool entry = module.entry_of(f.name) != nullptr && !called.contains(f.name);
    for (const ir::Node& n : f.nodes) {
      std::optional<std::string> kernel = ir::kernel_of(n);
      if (!kernel) continue;
      bool& all = by_name.try_emplace(*kernel, true).first->second;
      for (const auto* ids : {&n.operands, &n.results})
        for (ir::ValueId id : *ids) all &= at_packs(f, plan->second.values[id], id, entry);
    }
  }
  std::vector<bool> out;
  for (const kernel_ir::KernelPtr& k : module.kernels) {
    auto found = by_name.find(k->name);
    out.push_back(found != by_name.end() && found->second);
  }
  return out;
}

}  // namespace nabla::codegen
