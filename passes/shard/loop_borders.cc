#include "passes/shard/loop_borders.h"

#include <algorithm>

#include "passes/rewrite.h"
#include "passes/shard/layout.h"

namespace nabla::passes {
namespace {

using ir::Function;
using ir::Node;
using ir::ValueId;

bool has_weak_layouts(const ir::Module& m) {
  return std::any_of(m.state.begin(), m.state.end(), [](const ir::StateLeaf& leaf) {
    return leaf.sharding && std::any_of(leaf.sharding->dims.begin(), leaf.sharding->dims.end(),
                                        [](const ir::DimSharding& d) { return d.priority > 0; });
  });
}

class LoopBorders {
 public:
  LoopBorders(const Function& f, const ir::Module& m, const ir::OpTable& ops) : f_(f), copy_(f, ops, &m), free_(made_of_scalars(f)) {}

  ir::FunctionPtr run() {
    for (const Node& n : f_.nodes) {
      if (n.op->lower == ir::Lowering::kControl && ir::control_of(f_, n).kind != ir::ControlFlow::Kind::kBranch)
        add(n, ir::control_of(f_, n));
      else
        copy_.copy(n);
    }
    return copy_.finish();
  }

 private:
  void add(const Node& n, const ir::ControlFlow& loop) {
    copy_.builder().set_location(n.location);
    std::vector<ir::Val> operands = copy_.at(n.operands);
    for (size_t i = 0; i < static_cast<size_t>(loop.consts); ++i) operands[i] = border(operands[i]);
    std::vector<ir::Val> results = copy_.builder().clone(n, operands);
    for (size_t r = 0; r < static_cast<size_t>(loop.carries); ++r)
      if (free_[static_cast<size_t>(n.operands[static_cast<size_t>(loop.consts) + r])]) results[r] = border(results[r]);
    copy_.set(n.results, results);
  }
  ir::Val border(ir::Val v) {
    if (v.rank() == 0) return v;
    return copy_.builder().op("propagation_barrier", {v}, {{"direction", std::string("strong")}});
  }

  const Function& f_;
  FunctionCopy copy_;
  const std::vector<char> free_;  // by value: is it made of nothing but scalars?
};

}  // namespace

ir::Module with_loop_borders(const ir::Module& flat, const ir::OpTable& ops) {
  ir::Module out = flat;
  if (!has_weak_layouts(flat)) return out;
  for (const ir::FunctionPtr& f : flat.functions)
    if (std::any_of(f->nodes.begin(), f->nodes.end(), [](const Node& n) { return n.op->lower == ir::Lowering::kControl; }))
      out.set(LoopBorders(*f, flat, ops).run());
  return out;
}

}  // namespace nabla::passes
