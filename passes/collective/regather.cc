// Parameters that are gathered again for the backward pass.
#include <algorithm>
#include <set>

#include "passes/collective/collectives.h"
#include "passes/rewrite.h"

namespace nabla::passes {
namespace {

using ir::Function;
using ir::Node;
using ir::ValueId;

/// Which gathers of a function are made again, and for which of their readers.
class Regathers {
 public:
  explicit Regathers(const Function& f) : f_(f) {
    find_parameters();
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
  // Values that are parameters, or parts of them: movements alone make them.
  void find_parameters() {
    given_.assign(f_.values.size(), false);
    for (ValueId id : f_.params) given_[id] = true;
    for (const Node& n : f_.nodes) {
      bool moves = n.op->category == "movement" && !n.op->traits.fence && n.operands.size() == 1;
      for (ValueId id : n.results) given_[id] = moves && given_[n.operands[0]];
    }
  }
  bool gathers(const Node& n) const { return n.op->name == "all_gather" && given_[n.operands[0]]; }

  // Is another gather read for the first time after `last` and before `next`?
  bool others_between(size_t last, size_t next) const {
    auto at = std::upper_bound(first_reads_.begin(), first_reads_.end(), last);
    return at != first_reads_.end() && *at < next;
  }

  const Function& f_;
  std::vector<bool> given_;
  std::map<size_t, std::vector<size_t>> readers_;  // by gather
  std::vector<size_t> first_reads_;
};

}  // namespace

Result<ir::Module> regather(const ir::Module& module, PassContext& context) {
  const std::string& wanted = context.options.at("reshard-after-forward");
  if (wanted != "true" && wanted != "false")
    return error(Code::kBadOption, "regather: reshard-after-forward is true or false, not `{}`", wanted);
  if (!module.mesh()) return module;
  if (wanted == "false") {
    bool any = std::any_of(module.functions.begin(), module.functions.end(), [](const auto& f) { return !Regathers(*f).run().empty(); });
    if (!any) context.remarks.push_back("reshard-after-forward=false: no parameter would be gathered again for the way back in any case");
    return module;
  }
  ir::Module out = module;
  for (ir::FunctionPtr& f : out.functions) {
    auto again = Regathers(*f).run();
    if (again.empty()) continue;
    std::vector<int> makers = ir::producers(*f);
    std::map<std::pair<ValueId, int64_t>, ir::Val> made;
    FunctionCopy copy(*f, context.ops, &module);
    for (size_t i = 0; i < f->nodes.size(); ++i) {
      const Node& n = f->nodes[i];
      std::vector<std::pair<ValueId, ir::Val>> first;  // what later readers of the same value still have to get
      for (ValueId id : std::set<ValueId>(n.operands.begin(), n.operands.end())) {
        auto number = again.find({i, id});
        if (number == again.end()) continue;
        const Node& gather = f->nodes[static_cast<size_t>(makers[id])];
        ir::Val& value = made[{id, number->second}];
        if (!value.b) {
          copy.builder().set_location(gather.location);
          ir::Attrs attrs = gather.attrs;
          attrs.set("instance", number->second);
          value = copy.builder().op("all_gather", {copy.at(gather.operands[0])}, attrs);
        }
        first.emplace_back(id, copy.at(id));
        copy.set(id, value);
      }
      copy.copy(n);
      for (const auto& [id, value] : first) copy.set(id, value);
    }
    f = copy.finish();
  }
  return out;
}

}  // namespace nabla::passes
