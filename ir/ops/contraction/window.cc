// Pooling: reductions over sliding windows, and select_and_scatter and window_gather_max, which are the transpose
// and the derivative of the maximum over windows.
#include <algorithm>
#include <cmath>

#include "ir/kernel_ir/rows.h"
#include "ir/ops/all_ops.h"
#include "ir/ops/contraction/window_geometry.h"

namespace nabla::ops {
namespace {

using kernel_ir::Combiner;
using kernel_ir::Expr;
using kernel_ir::Fragment;

Windows windows_of(const Attrs& attrs) { return windows_from(attrs, ir::static_shape(attrs.get_ints("window"))); }

/// C1: dtype; C2: the window's attributes. Yields the outputs' shape.
Result<Shape> infer_windows(const InferContext& ctx) {
  if (ctx.operands[0].dtype == DType::kBool)
    return ctx.fail(Code::kDTypeMismatch, "C1", "the operand must be a number, got bool");
  const Ints& window = ctx.attrs.get_ints("window");
  if (static_cast<int>(window.size()) != ctx.rank(0))
    return ctx.fail(Code::kBadAttribute, "C2", "window has {} entries, the operand {} dimensions", window.size(),
                    ctx.rank(0));
  for (int64_t w : window)
    if (w < 1) return ctx.fail(Code::kBadAttribute, "C2", "window holds {}, below 1", w);
  NABLA_TRY(check_windows(ctx, window.size(), "C2"));
  Shape out;
  Windows windows = windows_of(ctx.attrs);
  for (int d = 0; d < ctx.rank(0); ++d) out.push_back(output_extent(ctx.shape(0)[d], windows[d]));
  return out;
}

InferResult infer_reduce_window(const InferContext& ctx, Combiner combiner) {
  Shape out = NABLA_TRY(infer_windows(ctx));
  for (int d = 0; d < ctx.rank(0) && combiner == Combiner::kSum; ++d)
    if (ctx.attrs.get_ints("strides")[d] > 1 && !ctx.shape(0)[d].is_static())
      return ctx.fail(Code::kShapeMismatch, "C3", "dimension {} has stride {} and the symbolic size {}", d,
                      ctx.attrs.get_ints("strides")[d], ctx.shape(0)[d].str());
  return Types{Type(ctx.operands[0].dtype, out)};
}

/// Operand 1 has one element per window (`per_window`), or per element of the operand.
InferResult infer_chosen(const InferContext& ctx, bool per_window) {
  Shape out = NABLA_TRY(infer_windows(ctx));
  NABLA_TRY(ctx.require_same_dtype(0, 1, "C3"));
  const Shape& expected = per_window ? out : ctx.shape(0);
  NABLA_TRY(require_rank(ctx, 1, ctx.rank(0), "C4"));
  for (int d = 0; d < ctx.rank(0); ++d)
    NABLA_TRY(ctx.require_equal(ctx.shape(1)[d], expected[d], "C4", fmt::format("sizes in dimension {}", d)));
  return Types{Type(ctx.operands[0].dtype, per_window ? ctx.shape(0) : out)};
}

// ---- References.

/// u64 comes as the bits of a signed number: turned round half-way it has the right order, and so have all integers.
int64_t ordered_bits(DType dtype, int64_t v) { return dtype == DType::kU64 ? v ^ INT64_MIN : v; }

/// f(position of an output, position in x, element of x) for all that windows read: tap by tap, so that each output
/// sees its elements in row-major order.
template <class Wide, class F>
void for_each_read(const EvalContext& ctx, const Extents& outputs, F f) {
  const Literal& x = ctx.operands[0];
  std::vector<Wide> row(kRowBlock);
  for_each_tap(windows_of(ctx.attrs()), x.shape(), outputs, [&](int64_t, const Nest<2>& nest) {
    for_each_row(nest, [&](const auto& at, int64_t count, const auto& step) {
      for (int64_t begin = 0; begin < count; begin += kRowBlock) {
        int64_t block = std::min(kRowBlock, count - begin);
        int64_t to = at[0] + begin * step[0], from = at[1] + begin * step[1];
        read_row(x, from, step[1], block, row.data());
        for (int64_t i = 0; i < block; ++i) f(to + i * step[0], from + i * step[1], row[i]);
      }
    });
  });
}

Literals reference_reduce_window(const EvalContext& ctx, Combiner combiner) {
  const Literal& x = ctx.operands[0];
  Literal out = zeros(ctx.op.results[0]);
  Expr identity = kernel_ir::identity_of(combiner, x.dtype());
  bool sum = combiner == Combiner::kSum;
  if (is_float(x.dtype())) {
    std::vector<double> values(out.size(), identity->number);
    if (sum)
      for_each_read<double>(ctx, out.shape(), [&](int64_t to, int64_t, double v) { values[to] += v; });
    else
      for_each_read<double>(ctx, out.shape(), [&](int64_t to, int64_t, double v) {
        if (v > values[to] || std::isnan(v)) values[to] = v;
      });
    write_row(out, 0, 1, out.size(), values.data());
  } else {
    std::vector<int64_t> values(out.size(), identity->integer);
    for_each_read<int64_t>(ctx, out.shape(), [&](int64_t to, int64_t, int64_t v) {
      int64_t& value = values[to];
      if (sum)
        value = static_cast<int64_t>(static_cast<uint64_t>(value) + static_cast<uint64_t>(v));
      else if (ordered_bits(x.dtype(), v) > ordered_bits(x.dtype(), value))
        value = v;
    });
    write_row(out, 0, 1, out.size(), values.data());
  }
  return {out};
}

/// Per window the position of its first maximum in the operand (the first NaN wins); -1 where all is padding.
std::vector<int64_t> first_maxima(const EvalContext& ctx, const Extents& outputs) {
  DType dtype = ctx.operands[0].dtype();
  std::vector<int64_t> out(count_of(outputs), -1);
  if (is_float(dtype)) {
    std::vector<double> best(out.size());
    for_each_read<double>(ctx, outputs, [&](int64_t to, int64_t from, double v) {
      if (out[to] < 0 || v > best[to] || (std::isnan(v) && !std::isnan(best[to]))) out[to] = from, best[to] = v;
    });
  } else {
    std::vector<int64_t> best(out.size());
    for_each_read<int64_t>(ctx, outputs, [&](int64_t to, int64_t from, int64_t v) {
      v = ordered_bits(dtype, v);
      if (out[to] < 0 || v > best[to]) out[to] = from, best[to] = v;
    });
  }
  return out;
}

Literals reference_select_and_scatter(const EvalContext& ctx) {
  const Literal& source = ctx.operands[1];
  Literal out = zeros(ctx.op.results[0]);
  std::vector<double> floats(out.size());
  std::vector<uint64_t> ints(out.size());
  std::vector<int64_t> chosen = first_maxima(ctx, source.shape());
  for (int64_t i = 0; i < source.size(); ++i) {
    if (chosen[i] < 0) continue;
    if (is_float(out.dtype()))
      floats[chosen[i]] += source.get(i);
    else
      ints[chosen[i]] += static_cast<uint64_t>(source.get_i(i));
  }
  for (int64_t i = 0; i < out.size(); ++i)
    is_float(out.dtype()) ? out.set(i, floats[i]) : out.set_i(i, static_cast<int64_t>(ints[i]));
  return {out};
}

Literals reference_gather_max(const EvalContext& ctx) {
  Literal out = zeros(ctx.op.results[0]);
  std::vector<int64_t> chosen = first_maxima(ctx, out.shape());
  for (int64_t i = 0; i < out.size(); ++i)
    if (chosen[i] >= 0) copy_element(out, i, ctx.operands[1], chosen[i]);
  return {out};
}

// ---- Access.

/// The loops over windows of operand 0: axes of outputs and taps.
struct Loop {
  std::vector<int> own, over;  ///< output axes; tap axes of windows above 1
  std::vector<Expr> taps;      ///< per dimension: its tap axis, or 0
  std::vector<Expr> indices;   ///< into the operand
  Expr guard;                  ///< null: never padding
  Expr number;                 ///< of the tap, row-major
  int64_t taps_count = 1;
};

Loop make_loop(Fragment& f, const Windows& windows, const Shape& in, const Shape& out) {
  Loop loop;
  loop.own = f.add_axes("o", out);
  loop.number = kernel_ir::index(0);
  for (size_t d = 0; d < windows.size(); ++d) {
    int64_t size = windows[d].size.value();
    loop.taps.push_back(kernel_ir::index(0));
    if (size > 1) {
      loop.over.push_back(f.add_axis("w" + std::to_string(d), size));
      loop.taps[d] = kernel_ir::axis(loop.over.back());
    }
    Tap tap = forward_tap(kernel_ir::axis(loop.own[d]), loop.taps[d], windows[d], in[d], out[d]);
    loop.indices.push_back(tap.index);
    loop.guard = both_guards(loop.guard, tap.guard);
    loop.number = loop.number * kernel_ir::index(size) + loop.taps[d];
    loop.taps_count *= size;
  }
  return loop;
}

int reduce_or_map(Fragment& f, const char* name, const std::vector<int>& own, Combiner combiner,
                  const std::vector<int>& over, Expr value) {
  return over.empty() ? f.map(name, value->dtype, own, value)
                      : f.reduce(name, value->dtype, own, combiner, over, value);
}

Fragment access_reduce_window(const TypedOp& op, Combiner combiner) {
  Fragment f;
  DType dtype = op.operands[0].dtype;
  Loop loop = make_loop(f, windows_of(op.attrs), op.operands[0].shape, op.results[0].shape);
  Expr x = load_under(op, 0, loop.indices, loop.guard, kernel_ir::identity_of(combiner, dtype));
  int d = reduce_or_map(f, "reduced", loop.own, combiner, loop.over, kernel_ir::convert(accumulation_type(dtype), x));
  f.results = {round_definition(f, d, dtype, "out")};
  return f;
}

/// Adds the number of the tap that holds the first maximum of each window; taps_count where all is padding.
int define_first_max(Fragment& f, const TypedOp& op, const Loop& loop) {
  DType dtype = op.operands[0].dtype;
  Expr x = load_under(op, 0, loop.indices, loop.guard, kernel_ir::identity_of(Combiner::kMax, dtype));
  int top = reduce_or_map(f, "top", loop.own, Combiner::kMax, loop.over, x);
  Expr holds = kernel_ir::eq(x, f.at(top));
  if (is_float(dtype)) holds = kernel_ir::call("or", {holds, kernel_ir::call("is_nan", {x})});
  Expr number = kernel_ir::select(both_guards(loop.guard, holds), loop.number, kernel_ir::index(loop.taps_count));
  return reduce_or_map(f, "chosen", loop.own, Combiner::kMin, loop.over, number);
}

bool any_empty(const Shape& shape) {
  for (const Dim& d : shape)
    if (d.is(0)) return true;
  return false;
}

// Every element of the operand asks the windows that contain it whether they chose it: no scatter, so that the loop
// is parallel.
Fragment access_select_and_scatter(const TypedOp& op) {
  Fragment f;
  DType dtype = op.operands[0].dtype;
  const Shape &in = op.operands[0].shape, &out = op.operands[1].shape;
  Windows windows = windows_of(op.attrs);
  if (any_empty(out)) {
    f.results = {f.map("out", dtype, f.add_axes("i", in), kernel_ir::constant_int(dtype, 0))};
    return f;
  }
  Loop loop = make_loop(f, windows, in, out);
  int chosen = define_first_max(f, op, loop);
  std::vector<int> own = f.add_axes("i", in);
  std::vector<Expr> at, clamped;
  Expr guard;
  for (size_t d = 0; d < windows.size(); ++d) {
    Tap tap = backward_tap(kernel_ir::axis(own[d]), loop.taps[d], windows[d], in[d], out[d]);
    guard = both_guards(guard, tap.guard);
    at.push_back(tap.index);
    // The choice is read even where the guard is false.
    Expr last = kernel_ir::dim(out[d]) - kernel_ir::index(1);
    Expr inside = kernel_ir::call("maximum", {kernel_ir::call("minimum", {tap.index, last}), kernel_ir::index(0)});
    clamped.push_back(tap.guard ? inside : tap.index);
  }
  Expr zero = kernel_ir::constant_int(dtype, 0);
  Expr source = load_under(op, 1, at, guard, zero);
  Expr term = kernel_ir::select(kernel_ir::eq(f.at(chosen, clamped), loop.number), source, zero);
  int sum = reduce_or_map(f, "sum", own, Combiner::kSum, loop.over, kernel_ir::convert(accumulation_type(dtype), term));
  f.results = {round_definition(f, sum, dtype, "out")};
  return f;
}

Fragment access_gather_max(const TypedOp& op) {
  Fragment f;
  DType dtype = op.operands[0].dtype;
  Windows windows = windows_of(op.attrs);
  Loop loop = make_loop(f, windows, op.operands[0].shape, op.results[0].shape);
  int chosen = define_first_max(f, op, loop);
  std::vector<Expr> indices;
  int64_t below = loop.taps_count;
  for (size_t d = 0; d < windows.size(); ++d) {
    int64_t size = windows[d].size.value();
    below /= size;
    Expr tap = kernel_ir::mod(kernel_ir::floordiv(f.at(chosen), below), size);
    indices.push_back(
        forward_tap(kernel_ir::axis(loop.own[d]), tap, windows[d], op.operands[0].shape[d], op.results[0].shape[d])
            .index);
  }
  Expr guard;
  if (loop.guard) guard = kernel_ir::lt(f.at(chosen), kernel_ir::index(loop.taps_count));
  Expr value = load_under(op, 1, indices, guard, kernel_ir::constant_int(dtype, 0));
  f.results = {f.map("out", dtype, loop.own, value)};
  return f;
}

// ---- Transforms.

// Every operand element gathers the cotangents of the windows that contain it: a sum over windows of the cotangents
// spread by the stride.
std::vector<MaybeVal> vjp_window_sum(VjpContext& ctx) {
  const Shape& in = ctx.operand(0).shape();
  Val ct = ctx.ct();
  Ints low, high, interior, ones(in.size(), 1), none(in.size(), 0);
  Windows windows = windows_of(ctx.attrs());
  for (size_t d = 0; d < in.size(); ++d) {
    const WindowDim& w = windows[d];
    Dim span = (w.size - 1) * w.dilation;
    Dim out = ct.shape()[d];
    Dim spread = out.is(0) ? Dim(0) : (out - 1) * w.stride + 1;
    low.push_back((span - w.low).value());
    high.push_back((in[d] + w.low - spread).value());
    interior.push_back(w.stride - 1);
  }
  Val padded =
      ctx.b.op("pad", {ct, ctx.b.fill(ct.dtype(), {}, 0)}, {{"low", low}, {"high", high}, {"interior", interior}});
  return {ctx.b.op("reduce_window_sum", {padded},
                   {{"window", ctx.attrs().get_ints("window")},
                    {"strides", ones},
                    {"padding_low", none},
                    {"padding_high", none},
                    {"dilation", ctx.attrs().get_ints("dilation")}})};
}

std::vector<Val> batch_window(BatchContext& ctx) {
  Attrs attrs = ctx.attrs();
  for (const char* name : {"window", "strides", "padding_low", "padding_high", "dilation"}) {
    Ints list = attrs.get_ints(name);
    list.insert(list.begin(), name[0] == 'p' ? 0 : 1);
    attrs.set(name, list);
  }
  return batch_with(ctx, attrs);
}

/// Dimensions without a window pass; in the others operand and result each stay whole.
Factors factors_window(const TypedOp& op) {
  Factors f;
  Windows windows = windows_of(op.attrs);
  bool to_operand = op.op.name == "select_and_scatter";
  const Shape &in = op.operands[0].shape, &out = to_operand ? op.operands[1].shape : op.results[0].shape;
  Factors::Tensor operand, outputs;
  for (size_t d = 0; d < windows.size(); ++d) {
    std::string name(1, static_cast<char>('a' + d));
    bool pass = windows[d].trivial();
    operand.push_back({f.add(name, in[d], pass ? Factors::Kind::kPass : Factors::Kind::kReplicate)});
    outputs.push_back(pass ? operand[d] : std::vector<int>{f.add(name + "'", out[d], Factors::Kind::kReplicate)});
  }
  f.operands = {operand};
  if (op.operands.size() == 2) f.operands.push_back(to_operand ? outputs : operand);
  f.results = {to_operand ? operand : outputs};
  return f;
}

Cost cost_window(const TypedOp& op) {
  Cost cost = pointwise_cost(op, 0);
  int64_t taps = 1;
  for (int64_t w : op.attrs.get_ints("window")) taps *= w;
  cost.flops = op.results[0].count() * taps;
  return cost;
}

// ---- Examples.

Attrs window_attrs(Ints window, Ints strides, Ints low, Ints high, Ints dilation) {
  return {{"window", std::move(window)},
          {"strides", std::move(strides)},
          {"padding_low", std::move(low)},
          {"padding_high", std::move(high)},
          {"dilation", std::move(dilation)}};
}

/// Which second operand an op has: none, one element per window, or one per operand element.
enum class Second { kNone, kPerWindow, kPerElement };

Example window_example(Shape shape, Attrs attrs, Second second) {
  Example e{{operand(f32(shape), distinct())}, attrs};
  if (second == Second::kPerElement) e.operands.push_back(operand(f32(shape)));
  if (second == Second::kPerWindow) {
    Windows windows = windows_of(attrs);
    for (size_t d = 0; d < shape.size(); ++d) shape[d] = output_extent(shape[d], windows[d]);
    e.operands.push_back(operand(f32(shape)));
  }
  return e;
}

std::vector<Example> window_examples(Second second) {
  return {window_example({4, 6}, window_attrs({2, 3}, {2, 3}, {0, 0}, {0, 0}, {1, 1}), second),
          window_example({1, 5, 5, 2},
                         window_attrs({1, 3, 3, 1}, {1, 2, 2, 1}, {0, 1, 1, 0}, {0, 1, 1, 0}, {1, 1, 1, 1}), second),
          window_example({7}, window_attrs({2}, {1}, {1}, {0}, {3}), second)};
}

Example draw_window(Rng& rng, Second second) {
  int rank = static_cast<int>(random_int(rng, 1, 3));
  Ints window, strides, low, high, dilation;
  for (int d = 0; d < rank; ++d) {
    window.push_back(random_int(rng, 1, 3));
    strides.push_back(random_int(rng, 1, 3));
    low.push_back(random_int(rng, 0, 2));
    high.push_back(random_int(rng, 0, 2));
    dilation.push_back(random_int(rng, 1, 2));
  }
  return window_example(random_shape(rng, rank, 200), window_attrs(window, strides, low, high, dilation), second);
}

std::vector<Reject> window_rejects(Second second) {
  Attrs good = window_attrs({2, 3}, {2, 3}, {0, 0}, {0, 0}, {1, 1});
  auto reject = [&](const char* id, DType dtype, Attrs attrs) {
    Reject r{id, {Type(dtype, {4, 6})}, std::move(attrs)};
    if (second != Second::kNone) r.operands.push_back(Type(dtype, {4, 6}));
    return r;
  };
  std::vector<Reject> out = {reject("C1", DType::kBool, good),
                             reject("C2", DType::kF32, window_attrs({2}, {2, 3}, {0, 0}, {0, 0}, {1, 1})),
                             reject("C2", DType::kF32, window_attrs({2, 0}, {2, 3}, {0, 0}, {0, 0}, {1, 1})),
                             reject("C2", DType::kF32, window_attrs({2, 3}, {2, 0}, {0, 0}, {0, 0}, {1, 1})),
                             reject("C2", DType::kF32, window_attrs({2, 3}, {2, 3}, {0, -1}, {0, 0}, {1, 1})),
                             reject("C2", DType::kF32, window_attrs({2, 3}, {2, 3}, {0, 0}, {0}, {1, 1})),
                             reject("C2", DType::kF32, window_attrs({2, 3}, {2, 3}, {0, 0}, {0, 0}, {0, 1}))};
  if (second == Second::kNone) return out;
  bool per_window = second == Second::kPerWindow;
  out.push_back({"C3", {f32({4, 6}), i32(per_window ? Shape{2, 2} : Shape{4, 6})}, good});
  out.push_back({"C4", {f32({4, 6}), f32(per_window ? Shape{2, 3} : Shape{4, 5})}, good});
  out.push_back({"C4", {f32({4, 6}), f32({4})}, good});
  return out;
}

// ---- Records.

std::vector<AttrDef> window_attr_defs() {
  return {required("window", AttrKind::kInts, "taps per dimension of the operand; 1 where nothing slides"),
          required("strides", AttrKind::kInts, "distance between neighbouring windows, per dimension"),
          required("padding_low", AttrKind::kInts, "padding before the operand, per dimension"),
          required("padding_high", AttrKind::kInts, "padding after the operand, per dimension"),
          required("dilation", AttrKind::kInts, "distance between neighbouring taps, per dimension")};
}

const char* const kWindowDoc =
    " Window o of a dimension reads positions o*stride + w*dilation - padding_low for w in [0, window); there are "
    "floor((size + padding_low + padding_high - (window-1)*dilation - 1) / stride) + 1 of them, or none.";

std::vector<ir::Constraint> window_constraints() {
  return {{"C1", "the operand is not bool"},
          {"C2",
           "every window attribute has one entry per dimension; window, strides and dilation are at least 1, "
           "padding is at least 0"}};
}

using Infer = std::function<InferResult(const InferContext&)>;
using Vjp = ir::Rule<std::vector<MaybeVal>(VjpContext&)>;
using Jvp = ir::Rule<std::vector<MaybeVal>(JvpContext&)>;

/// A record; its arguments are the rules in which the four differ.
OpDef window_op(const char* name, std::string doc, Second second, Infer infer,
                ir::Rule<Literals(const EvalContext&)> reference, Vjp vjp, Jvp jvp,
                ir::Rule<Fragment(const TypedOp&)> access) {
  return {.name = name,
          .version = 1,
          .category = "window",
          .doc = doc + kWindowDoc,
          .operands = {{"x", "what the windows slide over"}},
          .attrs = window_attr_defs(),
          .results = {{"out", "one element per window"}},
          .constraints = window_constraints(),
          .traits = {},
          .stages = ir::kTensorStages,
          .infer = std::move(infer),
          .reference = std::move(reference),
          .fold = fold_by_reference(),
          .decompose = ir::no_rule("a primitive: loops follow from its access"),
          .vjp = std::move(vjp),
          .jvp = std::move(jvp),
          .batch = batch_window,
          .factors = factors_window,
          .rank_rule = ir::RankRule::kPoolMax,
          .access = std::move(access),
          .linearity = ir::not_linear(),
          .lower = Lowering::kAccess,
          .cost = cost_window,
          .dtypes = DTypes::kNumeric,
          .examples = window_examples(second),
          .draw = [second](Rng& rng) { return draw_window(rng, second); },
          .rejects = window_rejects(second)};
}

/// reduce_window_sum or reduce_window_max.
OpDef reduce_window(const char* name, std::string doc, Combiner combiner, Vjp vjp, Jvp jvp) {
  return window_op(
      name, std::move(doc), Second::kNone,
      [combiner](const InferContext& ctx) { return infer_reduce_window(ctx, combiner); },
      [combiner](const EvalContext& ctx) { return reference_reduce_window(ctx, combiner); }, std::move(vjp),
      std::move(jvp), [combiner](const TypedOp& op) { return access_reduce_window(op, combiner); });
}

OpDef reduce_window_sum() {
  OpDef op = reduce_window("reduce_window_sum",
                           "Sum over sliding windows (average pooling without the division). Padding adds 0.",
                           Combiner::kSum, vjp_window_sum, jvp_linear);
  op.rank_rule = ir::RankRule::kPoolSum;
  op.linearity = ir::jointly_linear({0});
  op.constraints.push_back({"C3", "a dimension with a stride above 1 has a static size"});
  auto symbol = std::make_shared<const ir::Symbol>(ir::Symbol{"length", 1, 64, 1});
  op.rejects.push_back({"C3", {f32({Dim::symbol(symbol)})}, window_attrs({2}, {2}, {0}, {0}, {1})});
  return op;
}

OpDef reduce_window_max() {
  OpDef op = reduce_window(
      "reduce_window_max",
      "Maximum over sliding windows (max pooling). Padding never wins: a window of nothing but padding gives "
      "-infinity, "
      "or the least integer. NaN wins. The derivative goes to the first maximum of each window.",
      Combiner::kMax,
      [](VjpContext& ctx) -> std::vector<MaybeVal> {
        return {ctx.b.op("select_and_scatter", {ctx.operand(0), ctx.ct()}, ctx.attrs())};
      },
      [](JvpContext& ctx) -> std::vector<MaybeVal> {
        return {ctx.b.op("window_gather_max", {ctx.operand(0), ctx.tangent(0)}, ctx.attrs())};
      });
  op.linearity = ir::jointly(Combiner::kMax, {0});
  return op;
}

/// The gradient of operand 1 is `op` of the cotangent; there is none of operand 0, which only chooses places.
Vjp vjp_by(const char* transpose) {
  return [transpose](VjpContext& ctx) -> std::vector<MaybeVal> {
    if (!ctx.active[1]) return {std::nullopt, std::nullopt};
    return {std::nullopt, ctx.b.op(transpose, {ctx.operand(0), ctx.ct()}, ctx.attrs())};
  };
}

OpDef select_and_scatter() {
  OpDef op = window_op(
      "select_and_scatter",
      "Adds each element of `source` to a zero tensor of the operand's shape, at the first maximum of "
      "its window (the first NaN wins); elements whose window is all padding are dropped. It is the "
      "transpose of window_gather_max and the derivative of reduce_window_max. No derivative with "
      "respect to x: the choice is constant almost everywhere.",
      Second::kPerWindow, [](const InferContext& ctx) { return infer_chosen(ctx, true); }, reference_select_and_scatter,
      vjp_by("window_gather_max"), jvp_linear_in({1}), access_select_and_scatter);
  op.operands.push_back({"source", "one element per window"});
  op.results = {{"out", "sums, shaped like x"}};
  op.rank_rule = ir::RankRule::kPoolGrad;
  op.constraints.push_back({"C3", "the operands have one dtype"});
  op.constraints.push_back({"C4", "source has one element per window"});
  op.linearity = ir::linear_in_each({1});
  return op;
}

OpDef window_gather_max() {
  OpDef op = window_op(
      "window_gather_max",
      "For each window of `x` the element of `values` that stands where the window has its first "
      "maximum (the first NaN wins); 0 where the window is all padding. No derivative with respect to "
      "x: the choice is constant almost everywhere.",
      Second::kPerElement, [](const InferContext& ctx) { return infer_chosen(ctx, false); }, reference_gather_max,
      vjp_by("select_and_scatter"), jvp_linear_in({1}), access_gather_max);
  op.operands.push_back({"values", "shaped like x"});
  op.constraints.push_back({"C3", "the operands have one dtype"});
  op.constraints.push_back({"C4", "the operands have one shape"});
  op.linearity = ir::moves({1});
  return op;
}

}  // namespace

std::vector<OpDef> window_ops() {
  return {reduce_window_sum(), reduce_window_max(), select_and_scatter(), window_gather_max()};
}

}  // namespace nabla::ops
