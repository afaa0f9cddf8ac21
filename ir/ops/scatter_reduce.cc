// Scatters that keep an extreme or multiply: scatter_max, scatter_min, scatter_mul.
#include "ir/ops/access.h"
#include "ir/ops/all_ops.h"
#include "ir/ops/gather_scatter.h"

namespace nabla::ops {
namespace {

using kernel_ir::Combiner;

/// Who holds the extreme at each place: 1 or 0 for the operand's elements and for the updates, and how many tie.
struct Winners {
  Val operand, updates, count;
};
Winners winners(FunctionBuilder& b, const TypedOp& op, const std::vector<Val>& operands, Val result) {
  auto equal = [](Val x, Val y) { return convert(apply("eq", x, y), x.dtype()); };
  Winners w;
  w.operand = equal(operands[0], result);
  w.updates = equal(operands[2], gather_updates(b, op, result, operands[1]));
  w.count = b.op("scatter_add", {w.operand, operands[1], w.updates}, op.attrs);
  return w;
}

std::vector<MaybeVal> vjp_extreme(VjpContext& ctx) {
  Winners w = winners(ctx.b, ctx.op, ctx.operands, ctx.result());
  Val share = ctx.ct() / w.count;
  std::vector<MaybeVal> out(3);
  if (ctx.active[0]) out[0] = share * w.operand;
  if (ctx.active[2]) out[2] = gather_updates(ctx.b, ctx.op, share, ctx.operand(1)) * w.updates;
  return out;
}

std::vector<MaybeVal> jvp_extreme(JvpContext& ctx) {
  Winners w = winners(ctx.b, ctx.op, ctx.operands, ctx.result());
  Val of_operand = ctx.tangent(0) * w.operand, of_updates = ctx.tangent(2) * w.updates;
  return {ctx.b.op("scatter_add", {of_operand, ctx.operand(1), of_updates}, ctx.attrs()) / w.count};
}

OpDef extreme(const char* name, const char* which, Combiner combiner) {
  OpDef op = make_scatter(name,
                          std::string("The ") + which +
                              " of the operand and the updates at computed places. NaN wins. The derivative is shared "
                              "equally among those that tie.",
                          combiner);
  op.vjp = vjp_extreme;
  op.jvp = jvp_extreme;
  op.linearity = ir::not_linear();
  return op;
}

OpDef product() {
  OpDef op =
      make_scatter("scatter_mul",
                   "Multiplies the operand by updates at computed places. Several updates of one place all count; "
                   "8- and 16-bit floats are multiplied in f32 and rounded once, integers wrap.",
                   Combiner::kProd);
  const char* why = "the product without one of its factors would need a division, which zeros forbid";
  op.vjp = ir::not_differentiable(why);
  op.jvp = ir::not_differentiable(why);
  op.linearity = ir::linear_in_each({0});
  return op;
}

}  // namespace

std::vector<OpDef> scatter_reduce_ops() {
  return {extreme("scatter_max", "largest", Combiner::kMax), extreme("scatter_min", "smallest", Combiner::kMin),
          product()};
}

}  // namespace nabla::ops
