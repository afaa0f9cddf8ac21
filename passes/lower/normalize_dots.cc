#include "passes/lower/normalize_dots.h"

#include <algorithm>

#include "ir/library/gemm.h"
#include "passes/rewrite.h"

namespace nabla::passes {
namespace {

// An operand with each part merged into one dimension, in the order in which the parts lie in memory.
struct Merged {
  ir::Val value;
  int batch = -1, free = -1, contract = -1;  // dimensions of value
};
Merged merge(ir::Val v, const ir::DotSide& s) {
  std::vector<const ir::Ints*> parts;
  for (const ir::Ints* p : {&s.batch, &s.free, &s.contract})
    if (!p->empty()) parts.push_back(p);
  std::sort(parts.begin(), parts.end(), [](const ir::Ints* a, const ir::Ints* b) { return a->front() < b->front(); });
  ir::Ints order;
  for (const ir::Ints* p : parts) order.insert(order.end(), p->begin(), p->end());
  if (!std::is_sorted(order.begin(), order.end())) v = ir::transpose(v, order);
  ir::Shape shape;
  Merged out;
  for (const ir::Ints* p : parts) {
    ir::Dim extent(1);
    int64_t place = std::find(order.begin(), order.end(), p->front()) - order.begin();
    for (size_t i = 0; i < p->size(); ++i) extent = extent * v.shape()[place + i];
    int at = static_cast<int>(shape.size());
    shape.push_back(extent);
    (p == &s.batch ? out.batch : p == &s.free ? out.free : out.contract) = at;
  }
  out.value = ir::reshape(v, shape);
  return out;
}

ir::Ints one(int d) { return d < 0 ? ir::Ints{} : ir::Ints{d}; }

}  // namespace

ir::Function normalize_dots(const ir::Function& f, const ir::Module& m, const ir::OpTable& ops) {
  FunctionCopy copy(f, ops, &m);
  ir::FunctionBuilder& b = copy.builder();
  for (const ir::Node& n : f.nodes) {
    bool dot = n.op->lower == ir::Lowering::kContraction;
    b.set_computes(dot ? std::vector<int>() : n.computes);
    if (!dot) {
      copy.copy(n);
      continue;
    }
    b.set_location(n.location);
    std::vector<ir::Val> operands = copy.at(n.operands);
    ir::DotSides sides = ir::dot_sides(n, operands[0].rank(), operands[1].rank());
    Merged lhs = merge(operands[0], sides.lhs), rhs = merge(operands[1], sides.rhs);
    b.set_computes(n.computes);  // not what brings operands and result into shape
    ir::Val out = b.op(n.op->name, {lhs.value, rhs.value},
                       {{"lhs_contract", one(lhs.contract)},
                        {"rhs_contract", one(rhs.contract)},
                        {"lhs_batch", one(lhs.batch)},
                        {"rhs_batch", one(rhs.batch)}});
    b.set_computes({});
    copy.set(n.results[0], ir::reshape(out, f.type(n.results[0]).shape));
  }
  return *copy.finish();
}

}  // namespace nabla::passes
