// section: a range of one dimension whose ends may be symbolic; the derivative of concatenate.
#include "ir/ops/movement/movement.h"
#include "ir/ops/movement/strided.h"

namespace nabla::ops {
namespace {

struct Range {
  int64_t axis;
  Dim first, size;
};
Range range_of(const ir::Attrs& attrs) {
  const Shape& range = attrs.get_shape("range");
  return {attrs.get_int("axis"), range[0], range[1]};
}

InferResult infer_section(const InferContext& ctx) {
  int64_t axis = ctx.attrs.get_int("axis");
  NABLA_TRY(ctx.require_axis(axis, ctx.rank(0), "C1"));
  const Shape& range = ctx.attrs.get_shape("range");
  if (range.size() != 2)
    return ctx.fail(Code::kBadAttribute, "C2", "range has {} entries: the first position and the size", range.size());
  const Dim& extent = ctx.shape(0)[axis];
  Dim end = range[0] + range[1];
  bool negative = !Dim::less_equal(0, range[0]).value_or(false) || !Dim::less_equal(0, range[1]).value_or(false);
  std::optional<bool> fits = Dim::less_equal(end, extent);
  if (negative || !fits.value_or(true))
    return ctx.fail(Code::kBadAttribute, "C3", "[{}:{}] is not within dimension {} of size {}", range[0].str(),
                    end.str(), axis, extent.str());
  if (!fits) {
    Diagnostic d = ctx.fail(Code::kUndecidable, "C3", "[{}:{}] may reach beyond dimension {} of size {}",
                            range[0].str(), end.str(), axis, extent.str());
    d.help = fmt::format("declare the constraint {} <= {}", end.str(), extent.str());
    return d;
  }
  Type result = ctx.operands[0];
  result.shape[axis] = range[1];
  return Types{result};
}

Literals section_reference(const EvalContext& ctx) {
  Range range = range_of(ctx.attrs());
  Extents strides = strides_of(ctx.operands[0].shape());
  int64_t first = range.first.value() * strides[range.axis];
  return {gathered(ctx.operands[0], ctx.op.results[0], std::move(strides), first)};
}

// Zeros on both sides.
std::vector<MaybeVal> section_vjp(VjpContext& ctx) {
  Range range = range_of(ctx.attrs());
  Shape shape = ctx.operand(0).shape();
  Dim behind = shape[range.axis] - range.first - range.size;
  auto zeros_of = [&](const Dim& size) {
    shape[range.axis] = size;
    return ctx.b.fill(ctx.result().dtype(), shape, 0);
  };
  std::vector<Val> pieces;
  if (!range.first.is(0)) pieces.push_back(zeros_of(range.first));
  pieces.push_back(ctx.ct());
  if (!behind.is(0)) pieces.push_back(zeros_of(behind));
  return {ctx.b.op("concatenate", pieces, {{"axis", range.axis}})};
}

Factors section_factors(const TypedOp& op) {
  Factors out;
  Factors::Tensor from, to;
  int64_t axis = op.attrs.get_int("axis");
  for (int d = 0; d < op.results[0].rank(); ++d) {
    std::string name(1, static_cast<char>('a' + d));
    int factor = out.add(name, op.operands[0].shape[d], d == axis ? Factors::Kind::kReplicate : Factors::Kind::kPass);
    from.push_back({factor});
    to.push_back({d == axis ? out.add(name + "'", op.results[0].shape[d], Factors::Kind::kReplicate) : factor});
  }
  out.operands = {from};
  out.results = {to};
  return out;
}

Attrs section_attrs(int64_t axis, Dim first, Dim size) { return {{"axis", axis}, {"range", Shape{first, size}}}; }

Example draw_section(Rng& rng) {
  int rank = static_cast<int>(random_int(rng, 1, 3));
  Extents shape = random_extents(rng, rank);
  int64_t axis = random_int(rng, 0, rank - 1), first = random_int(rng, 0, shape[axis]);
  return {{operand(f32(ir::static_shape(shape)))}, section_attrs(axis, first, random_int(rng, 0, shape[axis] - first))};
}

}  // namespace

OpDef section_op() {
  return {
      .name = "section",
      .version = 1,
      .category = "movement",
      .doc = "x[first : first + size] along one axis. The range may be symbolic, unlike that of slice.",
      .operands = {{"x", "any type"}},
      .attrs = {required("axis", AttrKind::kInt, "that is cut"),
                required("range", AttrKind::kShape, "the first position and the number of them")},
      .results = {{"y", "`size` elements along `axis`"}},
      .constraints = {{"C1", "axis is in [0, rank)"},
                      {"C2", "range has two entries"},
                      {"C3", "0 <= first, 0 <= size and first + size <= the dimension's size"}},
      .traits = {},
      .stages = ir::kTensorStages,
      .infer = infer_section,
      .reference = section_reference,
      .fold = fold_by_reference(),
      .decompose = ir::no_rule("primitive"),
      .vjp = section_vjp,
      .jvp = jvp_linear,
      .batch = batch_shifting({"axis"}),
      .factors = section_factors,
      .rank_rule = ir::RankRule::kSection,
      .form = ir::OpForm::kSection,
      .access =
          [](const TypedOp& op) {
            kernel_ir::Fragment out;
            std::vector<int> axes = out.add_axes("i", op.results[0].shape);
            std::vector<kernel_ir::Expr> source = kernel_ir::axes_as_indices(axes);
            Range range = range_of(op.attrs);
            source[range.axis] = source[range.axis] + kernel_ir::dim(range.first);
            out.results = {out.map("y", op.results[0].dtype, axes, load_operand(op, 0, source))};
            return out;
          },
      .linearity = ir::moves({0}),
      .lower = Lowering::kAccess,
      .cost =
          [](const TypedOp& op) {
            return Cost{Dim(0), Dim(2) * op.results[0].bytes()};
          },
      .dtypes = DTypes::kAll,
      .examples = {{{operand(f32({5}), awkward())}, section_attrs(0, 1, 3)},
                   {{operand(f32({4, 7}))}, section_attrs(1, 2, 5)},
                   {{operand(f32({3, 2}))}, section_attrs(0, 3, 0)}},
      .draw = draw_section,
      .rejects = {{"C1", {f32({5})}, section_attrs(1, 0, 1)},
                  {"C2", {f32({5})}, {{"axis", int64_t{0}}, {"range", Shape{Dim(1)}}}},
                  {"C3", {f32({5})}, section_attrs(0, 3, 3)},
                  {"C3", {f32({5})}, section_attrs(0, -1, 3)}},
  };
}

}  // namespace nabla::ops
