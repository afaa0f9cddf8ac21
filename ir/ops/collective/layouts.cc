// What a program says of layouts beside `shard`: values that are laid out alike, and where axes do not go on.
#include <fmt/ranges.h>

#include "ir/ops/all_ops.h"
#include "ir/ops/collective/layout_op.h"

namespace nabla::ops {

OpDef layout_op(std::string name, ir::LayoutRole role, std::string doc) {
  return {
      .name = std::move(name),
      .version = 1,
      .category = "movement",
      .doc = std::move(doc),
      .operands = {},
      .attrs = {},
      .results = {},
      .constraints = {},
      .traits = {},
      .stages = ir::stages(ir::Stage::kTraced, ir::Stage::kSharded),
      .infer = nullptr,
      .reference =
          [](const EvalContext& ctx) {
            return Literals{ctx.operands.begin(), ctx.operands.end()};
          },
      .fold = ir::no_rule("a constant is laid out as it is wanted"),
      .decompose = ir::no_rule("it says something of layouts"),
      .vjp = ir::no_rule(""),
      .jvp = jvp_linear,
      .batch = batch_elementwise,
      .factors = Factors::pointwise,
      .access = ir::no_rule("`partition` takes it away"),
      .linearity = ir::not_linear(),
      .lower = Lowering::kTransform,
      .cost = [](const TypedOp& op) { return ir::pointwise_cost(op, 0); },
      .layout_role = role,
      .dtypes = DTypes::kAll,
      .examples = {},
      .draw = nullptr,
      .rejects = {},
  };
}

namespace {

OpDef shard_as_op() {
  OpDef op =
      layout_op("shard_as", ir::LayoutRole::kShardAs,
                "x and y, laid out alike, as propagation finds best for both. The model is JAX's shard_alike and "
                "Shardy's sharding groups.");
  op.operands = {{"x", "any"}, {"y", "of the same shape"}};
  op.results = {{"x_out", "x"}, {"y_out", "y"}};
  op.constraints = {{"C1", "x and y have the same shape"}};
  op.infer = [](const InferContext& ctx) -> InferResult {
    const Type &x = ctx.operands[0], &y = ctx.operands[1];
    if (x.rank() != y.rank())
      return ctx.fail(Code::kShapeMismatch, "C1", "{} and {} are to be laid out alike", x.str(), y.str());
    for (int d = 0; d < x.rank(); ++d)
      NABLA_TRY(ctx.require_equal(x.shape[d], y.shape[d], "C1", fmt::format("sizes in dimension {}", d)));
    return Types{x, y};
  };
  op.vjp = [](VjpContext& ctx) -> std::vector<MaybeVal> {
    if (!ctx.cotangents[0] || !ctx.cotangents[1]) return ctx.cotangents;
    std::vector<Val> out = ctx.b.add("shard_as", {*ctx.cotangents[0], *ctx.cotangents[1]});
    return {out[0], out[1]};
  };
  op.jvp = [](JvpContext& ctx) -> std::vector<MaybeVal> {
    if (!ctx.tangents[0] || !ctx.tangents[1]) return ctx.tangents;
    std::vector<Val> out = ctx.b.add("shard_as", {*ctx.tangents[0], *ctx.tangents[1]});
    return {out[0], out[1]};
  };
  op.batch = [](BatchContext& ctx) { return batch_with(ctx, {}); };
  op.examples = {{{operand(f32({4, 3})), operand(f32({4, 3}))}, {}}};
  op.draw = [](Rng& rng) {
    Shape shape = random_shape(rng, static_cast<int>(random_int(rng, 0, 3)));
    return Example{{operand(f32(shape)), operand(f32(shape))}, {}};
  };
  op.rejects = {{"C1", {f32({4}), f32({4, 1})}, {}}, {"C1", {f32({4}), f32({3})}, {}}};
  return op;
}

constexpr const char* kDirections[] = {"none", "forward", "backward", "both", "strong"};

OpDef barrier_op() {
  auto direction = [](const char* text) { return Attrs{{"direction", std::string(text)}}; };
  OpDef op =
      layout_op("propagation_barrier", ir::LayoutRole::kBarrier,
                "x. Propagation takes the axes of x's dimensions on to the result in direction \"forward\", those of "
                "the result back to x in direction \"backward\", and neither in direction \"none\": a layout on one "
                "side then says nothing of the other. In direction \"strong\" axes that were asked for with priority 0 go "
                "both ways, and weaker ones neither. The model is Shardy's.");
  op.operands = {{"x", "any"}};
  op.results = {{"y", "x"}};
  op.attrs = {optional("direction", "\"none\", \"forward\", \"backward\", \"both\" or \"strong\": which way axes may go",
                       std::string("none"))};
  op.constraints = {{"C1", "direction is one of those"}};
  op.infer = [](const InferContext& ctx) -> InferResult {
    const std::string& d = ctx.attrs.get_string("direction");
    for (const char* known : kDirections)
      if (d == known) return Types{ctx.operands[0]};
    return ctx.fail(Code::kBadAttribute, "C1", "direction is \"{}\", expected one of {{{}}}", d, fmt::join(kDirections, ", "));
  };
  // Cotangents go the other way, between the same sides.
  op.vjp = [=](VjpContext& ctx) -> std::vector<MaybeVal> {
    const std::string& d = ctx.attrs().get_string("direction");
    const char* back = d == "forward" ? "backward" : d == "backward" ? "forward" : d.c_str();
    return {ctx.b.op("propagation_barrier", {ctx.ct()}, direction(back))};
  };
  op.examples = {{{operand(f32({4, 3}))}, direction("none")}, {{operand(f32({4, 3}))}, direction("forward")}};
  op.draw = [=](Rng& rng) {
    return Example{{operand(f32(random_shape(rng, static_cast<int>(random_int(rng, 0, 3)))))},
                   direction(kDirections[rng() % std::size(kDirections)])};
  };
  op.rejects = {{"C1", {f32({4})}, direction("sideways")}};
  return op;
}

}  // namespace

std::vector<OpDef> layout_ops() { return {shard_as_op(), shard_by_rule_op(), barrier_op()}; }

}  // namespace nabla::ops
