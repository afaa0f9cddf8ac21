// Orders: argsort and top_k. Sorted values are read by the permutation, so that sorting is differentiable through
// gather.
#include "ir/ops/all_ops.h"
#include "ir/ops/procedure.h"

namespace nabla::ops {
namespace {

const char* const kOrder =
    " NaN counts as the largest number and -0 equals 0. The order is stable: elements that tie "
    "stay as they stand.";

int64_t sorted_axis(const Attrs& attrs) { return attrs.get_int("axis"); }

InferResult infer_argsort(const InferContext& ctx) {
  for (int i = 1; i < static_cast<int>(ctx.operands.size()); ++i) {
    NABLA_TRY(require_rank(ctx, i, ctx.rank(0), "C1"));
    for (int d = 0; d < ctx.rank(0); ++d)
      NABLA_TRY(
          ctx.require_equal(ctx.shape(i)[d], ctx.shape(0)[d], "C1", fmt::format("sizes of keys in dimension {}", d)));
  }
  NABLA_TRY(ctx.require_axis(sorted_axis(ctx.attrs), ctx.rank(0), "C3"));
  NABLA_TRY(require_position_dtype(ctx, "C2", ctx.shape(0)[sorted_axis(ctx.attrs)]));
  return Types{Type(ctx.attrs.get_dtype("dtype"), ctx.shape(0))};
}

Cost cost_sort(const TypedOp& op) {
  Cost cost = pointwise_cost(op, 0);
  cost.flops = op.operands[0].count() * 32 * static_cast<int64_t>(op.operands.size());
  return cost;
}

Example argsort_example(std::vector<Type> keys, int64_t axis, bool descending, ValueSpec values) {
  Example e{{}, {{"axis", axis}, {"descending", descending}}};
  for (Type& t : keys) {
    bool number = is_float(t.dtype);
    e.operands.push_back(operand(std::move(t), number ? values : between(0, 3)));
  }
  return e;
}

OpDef argsort() {
  return {
      .name = "argsort",
      .version = 1,
      .category = "sorting",
      .doc = std::string("Positions along `axis` in the order of the keys: by the first, where it ties by the second, "
                         "and so on. Row i of the result says which element comes i-th.") +
             kOrder,
      .operands = {{"keys", "numbers or bool, all of one shape", true}},
      .attrs = {required("axis", AttrKind::kInt, "along which rows lie"),
                optional("descending", "the largest first, by every key", false),
                optional("dtype", "of the positions: i32, i64, u32 or u64", DType::kI32)},
      .results = {{"order", "shaped like the keys"}},
      .constraints = {{"C1", "the keys have one shape"},
                      {"C2", kPositionDType},
                      {"C3", "the axis exists"}},
      .traits = {},
      .stages = ir::kTensorStages,
      .infer = infer_argsort,
      .reference = reference_by_procedure,
      .fold = fold_by_reference(),
      .decompose = ir::no_rule("a primitive: a procedure of kernel_ir"),
      .vjp = ir::not_differentiable("the result is an integer"),
      .jvp = ir::not_differentiable("the result is an integer"),
      .batch = batch_shifting({"axis"}),
      .factors = [](const TypedOp& t) { return factors_along(t, sorted_axis(t.attrs), Factors::Kind::kReplicate); },
      .access =
          [](const TypedOp& t) {
            return procedure_fragment(t, "argsort", sorted_axis(t.attrs), {t.attrs.get_bool("descending")});
          },
      .linearity = ir::not_linear(),
      .lower = Lowering::kAccess,
      .cost = cost_sort,
      .dtypes = DTypes::kAll,
      .examples = {argsort_example({f32({7})}, 0, false, distinct()),
                   argsort_example({f32({3, 100})}, 1, true, awkward(-2, 2)),
                   argsort_example({i32({70, 2}), f32({70, 2})}, 0, false, awkward(-2, 2)),
                   argsort_example({f32({2, 5, 3}), boolean({2, 5, 3}), f32({2, 5, 3})}, 1, true, between(-1, 1)),
                   argsort_example({f32({0})}, 0, false, {})},
      .draw =
          [](Rng& rng) {
            int rank = static_cast<int>(random_int(rng, 1, 3));
            Shape shape = random_shape(rng, rank, 400);
            std::vector<Type> keys = {f32(shape)};
            if (random_bool(rng)) keys.insert(keys.begin(), i32(shape));
            return argsort_example(keys, random_int(rng, 0, rank - 1), random_bool(rng), awkward(-2, 2));
          },
      .rejects = {{"C1", {f32({3}), f32({4})}, {{"axis", int64_t{0}}}},
                  {"C1", {f32({3}), f32({3, 1})}, {{"axis", int64_t{0}}}},
                  {"C2", {f32({3})}, {{"axis", int64_t{0}}, {"dtype", DType::kI16}}},
                  {"C2", {f32({2, (int64_t{1} << 31) + 1})}, {{"axis", int64_t{1}}}},
                  {"C3", {f32({3})}, {{"axis", int64_t{1}}}}},
  };
}

InferResult infer_top_k(const InferContext& ctx) {
  int64_t axis = sorted_axis(ctx.attrs), k = ctx.attrs.get_int("k");
  NABLA_TRY(ctx.require_axis(axis, ctx.rank(0), "C1"));
  const Dim& extent = ctx.shape(0)[axis];
  if (k < 0 || !Dim::less_equal(k, extent).value_or(false))
    return ctx.fail(Code::kBadAttribute, "C2", "k is {}, the axis has extent {}", k, extent.str());
  NABLA_TRY(require_position_dtype(ctx, "C3", extent));
  Type values = ctx.operands[0];
  values.shape[axis] = k;
  return Types{values, Type(ctx.attrs.get_dtype("dtype"), values.shape)};
}

OpDef top_k() {
  auto example = [](Shape shape, int64_t axis, int64_t k, bool largest, ValueSpec values) {
    return Example{{operand(f32(std::move(shape)), values)}, {{"axis", axis}, {"k", k}, {"largest", largest}}};
  };
  return {
      .name = "top_k",
      .version = 1,
      .category = "sorting",
      .doc = std::string("The k largest elements along `axis`, largest first, and their positions; or the smallest, "
                         "smallest first.") +
             kOrder,
      .operands = {{"x", "numbers or bool"}},
      .attrs = {required("k", AttrKind::kInt, "how many"), required("axis", AttrKind::kInt, "along which rows lie"),
                optional("largest", "or the smallest", true),
                optional("dtype", "of the positions: i32, i64, u32 or u64", DType::kI32)},
      .results = {{"values", "x with extent k along the axis"}, {"positions", "where they stand in x"}},
      .constraints = {{"C1", "the axis exists"},
                      {"C2", "k is at least 0 and at most the axis' extent"},
                      {"C3", kPositionDType}},
      .traits = {},
      .stages = ir::kTensorStages,
      .infer = infer_top_k,
      .reference = reference_by_procedure,
      .fold = fold_by_reference(),
      .decompose = ir::no_rule("a primitive: a procedure of kernel_ir"),
      .vjp = [](VjpContext& ctx) -> std::vector<MaybeVal> {
        if (ctx.result(0).type().count().is(0)) return {ctx.b.zeros_like(ctx.operand(0))};
        return {add_along(ctx.operand(0).shape(), ctx.result(1), ctx.ct(), sorted_axis(ctx.attrs()))};
      },
      .jvp = [](JvpContext& ctx) -> std::vector<MaybeVal> {
        if (ctx.result(0).type().count().is(0)) return {ctx.b.zeros_like(ctx.result(0)), std::nullopt};
        return {take_along(ctx.tangent(0), ctx.result(1), sorted_axis(ctx.attrs())), std::nullopt};
      },
      .batch = batch_shifting({"axis"}),
      .factors = [](const TypedOp& t) { return factors_along(t, sorted_axis(t.attrs), Factors::Kind::kReplicate); },
      .rank_rule = ir::RankRule::kTopK,
      .access =
          [](const TypedOp& t) {
            return procedure_fragment(t, "top_k", sorted_axis(t.attrs),
                                      {t.attrs.get_int("k"), t.attrs.get_bool("largest")});
          },
      .linearity = ir::not_linear(),
      .lower = Lowering::kAccess,
      .cost = cost_sort,
      .dtypes = DTypes::kAll,
      .examples = {example({7}, 0, 3, true, distinct()), example({3, 60}, 1, 5, false, distinct()),
                   example({40, 3}, 0, 40, true, distinct()), example({2, 4}, 1, 0, true, distinct())},
      .draw =
          [example](Rng& rng) {
            int rank = static_cast<int>(random_int(rng, 1, 3));
            Shape shape = random_shape(rng, rank, 300);
            int64_t axis = random_int(rng, 0, rank - 1);
            return example(shape, axis, random_int(rng, 0, shape[axis].value()), random_bool(rng), distinct());
          },
      .rejects = {{"C1", {f32({3})}, {{"axis", int64_t{1}}, {"k", int64_t{1}}}},
                  {"C2", {f32({3})}, {{"axis", int64_t{0}}, {"k", int64_t{4}}}},
                  {"C2", {f32({3})}, {{"axis", int64_t{0}}, {"k", int64_t{-1}}}},
                  {"C3", {f32({3})}, {{"axis", int64_t{0}}, {"k", int64_t{1}}, {"dtype", DType::kF32}}}},
  };
}

}  // namespace

std::vector<OpDef> sort_ops() { return {argsort(), top_k()}; }

}  // namespace nabla::ops
