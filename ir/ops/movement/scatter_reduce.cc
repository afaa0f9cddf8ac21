// Scatters that keep an extreme or multiply: scatter_max, scatter_min, scatter_mul.
#include "ir/ops/access.h"
#include "ir/ops/all_ops.h"
#include "ir/ops/movement/gather_scatter.h"

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

// ---- Products. The derivative by a factor is the product of the others: of those that are not zero, divided by the
// factor itself; or nothing, where another one is zero.

struct Factored {
  Val product, zeros;  ///< at each place: of the factors that are not zero; how many are zero
};
Val is_zero(Val v) { return apply("eq", v, v.b->zeros_like(v)); }
Val without_zeros(Val v) { return select(is_zero(v), v.b->like(v, 1), v); }

Factored factored(FunctionBuilder& b, const TypedOp& op, const std::vector<Val>& operands) {
  auto scatter = [&](const char* name, Val x, Val updates) { return b.op(name, {x, operands[1], updates}, op.attrs); };
  auto count = [](Val v) { return convert(is_zero(v), v.dtype()); };
  return {scatter("scatter_mul", without_zeros(operands[0]), without_zeros(operands[2])),
          scatter("scatter_add", count(operands[0]), count(operands[2]))};
}
/// The product of what stands at v's places beside v.
Val beside(Val v, const Factored& f) {
  Val none = v.b->zeros_like(v), divided = f.product / without_zeros(v);
  Val alone = apply("eq", f.zeros, v.b->like(v, 1));
  return select(is_zero(v), select(alone, f.product, none), select(is_zero(f.zeros), divided, none));
}
Factored values_at(FunctionBuilder& b, const TypedOp& op, const Factored& f, Val indices) {
  return {gather_updates(b, op, f.product, indices), gather_updates(b, op, f.zeros, indices)};
}

std::vector<MaybeVal> vjp_product(VjpContext& ctx) {
  Factored f = factored(ctx.b, ctx.op, ctx.operands);
  std::vector<MaybeVal> out(3);
  if (ctx.active[0]) out[0] = ctx.ct() * beside(ctx.operand(0), f);
  if (ctx.active[2])
    out[2] = gather_updates(ctx.b, ctx.op, ctx.ct(), ctx.operand(1)) *
             beside(ctx.operand(2), values_at(ctx.b, ctx.op, f, ctx.operand(1)));
  return out;
}

std::vector<MaybeVal> jvp_product(JvpContext& ctx) {
  Factored f = factored(ctx.b, ctx.op, ctx.operands);
  Val of_operand = ctx.tangent(0) * beside(ctx.operand(0), f);
  Val of_updates = ctx.tangent(2) * beside(ctx.operand(2), values_at(ctx.b, ctx.op, f, ctx.operand(1)));
  return {ctx.b.op("scatter_add", {of_operand, ctx.operand(1), of_updates}, ctx.attrs())};
}

OpDef product() {
  OpDef op =
      make_scatter("scatter_mul",
                   "Multiplies the operand by updates at computed places. Several updates of one place all count; "
                   "8- and 16-bit floats are multiplied in f32 and rounded once, integers wrap. The derivative holds "
                   "for zeros too; a derivative of the derivative only where no factor is zero.",
                   Combiner::kProd);
  op.vjp = vjp_product;
  op.jvp = jvp_product;
  op.linearity = ir::linear_in_each({0});
  return op;
}

}  // namespace

std::vector<OpDef> scatter_reduce_ops() {
  return {extreme("scatter_max", "largest", Combiner::kMax), extreme("scatter_min", "smallest", Combiner::kMin),
          product()};
}

}  // namespace nabla::ops
