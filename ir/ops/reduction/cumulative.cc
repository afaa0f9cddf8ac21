// Running combinations along one axis: cumsum, cumprod, cummax, cummin, and the positions of running extremes.
#include "ir/ops/all_ops.h"
#include "ir/ops/procedure.h"

namespace nabla::ops {
namespace {

int64_t axis_of(const Attrs& attrs) { return attrs.get_int("axis"); }

InferResult infer_cumulative(const InferContext& ctx, bool static_axis) {
  if (ctx.operands[0].dtype == DType::kBool)
    return ctx.fail(Code::kDTypeMismatch, "C1", "the operand must be a number, got bool");
  NABLA_TRY(ctx.require_axis(axis_of(ctx.attrs), ctx.rank(0), "C2"));
  const Dim& extent = ctx.shape(0)[axis_of(ctx.attrs)];
  if (static_axis && !extent.is_static())
    return ctx.fail(Code::kShapeMismatch, "C3", "the axis has the symbolic size {}", extent.str());
  return Types{ctx.operands[0]};
}

/// v one place further along the axis, in the direction of the op (`back`: against it); `fill` comes in.
Val shifted_along(Val v, const Attrs& attrs, int64_t by, double fill, bool back = false) {
  Ints low(v.rank(), 0), high = low, none = low;
  (attrs.get_bool("reverse") == back ? low : high)[axis_of(attrs)] = by;
  (attrs.get_bool("reverse") == back ? high : low)[axis_of(attrs)] = -by;
  return v.b->op("pad", {v, v.b->fill(v.dtype(), {}, fill)}, {{"low", low}, {"high", high}, {"interior", none}});
}

/// Doubling: log2(n) shifted multiplications and no division, so that zeros and derivatives are exact.
std::vector<Val> decompose_cumprod(DecomposeContext& ctx) {
  Val y = wide(ctx.operand(0));
  int64_t n = y.shape()[axis_of(ctx.attrs())].value();
  if (ctx.attrs().get_bool("exclusive") && n > 0) y = shifted_along(y, ctx.attrs(), 1, 1);
  for (int64_t by = 1; by < n; by *= 2) y = y * shifted_along(y, ctx.attrs(), by, 1);
  return {convert(y, ctx.operand(0).dtype())};
}

// ---- Extremes: the derivative belongs to the position that holds the running extreme.

Val positions(FunctionBuilder& b, Val x, const Attrs& attrs, const char* op) {
  return b.op(op, {x}, {{"axis", axis_of(attrs)}, {"reverse", attrs.get_bool("reverse")}});
}

ir::Rule<std::vector<MaybeVal>(VjpContext&)> vjp_extreme(const char* op) {
  return [op](VjpContext& ctx) -> std::vector<MaybeVal> {
    Val x = ctx.operand(0), ct = ctx.ct();
    if (x.type().count().is(0)) return {ctx.b.zeros_like(x)};
    if (ctx.attrs().get_bool("exclusive")) ct = shifted_along(ct, ctx.attrs(), 1, 0, true);
    return {add_along(x.shape(), positions(ctx.b, x, ctx.attrs(), op), ct, axis_of(ctx.attrs()))};
  };
}

ir::Rule<std::vector<MaybeVal>(JvpContext&)> jvp_extreme(const char* op) {
  return [op](JvpContext& ctx) -> std::vector<MaybeVal> {
    Val x = ctx.operand(0);
    if (x.type().count().is(0)) return {ctx.b.zeros_like(x)};
    Val t = take_along(ctx.tangent(0), positions(ctx.b, x, ctx.attrs(), op), axis_of(ctx.attrs()));
    return {ctx.attrs().get_bool("exclusive") ? shifted_along(t, ctx.attrs(), 1, 0) : t};
  };
}

std::vector<MaybeVal> vjp_cumsum(VjpContext& ctx) {
  Attrs attrs = ctx.attrs();
  attrs.set("reverse", !attrs.get_bool("reverse"));
  return {ctx.b.op("cumsum", {ctx.ct()}, attrs)};
}

// ---- Records

Example cumulative_example(Shape shape, int64_t axis, bool reverse, bool exclusive, ValueSpec values) {
  return {{operand(f32(std::move(shape)), values)}, {{"axis", axis}, {"reverse", reverse}, {"exclusive", exclusive}}};
}

/// What the four share.
OpDef make_cumulative(const char* name, std::string doc, ValueSpec values, decltype(OpDef::vjp) vjp,
                      decltype(OpDef::jvp) jvp) {
  bool static_axis = std::string(name) == "cumprod";
  OpDef op{
      .name = name,
      .version = 1,
      .category = "cumulative",
      .doc = std::move(doc) + " In one pass over the operand; 8- and 16-bit floats are combined in f32.",
      .operands = {{"x", "what is combined"}},
      .attrs = {required("axis", AttrKind::kInt, "along which elements are combined"),
                optional("reverse", "from the last element to the first", false),
                optional("exclusive", "without the element itself: the first result is the neutral element", false)},
      .results = {{"out", "shaped like x"}},
      .constraints = {{"C1", "the operand is not bool"}, {"C2", "the axis exists"}},
      .traits = {},
      .stages = ir::kTensorStages,
      .infer = [static_axis](const InferContext& ctx) { return infer_cumulative(ctx, static_axis); },
      .reference = reference_by_procedure,
      .fold = fold_by_reference(),
      .decompose = ir::no_rule("a primitive: a procedure of kernel_ir"),
      .vjp = std::move(vjp),
      .jvp = std::move(jvp),
      .batch = batch_shifting({"axis"}),
      .factors = [](const TypedOp& t) { return factors_along(t, axis_of(t.attrs), Factors::Kind::kOrdered); },
      .rank_rule = ir::RankRule::kRunningSum,
      .access =
          [](const TypedOp& t) {
            return procedure_fragment(t, t.op.name, axis_of(t.attrs),
                                      {t.attrs.get_bool("reverse"), t.attrs.get_bool("exclusive")});
          },
      .linearity = ir::not_linear(),
      .lower = Lowering::kAccess,
      .cost = [](const TypedOp& t) { return pointwise_cost(t, 1); },
      .dtypes = DTypes::kNumeric,
      .examples = {cumulative_example({5}, 0, false, false, values),
                   cumulative_example({2, 7, 3}, 1, true, false, values),
                   cumulative_example({4, 3}, 1, false, true, values),
                   cumulative_example({3, 2}, 0, true, true, values),
                   cumulative_example({2, 0}, 1, false, true, values)},
      .draw =
          [values](Rng& rng) {
            int rank = static_cast<int>(random_int(rng, 1, 3));
            return cumulative_example(random_shape(rng, rank, 300), random_int(rng, 0, rank - 1), random_bool(rng),
                                      random_bool(rng), values);
          },
      .rejects = {{"C1", {boolean({3})}, {{"axis", int64_t{0}}}}, {"C2", {f32({3})}, {{"axis", int64_t{1}}}}},
  };
  return op;
}

OpDef cumsum() {
  OpDef op =
      make_cumulative("cumsum", "Running sums along `axis`; integers wrap.", between(-2, 2), vjp_cumsum, jvp_linear);
  op.linearity = ir::jointly_linear({0});
  return op;
}

OpDef cumprod() {
  OpDef op = make_cumulative("cumprod",
                             "Running products along `axis`; integers wrap. The derivative divides nowhere, so it is "
                             "exact where elements are zero.",
                             between(-1.5, 1.5), ir::by_decomposition(), ir::by_decomposition());
  op.linearity = ir::jointly(kernel_ir::Combiner::kProd, {0});
  op.decompose = decompose_cumprod;
  op.constraints.push_back({"C3", "the axis has a static size"});
  auto symbol = std::make_shared<const ir::Symbol>(ir::Symbol{"length", 1, 64, 1});
  op.rejects.push_back({"C3", {f32({Dim::symbol(symbol)})}, {{"axis", int64_t{0}}}});
  return op;
}

OpDef extreme(const char* name, kernel_ir::Combiner combiner, const char* position_op, const char* which) {
  OpDef op = make_cumulative(name,
                             std::string("The ") + which +
                                 " element so far along `axis`. NaN wins. The derivative goes to the first of those "
                                 "that tie.",
                             distinct(), vjp_extreme(position_op), jvp_extreme(position_op));
  op.linearity = ir::jointly(combiner, {0});
  op.rank_rule = ir::RankRule::kRunningExtreme;
  return op;
}

OpDef extreme_position(const char* name, bool max) {
  constexpr const char* kInteger = "the result is an integer";
  OpDef op = make_cumulative(name,
                             std::string("The position of the ") + (max ? "largest" : "smallest") +
                                 " element so far along `axis`; the first of those that tie. The first NaN wins.",
                             distinct(), ir::not_differentiable(kInteger), ir::not_differentiable(kInteger));
  op.attrs.pop_back();
  op.attrs.push_back(optional("dtype", "of the positions: i32, i64, u32 or u64", DType::kI32));
  op.results = {{"positions", "shaped like x"}};
  op.constraints.push_back({"C3", kPositionDType});
  op.infer = [](const InferContext& ctx) -> InferResult {
    Types types = NABLA_TRY(infer_cumulative(ctx, false));
    NABLA_TRY(require_position_dtype(ctx, "C3", ctx.shape(0)[axis_of(ctx.attrs)]));
    types[0].dtype = ctx.attrs.get_dtype("dtype");
    return types;
  };
  op.access = [](const TypedOp& t) {
    return procedure_fragment(t, t.op.name, axis_of(t.attrs), {t.attrs.get_bool("reverse")});
  };
  // The positions of a part count from its own begin, so that only a part at the front gives those of the whole.
  op.factors = [](const TypedOp& t) {
    bool reverse = t.attrs.get_bool("reverse");
    return factors_along(t, axis_of(t.attrs), reverse ? Factors::Kind::kReplicate : Factors::Kind::kOrdered);
  };
  op.rank_rule = max ? ir::RankRule::kRunningArgmax : ir::RankRule::kRunningArgmin;
  for (Example& e : op.examples) e.attrs.erase("exclusive");
  op.draw = [draw = op.draw](Rng& rng) {
    Example e = draw(rng);
    e.attrs.erase("exclusive");
    e.attrs.set("dtype", random_bool(rng) ? DType::kI32 : DType::kI64);
    return e;
  };
  op.rejects.push_back({"C3", {f32({3})}, {{"axis", int64_t{0}}, {"dtype", DType::kI8}}});
  return op;
}

}  // namespace

std::vector<OpDef> cumulative_ops() {
  return {cumsum(),
          cumprod(),
          extreme("cummax", kernel_ir::Combiner::kMax, "cumargmax", "largest"),
          extreme("cummin", kernel_ir::Combiner::kMin, "cumargmin", "smallest"),
          extreme_position("cumargmax", true),
          extreme_position("cumargmin", false)};
}

}  // namespace nabla::ops
