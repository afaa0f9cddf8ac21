#include "ir/bill/memory.h"

#include <algorithm>
#include <set>

#include "ir/op_def.h"
#include "ir/plan.h"
#include "ir/typed.h"

namespace nabla::ir {
namespace {

using Kind = LeafRole::Kind;

int64_t largest(const Type& type) { return type.bytes().bounds().max; }

/// The nodes of a function before fusion that make gradients of parameters: what the new value of one follows from, before the
/// state meets it.
class GradientFinder {
 public:
  GradientFinder(const Function& f, size_t reads)
      : f_(f), makers_(producers(f)), follows_(f.values.size(), Follows::kNothing), seen_(f.values.size(), false) {
    for (size_t i = 0; i < reads; ++i) follows_[f.params[i]] = Follows::kState;
    for (const Node& n : f.nodes) {
      Follows out = Follows::kNothing;
      if (hands_on(n))
        for (ValueId id : n.operands) out = std::max(out, follows_[id]);
      else if (n.op->category != "creation" && n.op->lower != Lowering::kConstant)
        out = Follows::kGradients;
      for (ValueId id : n.results) follows_[id] = f.type(id).rank() == 0 ? Follows::kNothing : out;
    }
  }

  /// Goes back from the new value of a parameter.
  void add(ValueId written) {
    for (std::vector<ValueId> open = {written}; !open.empty();) {
      ValueId id = open.back();
      open.pop_back();
      if (seen_[id] || makers_[id] < 0 || follows_[id] == Follows::kNothing) continue;
      seen_[id] = true;
      const Node& n = f_.nodes[static_cast<size_t>(makers_[id])];
      if (follows_[id] == Follows::kGradients) found_.insert(makers_[id]);
      if (hands_on(n)) open.insert(open.end(), n.operands.begin(), n.operands.end());
      if (n.op->lower == Lowering::kControl) add_carry(n, id);
    }
  }
  const std::set<int>& nodes() const { return found_; }

 private:
  enum class Follows : uint8_t { kNothing, kGradients, kState };  // a value, from what

  static bool hands_on(const Node& n) {
    return n.op->lower == Lowering::kCollective || n.op->category == "movement" || n.op->category == "elementwise" ||
           n.op->name.ends_with("_update");
  }

  // What a loop adds up begins as an operand of it.
  void add_carry(const Node& n, ValueId id) {
    ControlFlow c = control_of(f_, n);
    auto result = static_cast<size_t>(std::find(n.results.begin(), n.results.end(), id) - n.results.begin());
    if (c.kind != ControlFlow::Kind::kLoop || result >= static_cast<size_t>(c.carries)) return;
    ValueId first = n.operands[static_cast<size_t>(c.consts) + result];
    if (makers_[first] >= 0) found_.insert(makers_[first]);
  }

  const Function& f_;
  std::vector<int> makers_;
  std::vector<Follows> follows_;
  std::vector<bool> seen_;
  std::set<int> found_;
};

std::set<int> gradients_of(const Function& f, const Entry& entry, const StateRoles& roles) {
  GradientFinder finder(f, entry.reads.size());
  for (size_t w = 0; w < entry.writes.size(); ++w)
    if (roles.leaves[static_cast<size_t>(entry.writes[w])].kind == Kind::kParameter) finder.add(f.results[w]);
  return finder.nodes();
}

void add_state(const Module& flat, const MemoryPlan& plan, const std::optional<StateRoles>& roles, EntryMemory& out) {
  StateBytes of[2];  // of the device and of the host
  int64_t all[2] = {};
  for (size_t i = 0; i < flat.state.size(); ++i) {
    const int64_t leaf = largest(flat.state[i].type);
    const bool host = plan.leaves[i].base == Base::kHost;
    const Kind kind = roles ? roles->leaves[i].kind : Kind::kOther;
    StateBytes& bytes = of[host];
    (kind == Kind::kParameter ? bytes.parameters : kind == Kind::kOptimizer ? bytes.optimizer : bytes.other) += leaf;
    all[host] += leaf;
  }
  for (StateBytes& bytes : of) bytes.by_role = roles.has_value();
  of[0].gaps = plan.state_bytes - all[0];
  of[1].gaps = plan.host_bytes - all[1];
  out.state = of[0];
  if (all[1] > 0) out.host = of[1];
}

}  // namespace

EntryMemory memory_by_use(const Module& flat, const Module& planned, const Entry& entry, const std::optional<StateRoles>& roles) {
  const Function &f = *flat.find(entry.function), &p = *planned.find(entry.function);
  const FunctionPlan& plan = planned.plan->functions.at(p.name);
  EntryMemory out;
  add_state(flat, *planned.plan, roles, out);
  std::set<int> gradients;
  if (roles) gradients = gradients_of(f, entry, *roles);
  std::vector<int> makers = producers(p);
  // The last node of its size that its maker computes is taken to be the value.
  auto is_gradient = [&](ValueId id) {
    if (makers[id] < 0) return false;
    const std::vector<int>& computes = p.nodes[static_cast<size_t>(makers[id])].computes;
    const std::string count = p.type(id).count().str();
    auto node = std::find_if(computes.rbegin(), computes.rend(), [&](int i) {
      const std::vector<ValueId>& made = f.nodes[static_cast<size_t>(i)].results;
      return std::any_of(made.begin(), made.end(), [&](ValueId v) { return f.type(v).count().str() == count; });
    });
    return node != computes.rend() && gradients.count(*node) > 0;
  };
  for (const auto& live : plan.at_peak) (is_gradient(live.value) ? out.gradients : out.temporaries) += live.bytes;
  if (auto scratch = plan.workspaces.find(plan.peak_node); scratch != plan.workspaces.end()) out.temporaries += scratch->second.bytes;
  out.state.gaps += plan.temporary_bytes - out.gradients - out.temporaries;
  for (size_t i = entry.reads.size(); i < f.params.size(); ++i) out.inputs += largest(f.type(f.params[i]));
  for (size_t i = entry.writes.size(); i < f.results.size(); ++i) out.outputs += largest(f.type(f.results[i]));
  return out;
}

}  // namespace nabla::ir
