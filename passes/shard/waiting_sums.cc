#include "passes/shard/waiting_sums.h"

#include <utility>

#include "ir/op_def.h"

namespace nabla::passes {

using ir::Axes;
using ir::Node;
using ir::ValueId;

WaitingSums::WaitingSums(const ir::Function& f, std::function<const Axes&(ValueId)> pending, std::function<void(const Node&)> add)
    : f_(f), pending_(std::move(pending)), add_(std::move(add)), only_added_(f.values.size(), false) {
  std::vector<int> uses(f.values.size(), 0);
  for (const Node& n : f.nodes)
    for (ValueId id : n.operands) ++uses[static_cast<size_t>(id)];
  for (ValueId id : f.results) ++uses[static_cast<size_t>(id)];
  for (const Node& n : f.nodes)
    for (ValueId id : n.operands)
      only_added_[static_cast<size_t>(id)] = n.op->form == ir::OpForm::kAdd && uses[static_cast<size_t>(id)] == 1;
}

void WaitingSums::join(const Node& n, ValueId a, ValueId b, ValueId sum) const {
  Node out = n;
  out.operands = {a, b}, out.results = {sum};
  add_(out);
}

bool WaitingSums::take(const Node& n) {
  if (n.op->form != ir::OpForm::kAdd) return false;
  std::vector<ValueId> complete, pending, free;  // free: values that waited, whose places hold sums of their terms now
  for (ValueId id : n.operands) {
    if (auto waits = waiting_.find(id); waits != waiting_.end()) {
      complete.push_back(waits->second.complete), pending.push_back(waits->second.pending), free.push_back(id);
    } else {
      (pending_(id).empty() ? complete : pending).push_back(id);
    }
  }
  if (pending.empty() || complete.empty()) return false;
  const ValueId result = n.results[0];
  if (free.empty() && !only_added_[static_cast<size_t>(result)]) return false;
  if (pending.size() == 2 && pending_(pending[0]) != pending_(pending[1])) {
    // The two operands are pending over different axes, so they cannot be added. Additions that waited are computed now.
    for (ValueId id : free) {
      const Terms terms = waiting_.at(id);
      waiting_.erase(id);
      join(n, terms.complete, terms.pending, id);
    }
    join(n, n.operands[0], n.operands[1], result);
    return true;
  }
  auto one_of = [&](const std::vector<ValueId>& terms) {
    if (terms.size() == 1) return terms[0];
    const ValueId sum = free.back();
    free.pop_back(), waiting_.erase(sum);
    join(n, terms[0], terms[1], sum);
    return sum;
  };
  const ValueId of_ranks = one_of(pending), own = one_of(complete);
  if (only_added_[static_cast<size_t>(result)])
    waiting_[result] = {own, of_ranks};
  else
    join(n, own, of_ranks, result);
  return true;
}

}  // namespace nabla::passes
