// Parameters that are gathered again for the backward pass.
#include <algorithm>
#include <set>

#include "passes/collective/collectives.h"
#include "passes/collective/keep_gathers.h"
#include "passes/collective/parameters.h"
#include "passes/rewrite.h"

namespace nabla::passes {
namespace {

using ir::Function;
using ir::Node;
using ir::ValueId;

/// Which gathers of a function are made again, and for which of their readers.
class Regathers {
 public:
  explicit Regathers(const Function& f) : f_(f), brought_(brought_from_parameters(f)), makers_(ir::producers(f)) {
    std::map<ValueId, size_t> makers;
    for (size_t i = 0; i < f.nodes.size(); ++i) {
      if (gathers(f.nodes[i])) makers[f.nodes[i].results[0]] = i;
      for (ValueId id : std::set<ValueId>(f.nodes[i].operands.begin(), f.nodes[i].operands.end()))
        if (auto gather = makers.find(id); gather != makers.end()) readers_[gather->second].push_back(i);
    }
    // A result of the function has to be there at the end in any case.
    for (ValueId id : f.results)
      if (auto gather = makers.find(id); gather != makers.end()) readers_.erase(gather->second);
    for (const auto& [gather, readers] : readers_) first_reads_.push_back(readers.front());
    std::sort(first_reads_.begin(), first_reads_.end());
  }

  /// By node and operand: the number of the gather, counted from 0, that it reads.
  std::map<std::pair<size_t, ValueId>, int64_t> run() const {
    std::map<std::pair<size_t, ValueId>, int64_t> out;
    for (const auto& [gather, readers] : readers_) {
      int64_t number = 0;
      for (size_t k = 1; k < readers.size(); ++k) {
        if (others_between(readers[k - 1], readers[k])) ++number;
        if (number > 0) out[{readers[k], f_.nodes[gather].results[0]}] = number;
      }
    }
    return out;
  }

 private:
  // What stands behind a fence is made again already, by what put it there.
  bool is_fenced(ValueId id) const {
    for (int maker; (maker = makers_[id]) >= 0; id = f_.nodes[static_cast<size_t>(maker)].operands[0])
      if (f_.nodes[static_cast<size_t>(maker)].op->traits.fence) return true;
    return false;
  }
  bool gathers(const Node& n) const {
    return ir::is_collective(n, CollectiveKind::kAllGather) && brought_[n.operands[0]] && !is_fenced(n.operands[0]);
  }

  // Is another gather read for the first time after `last` and before `next`?
  bool others_between(size_t last, size_t next) const {
    auto at = std::upper_bound(first_reads_.begin(), first_reads_.end(), last);
    return at != first_reads_.end() && *at < next;
  }

  const Function& f_;
  std::vector<bool> brought_;
  std::vector<int> makers_;
  std::map<size_t, std::vector<size_t>> readers_;  // by gather
  std::vector<size_t> first_reads_;
};

/// A function with these gathers.
class Regathering {
 public:
  Regathering(const Function& f, const ir::Module& module, const ir::OpTable& ops)
      : f_(f), makers_(ir::producers(f)), copy_(f, ops, &module) {}

  ir::FunctionPtr run(const std::map<std::pair<size_t, ValueId>, int64_t>& again) {
    for (size_t i = 0; i < f_.nodes.size(); ++i) {
      const Node& n = f_.nodes[i];
      std::vector<std::pair<ValueId, ir::Val>> first;  // what later readers of the same value still have to get
      for (ValueId id : std::set<ValueId>(n.operands.begin(), n.operands.end())) {
        auto number = again.find({i, id});
        if (number == again.end()) continue;
        ir::Val& value = made_[{id, number->second}];
        if (!value.b) value = gather(f_.nodes[static_cast<size_t>(makers_[id])], number->second);
        first.emplace_back(id, copy_.at(id));
        copy_.set(id, value);
      }
      copy_.copy(n);
      for (const auto& [id, value] : first) copy_.set(id, value);
    }
    return copy_.finish();
  }

 private:
  ir::Val gather(const Node& n, int64_t number) {
    ir::Val part = brought(n.operands[0]);
    copy_.builder().set_location(n.location);
    ir::Attrs attrs = n.attrs;
    attrs.set("instance", number);
    return copy_.builder().op("all_gather", {part}, attrs);
  }
  // The rank's part once more: what has been made of a parameter (masters in bf16) is not kept meanwhile either.
  ir::Val brought(ValueId id) {
    if (makers_[id] < 0) return copy_.at(id);
    const Node& n = f_.nodes[static_cast<size_t>(makers_[id])];
    ir::Val of = brought(n.operands[0]);
    copy_.builder().set_location(n.location);
    if (makers_[n.operands[0]] < 0) of = copy_.builder().op("fence", {of});
    return copy_.builder().clone(n, {of})[0];
  }

  const Function& f_;
  std::vector<int> makers_;
  FunctionCopy copy_;
  std::map<std::pair<ValueId, int64_t>, ir::Val> made_;
};

ir::FunctionPtr with_regathers(const ir::FunctionPtr& f, const ir::Module& module, const ir::OpTable& ops) {
  auto again = Regathers(*f).run();
  return again.empty() ? f : Regathering(*f, module, ops).run(again);
}

}  // namespace

Result<ir::Module> regather(const ir::Module& module, PassContext& context) {
  if (!module.mesh()) return module;
  if (!context.options.regather.reshard_after_forward) {
    const size_t remarks = context.remarks.size();
    ir::Module kept = NABLA_TRY(with_kept_gathers(module, context));
    bool any = std::any_of(module.functions.begin(), module.functions.end(), [](const auto& f) { return !Regathers(*f).run().empty(); });
    if (!any && context.remarks.size() == remarks)
      context.remarks.push_back(
          {ir::RemarkKind::kNoRepeatedGather, "reshard-after-forward",
           "reshard-after-forward=false: no parameter would be gathered again for the way back in any case"});
    return kept;
  }
  ir::Module out = module;
  for (ir::FunctionPtr& f : out.functions) f = with_regathers(f, module, context.ops);
  return out;
}

}  // namespace nabla::passes
