#include "passes/shard/rules/attended.h"

#include <limits>

namespace nabla::passes {
namespace {

using ir::Val;

Val along_features(Val rows, const ir::Shape& shape) { return ir::broadcast_along(rows, shape, {3}); }
Val apply(const char* op, Val a) { return a.b->op(op, {a}); }
Val equals(Val v, double number) { return v.b->op("eq", {v, v.b->like(v, number)}); }
constexpr double kInf = std::numeric_limits<double>::infinity();

/// Of rows that see no key: 0 instead of -infinity.
Val finite(Val v) { return ir::select(equals(v, -kInf), v.b->zeros_like(v), v); }

/// Weights become shares of their sum; the logsumexp of all follows from the sum and the largest of the parts'.
struct Total {
  Val divisor, logsumexp;
};
Total total(Val sum, Val top) {
  ir::FunctionBuilder& b = *sum.b;
  Val empty = equals(sum, 0), divisor = ir::select(empty, b.like(sum, 1), sum);
  return {divisor, ir::select(empty, b.like(sum, -kInf), top + apply("log", divisor))};
}

}  // namespace

Attended attended(const std::vector<Val>& results) {
  return {ir::convert(results[0], results[1].dtype()), results[1]};
}

Attended combined(const Attended& x, const Attended& y) {
  Val top = finite(x.out.b->op("maximum", {x.logsumexp, y.logsumexp}));
  Val wx = apply("exp", x.logsumexp - top), wy = apply("exp", y.logsumexp - top);
  Total all = total(wx + wy, top);
  const ir::Shape& shape = x.out.shape();
  Val out = x.out * along_features(wx / all.divisor, shape) + y.out * along_features(wy / all.divisor, shape);
  return {out, all.logsumexp};
}

Attended combined_over_ranks(const RuleContext& c, const Attended& own, const ir::Axes& axes) {
  Val top = finite(all_reduce(c.mesh, own.logsumexp, axes, kernel_ir::Combiner::kMax));
  Val weight = apply("exp", own.logsumexp - top);
  Total all = total(all_reduce(c.mesh, weight, axes, kernel_ir::Combiner::kSum), top);
  return {own.out * along_features(weight / all.divisor, own.out.shape()), all.logsumexp};
}

}  // namespace nabla::passes
