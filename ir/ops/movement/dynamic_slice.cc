// Windows at computed places: dynamic_slice reads one, dynamic_update_slice writes one.
#include <algorithm>

#include "ir/ops/access.h"
#include "ir/ops/all_ops.h"
#include "ir/ops/movement/strided.h"

namespace nabla::ops {
namespace {

using kernel_ir::Expr;
using kernel_ir::Fragment;

/// C1: one integer scalar per dimension, from operand `first` on.
Status require_starts(const InferContext& ctx, int first) {
  int count = static_cast<int>(ctx.operands.size()) - first;
  if (count != ctx.rank(0))
    return ctx.fail(Code::kOperandCount, "C1", "{} starts for the {} dimensions of {}", count, ctx.rank(0),
                    ctx.operands[0].str());
  for (int i = first; i < first + count; ++i) {
    NABLA_TRY(require_integer(ctx, i, "C1"));
    NABLA_TRY(require_rank(ctx, i, 0, "C1"));
  }
  return Ok{};
}

/// The window's extents: `window`, or `sizes` with -1 replaced by the whole dimension.
Shape window_of(const Attrs& attrs, const Shape& shape) {
  if (const Shape& window = attrs.get_shape("window"); !window.empty()) return window;
  Shape out = shape;
  for (size_t d = 0; d < shape.size(); ++d)
    if (int64_t size = attrs.get_ints("sizes")[d]; size >= 0) out[d] = size;
  return out;
}

/// The attributes that stand for these extents of an operand of `shape`.
Attrs attrs_of_window(const Shape& window, const Shape& shape) {
  Ints sizes;
  bool symbolic = false;
  for (size_t d = 0; d < shape.size(); ++d) {
    bool whole = window[d] == shape[d];
    symbolic = symbolic || (!whole && !window[d].is_static());
    sizes.push_back(whole || symbolic ? -1 : window[d].value());
  }
  if (symbolic) return {{"sizes", Ints(shape.size(), -1)}, {"window", window}};
  return {{"sizes", std::move(sizes)}};
}

InferResult infer_dynamic_slice(const InferContext& ctx) {
  NABLA_TRY(require_starts(ctx, 1));
  const Ints& sizes = ctx.attrs.get_ints("sizes");
  if (static_cast<int>(sizes.size()) != ctx.rank(0))
    return ctx.fail(Code::kBadAttribute, "C2", "sizes has {} entries, the operand {} dimensions", sizes.size(),
                    ctx.rank(0));
  const Shape& window = ctx.attrs.get_shape("window");
  if (!window.empty() && (window.size() != sizes.size() || sizes != Ints(sizes.size(), -1)))
    return ctx.fail(Code::kBadAttribute, "C3", "window is {} beside sizes of {} entries, which must all be -1",
                    ir::str(window), sizes.size());
  for (size_t d = 0; d < window.size(); ++d)
    if (!Dim::less_equal(0, window[d]).value_or(false) || !Dim::less_equal(window[d], ctx.shape(0)[d]).value_or(false))
      return ctx.fail(Code::kBadAttribute, "C3", "size {} of dimension {} is not within {}", window[d].str(), d,
                      ctx.shape(0)[d].str());
  for (int d = 0; d < ctx.rank(0); ++d)
    if (sizes[d] < -1 || !Dim::less_equal(std::max<int64_t>(sizes[d], 0), ctx.shape(0)[d]).value_or(false))
      return ctx.fail(Code::kBadAttribute, "C2", "size {} of dimension {} is not within {}", sizes[d], d,
                      ctx.shape(0)[d].str());
  return Types{Type(ctx.operands[0].dtype, window_of(ctx.attrs, ctx.shape(0)))};
}

InferResult infer_dynamic_update_slice(const InferContext& ctx) {
  NABLA_TRY(require_starts(ctx, 2));
  NABLA_TRY(ctx.require_same_dtype(0, 1, "C2"));
  NABLA_TRY(require_rank(ctx, 1, ctx.rank(0), "C2"));
  for (int d = 0; d < ctx.rank(0); ++d) {
    const Dim &size = ctx.shape(1)[d], &whole = ctx.shape(0)[d];
    if (!Dim::less_equal(size, whole).value_or(false))
      return ctx.fail(Code::kShapeMismatch, "C3", "the update has size {} in dimension {}, the operand {}", size.str(),
                      d, whole.str());
  }
  return Types{ctx.operands[0]};
}

/// Position in an array of this shape where the window begins, moved so that it fits.
int64_t window_start(const Extents& shape, const Extents& window, std::span<const Literal> starts) {
  Extents at;
  for (size_t d = 0; d < shape.size(); ++d)
    at.push_back(std::max<int64_t>(0, std::min(starts[d].get_i(0), shape[d] - window[d])));
  return position_of(at, shape);
}

Literals reference_dynamic_slice(const EvalContext& ctx) {
  const Literal& x = ctx.operands[0];
  int64_t first = window_start(x.shape(), ctx.op.results[0].extents(), ctx.operands.subspan(1));
  return {gathered(x, ctx.op.results[0], strides_of(x.shape()), first)};
}

Literals reference_dynamic_update_slice(const EvalContext& ctx) {
  Literal out = ctx.operands[0];
  const Literal& update = ctx.operands[1];
  place(out, update, strides_of(out.shape()), window_start(out.shape(), update.shape(), ctx.operands.subspan(2)));
  return {out};
}

/// Positions in operand 0 of the window's axes; dimensions that the window fills need no start.
std::vector<Expr> places(const TypedOp& op, const Shape& window, int first, const std::vector<int>& axes) {
  std::vector<Expr> out;
  for (size_t d = 0; d < axes.size(); ++d) {
    const Dim& whole = op.operands[0].shape[d];
    Expr at = kernel_ir::axis(axes[d]);
    if (!(window[d] == whole)) {
      Expr start = kernel_ir::convert(DType::kI64, load_operand(op, first + static_cast<int>(d), {}));
      start = kernel_ir::call("minimum", {start, kernel_ir::dim(whole - window[d])});
      at = kernel_ir::call("maximum", {start, kernel_ir::index(0)}) + at;
    }
    out.push_back(at);
  }
  return out;
}

Fragment access_dynamic_slice(const TypedOp& op) {
  Fragment f;
  std::vector<int> own = f.add_axes("i", op.results[0].shape);
  f.results = {define(f, "out", own, load_operand(op, 0, places(op, op.results[0].shape, 1, own)))};
  return f;
}

Fragment access_dynamic_update_slice(const TypedOp& op) {
  Fragment f;
  std::vector<int> own = f.add_axes("i", op.operands[0].shape), over = f.add_axes("u", op.operands[1].shape);
  int d = define(f, "updated", own, load_operand(op, 0, kernel_ir::axes_as_indices(own)));
  kernel_ir::Definition& definition = f.definitions[d];
  definition.scatter = true;
  definition.update_axes = over;
  definition.indices = places(op, op.operands[1].shape, 2, over);
  definition.update = load_operand(op, 1, kernel_ir::axes_as_indices(over));
  f.results = {d};
  return f;
}

std::vector<Val> starts_of(const std::vector<Val>& operands, int first) {
  return {operands.begin() + first, operands.end()};
}
std::vector<Val> joined(std::vector<Val> a, const std::vector<Val>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

std::vector<MaybeVal> vjp_dynamic_slice(VjpContext& ctx) {
  std::vector<MaybeVal> out(ctx.operands.size());
  Val zero = ctx.b.zeros_like(ctx.operand(0));
  out[0] = ctx.b.op("dynamic_update_slice", joined({zero, ctx.ct()}, starts_of(ctx.operands, 1)));
  return out;
}

std::vector<MaybeVal> vjp_dynamic_update_slice(VjpContext& ctx) {
  std::vector<MaybeVal> out(ctx.operands.size());
  Val update = ctx.operand(1);
  std::vector<Val> starts = starts_of(ctx.operands, 2);
  if (ctx.active[0]) out[0] = ctx.b.op("dynamic_update_slice", joined({ctx.ct(), ctx.b.zeros_like(update)}, starts));
  if (ctx.active[1])
    out[1] =
        ctx.b.op("dynamic_slice", joined({ctx.ct()}, starts), attrs_of_window(update.shape(), ctx.operand(0).shape()));
  return out;
}

/// The starts with one more in front: 0, for a batch that is kept whole.
std::vector<Val> with_front(FunctionBuilder& b, std::vector<Val> starts) {
  starts.insert(starts.begin(), b.fill(DType::kI64, {}, 0));
  return starts;
}

/// All starts as vectors i64[batch, rank].
Val start_vectors(BatchContext& ctx, int first) {
  std::vector<Val> columns;
  for (size_t i = first; i < ctx.operands.size(); ++i) {
    Val v = ir::convert(ctx.batched_operand(static_cast<int>(i)), DType::kI64);
    columns.push_back(ir::reshape(v, {ctx.size, 1}));
  }
  return ctx.b.op("concatenate", columns, {{"axis", int64_t{1}}});
}

bool any_start_batched(const BatchContext& ctx, int first) {
  return std::find(ctx.batched.begin() + first, ctx.batched.end(), true) != ctx.batched.end();
}

std::vector<Val> batch_dynamic_slice(BatchContext& ctx) {
  Ints sizes = ctx.attrs().get_ints("sizes");
  if (!any_start_batched(ctx, 1)) {
    sizes.insert(sizes.begin(), -1);
    Shape window = ctx.attrs().get_shape("window");
    if (!window.empty()) window.insert(window.begin(), ctx.size);
    std::vector<Val> starts = with_front(ctx.b, starts_of(ctx.operands, 1));
    return ctx.b.add("dynamic_slice", joined({ctx.operands[0]}, starts), {{"sizes", sizes}, {"window", window}});
  }
  if (!ctx.attrs().get_shape("window").empty()) {
    ctx.functions->refuse("a batch of starts is a gather, whose windows have no symbolic size");
    Shape shape = ctx.op.results[0].shape;
    shape.insert(shape.begin(), ctx.size);
    return {ctx.b.fill(ctx.op.results[0].dtype, shape, 0)};
  }
  Ints dims = ir::iota_ints(static_cast<int>(sizes.size())), above = shifted(dims);
  bool rows = ctx.batched[0];
  if (rows) sizes.insert(sizes.begin(), 1);
  return ctx.b.add("gather", {ctx.operands[0], start_vectors(ctx, 1)},
                   {{"offset_dims", above},
                    {"collapsed_slice_dims", Ints{}},
                    {"operand_batching_dims", rows ? Ints{0} : Ints{}},
                    {"start_indices_batching_dims", rows ? Ints{0} : Ints{}},
                    {"start_index_map", rows ? above : dims},
                    {"index_vector_dim", int64_t{1}},
                    {"slice_sizes", sizes},
                    {"out_of_range", std::string("clamp")}});
}

std::vector<Val> batch_dynamic_update_slice(BatchContext& ctx) {
  Val x = ctx.batched_operand(0), update = ctx.batched_operand(1);
  if (!any_start_batched(ctx, 2))
    return ctx.b.add("dynamic_update_slice", joined({x, update}, with_front(ctx.b, starts_of(ctx.operands, 2))));
  Ints above = shifted(ir::iota_ints(x.rank() - 1));
  return ctx.b.add("scatter_set", {x, start_vectors(ctx, 2), update},
                   {{"update_window_dims", above},
                    {"inserted_window_dims", Ints{}},
                    {"operand_batching_dims", Ints{0}},
                    {"scatter_indices_batching_dims", Ints{0}},
                    {"scatter_dims_to_operand_dims", above},
                    {"index_vector_dim", int64_t{1}},
                    {"out_of_range", std::string("clamp")}});
}

/// Dimensions that the window fills pass through; in the others operand and window each stay whole.
Factors factors_of_window(const TypedOp& op, const Type& window) {
  Factors f;
  const Type& x = op.operands[0];
  Factors::Tensor whole, part;
  for (int d = 0; d < x.rank(); ++d) {
    std::string name(1, static_cast<char>('a' + d));
    bool pass = window.shape[d] == x.shape[d];
    auto kind = pass ? Factors::Kind::kPass : Factors::Kind::kReplicate;
    whole.push_back({f.add(name, x.shape[d], kind)});
    part.push_back(pass ? whole.back() : std::vector<int>{f.add(name + "'", window.shape[d], kind)});
  }
  bool update = op.op.name == "dynamic_update_slice";
  f.operands.assign(op.operands.size(), {});
  f.operands[0] = whole;
  if (update) f.operands[1] = part;
  f.results = {update ? whole : part};
  return f;
}

/// A slice has split sizes only where the attribute says -1, so that a window of the same extent stays whole.
Factors factors_dynamic_slice(const TypedOp& op) {
  Factors f = factors_of_window(op, op.results[0]);
  for (int d = 0; d < op.operands[0].rank(); ++d)
    if (op.attrs.get_ints("sizes")[d] >= 0) f.factors[f.operands[0][d][0]].kind = Factors::Kind::kReplicate;
  return f;
}

/// x of `shape`, with a window of `sizes` (-1: whole) and starts that reach a little beyond both ends.
Example window_example(Shape shape, Ints sizes, bool update) {
  Example e{{operand(f32(shape))}, {}};
  Shape window = shape;
  for (size_t d = 0; d < shape.size(); ++d)
    if (sizes[d] >= 0) window[d] = sizes[d];
  if (update)
    e.operands.push_back(operand(f32(window)));
  else
    e.attrs = {{"sizes", sizes}};
  for (size_t d = 0; d < shape.size(); ++d)
    e.operands.push_back(operand(d % 2 ? i64() : i32(), between(-2, static_cast<double>(shape[d].value()))));
  return e;
}

Example draw_window(Rng& rng, bool update) {
  int rank = static_cast<int>(random_int(rng, 0, 3));
  Extents shape = random_extents(rng, rank);
  Ints sizes;
  for (int64_t extent : shape) sizes.push_back(random_bool(rng) ? -1 : random_int(rng, 0, extent));
  return window_example(ir::static_shape(shape), sizes, update);
}

OpDef make_window_op(bool update) {
  std::string starts =
      " Starts are moved so that the window lies inside, as by gather; a window that fills a dimension "
      "starts at 0 there.";
  std::vector<OperandDef> operands = {{"x", "any type"}};
  if (update) operands.push_back({"update", "the window's new elements"});
  operands.push_back({"starts", "the window's first position per dimension: integer scalars", true, true});
  std::vector<ir::Constraint> constraints = {{"C1", "there is one integer scalar per dimension"}};
  if (update) {
    constraints.push_back({"C2", "x and the update have one dtype and rank"});
    constraints.push_back({"C3", "the update fits into x"});
  } else {
    constraints.push_back({"C2", "sizes has one entry per dimension, -1 or within the operand"});
    constraints.push_back({"C3", "window is empty, or fits into the operand beside sizes of -1"});
  }
  OpDef op{
      .name = update ? "dynamic_update_slice" : "dynamic_slice",
      .version = 1,
      .category = "indexing",
      .doc = (update ? "x with a window replaced by `update`. Where x is not needed afterwards nothing but the window "
                       "is written: that is how caches grow in place."
                     : "The window of x that begins at `starts`.") +
             starts,
      .operands = std::move(operands),
      .attrs = {},
      .results = {{"out", update ? "shaped like x" : "the window"}},
      .constraints = std::move(constraints),
      .traits = {},
      .stages = ir::kTensorStages,
      .infer = update ? infer_dynamic_update_slice : infer_dynamic_slice,
      .reference = update ? reference_dynamic_update_slice : reference_dynamic_slice,
      .fold = fold_by_reference(),
      .decompose = ir::no_rule("a primitive: loops follow from its access"),
      .vjp = update ? vjp_dynamic_update_slice : vjp_dynamic_slice,
      .jvp = jvp_linear_in(update ? std::vector<int>{0, 1} : std::vector<int>{0}),
      .batch = update ? batch_dynamic_update_slice : batch_dynamic_slice,
      .factors = factors_dynamic_slice,
      .rank_rule = update ? ir::RankRule::kDynamicUpdate : ir::RankRule::kDynamicSlice,
      .access = update ? access_dynamic_update_slice : access_dynamic_slice,
      .linearity = ir::moves(update ? std::vector{0, 1} : std::vector{0}),
      .lower = Lowering::kAccess,
      .cost = [](const TypedOp& t) { return pointwise_cost(t, 0); },
      .dtypes = DTypes::kAll,
      .examples = {window_example({5, 4}, {2, -1}, update), window_example({2, 3, 4}, {-1, 1, 2}, update),
                   window_example({}, {}, update)},
      .draw = [update](Rng& rng) { return draw_window(rng, update); },
      .rejects = {},
  };
  if (!update)
    op.attrs = {required("sizes", AttrKind::kInts, "the window's extents; -1 for a whole dimension"),
                optional("window", "all extents, where one is symbolic; then sizes is -1 throughout", Shape{})};
  if (update) op.factors = [](const TypedOp& t) { return factors_of_window(t, t.operands[1]); };
  return op;
}

OpDef dynamic_slice() {
  OpDef op = make_window_op(false);
  auto sizes = [](Ints list) { return Attrs{{"sizes", std::move(list)}}; };
  op.rejects = {{"C1", {f32({3, 4}), i32()}, sizes({1, 1})},
                {"C1", {f32({3}), f32()}, sizes({1})},
                {"C1", {f32({3}), i32({1})}, sizes({1})},
                {"C2", {f32({3}), i32()}, sizes({1, 1})},
                {"C2", {f32({3}), i32()}, sizes({4})},
                {"C2", {f32({3}), i32()}, sizes({-2})},
                {"C3", {f32({3}), i32()}, {{"sizes", Ints{-1}}, {"window", Shape{4}}}},
                {"C3", {f32({3}), i32()}, {{"sizes", Ints{1}}, {"window", Shape{1}}}}};
  return op;
}

OpDef dynamic_update_slice() {
  OpDef op = make_window_op(true);
  op.rejects = {{"C1", {f32({3, 4}), f32({1, 1}), i32()}, {}},
                {"C1", {f32({3}), f32({1}), f32()}, {}},
                {"C2", {f32({3}), i32({1}), i32()}, {}},
                {"C2", {f32({3}), f32({1, 1}), i32()}, {}},
                {"C3", {f32({3}), f32({4}), i32()}, {}}};
  return op;
}

}  // namespace

std::vector<OpDef> dynamic_slice_ops() { return {dynamic_slice(), dynamic_update_slice()}; }

}  // namespace nabla::ops
