// Composites that normalise rows: softmax, log_softmax, layer_norm and layer_norm_grad.
#include <cmath>
#include <limits>

#include "ir/ops/access.h"
#include "ir/ops/all_ops.h"

namespace nabla::ops {
namespace {

using kernel_ir::Combiner;
using kernel_ir::Expr;
using kernel_ir::Fragment;

// ---- softmax and log_softmax

InferResult infer_softmax(const InferContext& ctx) {
  NABLA_TRY(require_float(ctx, 0, "C1"));
  NABLA_TRY(ctx.require_axis(ctx.attrs.get_int("axis"), ctx.rank(0), "C2"));
  return Types{ctx.operands[0]};
}

Literals reference_softmax(const EvalContext& ctx, bool log) {
  const Literal& x = ctx.operands[0];
  Literal out = zeros(ctx.op.results[0]);
  for_each_row(x.shape(), ctx.attrs().get_int("axis"), [&](int64_t first, int64_t stride, int64_t count) {
    double top = -std::numeric_limits<double>::infinity(), sum = 0;
    for (int64_t i = 0; i < count; ++i) {
      double v = x.get(first + i * stride);
      if (std::isnan(v) || v > top) top = v;
    }
    for (int64_t i = 0; i < count; ++i) sum += std::exp(x.get(first + i * stride) - top);
    for (int64_t i = 0; i < count; ++i) {
      double shifted = x.get(first + i * stride) - top;
      out.set(first + i * stride, log ? shifted - std::log(sum) : std::exp(shifted) / sum);
    }
  });
  return {out};
}

std::vector<Val> decompose_softmax(DecomposeContext& ctx, bool log) {
  Val x = wide(ctx.operand(0));
  Ints axes = {ctx.attrs().get_int("axis")};
  Val top = ctx.b.op("stop_gradient", {reduce_max(x, axes)});
  Val shifted = x - broadcast_along(top, x.shape(), axes);
  Val e = apply("exp", shifted), sum = reduce_sum(e, axes);
  Val y =
      log ? shifted - broadcast_along(apply("log", sum), x.shape(), axes) : e / broadcast_along(sum, x.shape(), axes);
  return {convert(y, ctx.operand(0).dtype())};
}

Fragment access_softmax(const TypedOp& op, bool log) {
  Fragment f;
  int64_t axis = op.attrs.get_int("axis");
  std::vector<int> all = f.add_axes("i", op.operands[0].shape), rows = all;
  rows.erase(rows.begin() + axis);
  Expr x = load_wide(op, 0, kernel_ir::axes_as_indices(all));
  int top = f.reduce("top", x->dtype, rows, Combiner::kMax, {all[axis]}, x);
  Expr shifted = x - f.at(top), e = unary("exp", shifted);
  int sum = f.reduce("sum", x->dtype, rows, Combiner::kSum, {all[axis]}, e);
  int scale =
      define(f, log ? "log_sum" : "inverse", rows, log ? unary("log", f.at(sum)) : number_like(x, 1) / f.at(sum));
  Expr y = log ? shifted - f.at(scale) : e * f.at(scale);
  f.results = {define(f, "out", all, kernel_ir::convert(op.results[0].dtype, y))};
  return f;
}

/// softmax: y * (t - sum(t * y)), for tangents and cotangents alike: its Jacobian is symmetric.
Val push_softmax(Val y, Val t, int64_t axis) {
  Val ty = t * y;
  return ty - y * broadcast_along(reduce_sum(ty, {axis}), y.shape(), {axis});
}

std::vector<MaybeVal> vjp_log_softmax(VjpContext& ctx) {
  Ints axes = {ctx.attrs().get_int("axis")};
  Val y = ctx.result(), ct = ctx.ct();
  return {ct - apply("exp", y) * broadcast_along(reduce_sum(ct, axes), y.shape(), axes)};
}

std::vector<MaybeVal> jvp_log_softmax(JvpContext& ctx) {
  Ints axes = {ctx.attrs().get_int("axis")};
  Val y = ctx.result(), t = ctx.tangent(0);
  return {t - broadcast_along(reduce_sum(apply("exp", y) * t, axes), y.shape(), axes)};
}

Factors factors_rows(const TypedOp& op, int64_t axis) {
  Factors f = Factors::pointwise(op);
  f.factors[axis].kind = Factors::Kind::kReplicate;
  return f;
}

OpDef make_softmax(const char* name, const char* doc, bool log) {
  auto example = [](Shape shape, int64_t axis) {
    return Example{{operand(f32(std::move(shape)), between(-4, 4))}, {{"axis", axis}}};
  };
  ir::Rule<std::vector<MaybeVal>(VjpContext&)> vjp = vjp_log_softmax;
  ir::Rule<std::vector<MaybeVal>(JvpContext&)> jvp = jvp_log_softmax;
  if (!log) {
    vjp = [](VjpContext& ctx) -> std::vector<MaybeVal> {
      return {push_softmax(ctx.result(), ctx.ct(), ctx.attrs().get_int("axis"))};
    };
    jvp = [](JvpContext& ctx) -> std::vector<MaybeVal> {
      return {push_softmax(ctx.result(), ctx.tangent(0), ctx.attrs().get_int("axis"))};
    };
  }
  return {
      .name = name,
      .version = 1,
      .category = "composite",
      .doc = std::string(doc) +
             " The largest element of each row is subtracted first, so that nothing overflows. A row with a NaN, with "
             "+infinity or of -infinity alone gives NaN. 8- and 16-bit floats are computed in f32 and rounded once.",
      .operands = {{"x", "logits"}},
      .attrs = {required("axis", AttrKind::kInt, "along which the rows lie")},
      .results = {{"out", "shaped like x"}},
      .constraints = {{"C1", "the operand is floating"}, {"C2", "the axis exists"}},
      .traits = {.composite = true},
      .stages = ir::kTensorStages,
      .infer = infer_softmax,
      .reference = [log](const EvalContext& ctx) { return reference_softmax(ctx, log); },
      .fold = fold_by_reference(),
      .decompose = [log](DecomposeContext& ctx) { return decompose_softmax(ctx, log); },
      .vjp = vjp,
      .jvp = jvp,
      .batch = batch_shifting({"axis"}),
      .factors = [](const TypedOp& op) { return factors_rows(op, op.attrs.get_int("axis")); },
      .access = [log](const TypedOp& op) { return access_softmax(op, log); },
      .linearity = ir::not_linear(),
      .lower = Lowering::kAccess,
      .cost = [](const TypedOp& op) { return pointwise_cost(op, 5); },
      .dtypes = DTypes::kFloats,
      .examples = {example({2, 5}, 1), example({3, 4, 2}, 1), example({7}, 0)},
      .draw =
          [example](Rng& rng) {
            int rank = static_cast<int>(random_int(rng, 1, 3));
            return example(random_shape(rng, rank), random_int(rng, 0, rank - 1));
          },
      .rejects = {{"C1", {i32({2, 3})}, {{"axis", int64_t{1}}}},
                  {"C2", {f32({2, 3})}, {{"axis", int64_t{2}}}},
                  {"C2", {f32({})}, {{"axis", int64_t{0}}}}},
  };
}

// ---- layer_norm

/// C1 floating and of one dtype, C2 rank, C3 the sizes of gamma (and what follows it up to `last`).
Status check_layer_norm(const InferContext& ctx, int last_of_gamma_type) {
  NABLA_TRY(require_float(ctx, 0, "C1"));
  for (size_t i = 1; i < ctx.operands.size(); ++i) NABLA_TRY(ctx.require_same_dtype(0, static_cast<int>(i), "C1"));
  if (ctx.rank(0) < 1) return ctx.fail(Code::kShapeMismatch, "C2", "x is a scalar");
  for (int i = 1; i <= last_of_gamma_type; ++i) {
    NABLA_TRY(require_rank(ctx, i, 1, "C3"));
    NABLA_TRY(ctx.require_equal(ctx.shape(i)[0], ctx.shape(0).back(), "C3", "feature sizes"));
  }
  return Ok{};
}

Shape rows_of(const Shape& shape) { return Shape(shape.begin(), shape.end() - 1); }

InferResult infer_layer_norm(const InferContext& ctx) {
  NABLA_TRY(check_layer_norm(ctx, 2));
  Type row(ctx.operands[0].dtype, rows_of(ctx.shape(0)));
  return Types{ctx.operands[0], row, row};
}

InferResult infer_layer_norm_grad(const InferContext& ctx) {
  NABLA_TRY(check_layer_norm(ctx, 1));
  for (int i : {2, 3}) {
    NABLA_TRY(require_rank(ctx, i, ctx.rank(0) - 1, "C4"));
    for (int d = 0; d < ctx.rank(i); ++d)
      NABLA_TRY(ctx.require_equal(ctx.shape(i)[d], ctx.shape(0)[d], "C4", "numbers of rows"));
  }
  NABLA_TRY(ctx.require_same_type(0, 4, "C5"));
  return Types{ctx.operands[0], ctx.operands[1], ctx.operands[1]};
}

Literals reference_layer_norm(const EvalContext& ctx) {
  const Literal &x = ctx.operands[0], &gamma = ctx.operands[1], &beta = ctx.operands[2];
  Literal out = zeros(ctx.op.results[0]), means = zeros(ctx.op.results[1]), rstds = zeros(ctx.op.results[2]);
  double eps = ctx.attrs().get_float("eps");
  int64_t size = x.shape().back();
  for (int64_t row = 0; row < means.size(); ++row) {
    double sum = 0, squares = 0;
    for (int64_t i = 0; i < size; ++i) sum += x.get(row * size + i);
    double mean = sum / static_cast<double>(size);
    for (int64_t i = 0; i < size; ++i) squares += std::pow(x.get(row * size + i) - mean, 2);
    double rstd = 1 / std::sqrt(squares / static_cast<double>(size) + eps);
    for (int64_t i = 0; i < size; ++i)
      out.set(row * size + i, (x.get(row * size + i) - mean) * rstd * gamma.get(i) + beta.get(i));
    means.set(row, mean);
    rstds.set(row, rstd);
  }
  return {out, means, rstds};
}

std::vector<Val> decompose_layer_norm(DecomposeContext& ctx) {
  DType dtype = ctx.operand(0).dtype();
  Val x = wide(ctx.operand(0)), gamma = wide(ctx.operand(1)), beta = wide(ctx.operand(2));
  int64_t last = x.rank() - 1;
  auto rows = [&](Val v) { return broadcast_along(v, x.shape(), {last}); };
  auto features = [&](Val v) { return broadcast_in_dim(v, x.shape(), {last}); };
  Val ones = ctx.b.fill(x.dtype(), x.shape(), 1), size = reduce_sum(ones, {last});
  Val mean = reduce_sum(x, {last}) / size, centred = x - rows(mean);
  Val rstd = apply("rsqrt", reduce_sum(centred * centred, {last}) / size + ctx.attrs().get_float("eps"));
  Val y = centred * rows(rstd) * features(gamma) + features(beta);
  return {convert(y, dtype), convert(mean, dtype), convert(rstd, dtype)};
}

Fragment access_layer_norm(const TypedOp& op) {
  Fragment f;
  DType dtype = op.operands[0].dtype;
  std::vector<int> all = f.add_axes("i", op.operands[0].shape), rows(all.begin(), all.end() - 1);
  int last = all.back();
  Expr x = load_wide(op, 0, kernel_ir::axes_as_indices(all)), size = extent_as(x->dtype, op.operands[0].shape.back());
  int sum = f.reduce("sum", x->dtype, rows, Combiner::kSum, {last}, x);
  int mean = define(f, "mean", rows, f.at(sum) / size);
  Expr centred = x - f.at(mean);
  int squares = f.reduce("squares", x->dtype, rows, Combiner::kSum, {last}, centred * centred);
  int rstd = define(f, "rstd", rows, unary("rsqrt", f.at(squares) / size + number_like(x, op.attrs.get_float("eps"))));
  std::vector<Expr> feature = {kernel_ir::axis(last)};
  Expr y = centred * f.at(rstd) * load_wide(op, 1, feature) + load_wide(op, 2, feature);
  int out = define(f, "out", all, kernel_ir::convert(dtype, y));
  f.results = {out, round_definition(f, mean, dtype, "mean_out"), round_definition(f, rstd, dtype, "rstd_out")};
  return f;
}

std::vector<MaybeVal> vjp_layer_norm(VjpContext& ctx) {
  Val x = ctx.operand(0), mean = ctx.result(1), rstd = ctx.result(2);
  std::vector<MaybeVal> out(3);
  if (ctx.cotangents[0]) {
    std::vector<Val> g = ctx.b.add("layer_norm_grad", {x, ctx.operand(1), mean, rstd, ctx.ct(0)});
    for (int i = 0; i < 3; ++i) out[i] = g[i];
  }
  // The auxiliary results: d mean / d x = 1 / n, d rstd / d x = -rstd^3 (x - mean) / n.
  int64_t last = x.rank() - 1;
  auto rows = [&](Val v) { return broadcast_along(v, x.shape(), {last}); };
  auto per_element = [&](Val v) { return v / reduce_sum(ctx.b.like(x, 1), {last}); };
  if (ctx.cotangents[1]) out[0] = add_maybe(out[0], rows(per_element(ctx.ct(1))));
  if (ctx.cotangents[2])
    out[0] = add_maybe(out[0], -(rows(per_element(ctx.ct(2) * rstd * rstd * rstd)) * (x - rows(mean))));
  for (int i = 0; i < 3; ++i)
    if (!ctx.active[i]) out[i] = std::nullopt;
  return out;
}

std::vector<Val> batch_layer_norm(BatchContext& ctx) {
  Val x = ctx.batched_operand(0), gamma = ctx.operands[1], beta = ctx.operands[2];
  if (!ctx.batched[1] && !ctx.batched[2]) return ctx.b.add("layer_norm", {x, gamma, beta}, ctx.attrs());
  // One gamma and beta per example: normalise alone, then scale and shift.
  Shape features = {x.shape().back()};
  std::vector<Val> out =
      ctx.b.add("layer_norm", {x, ctx.b.fill(x.dtype(), features, 1), ctx.b.fill(x.dtype(), features, 0)}, ctx.attrs());
  auto spread = [&](int i) { return broadcast_in_dim(ctx.batched_operand(i), x.shape(), {0, x.rank() - 1}); };
  out[0] = out[0] * spread(1) + spread(2);
  return out;
}

/// Rows pass, or are summed over where a result lacks them; features stay whole.
Factors factors_layer_norm(const TypedOp& op) {
  Factors f;
  const Type& x = op.operands[0];
  bool grad = op.operands.size() == 5;
  Factors::Tensor full;
  for (int d = 0; d < x.rank(); ++d) {
    bool last = d == x.rank() - 1;
    auto kind = last ? Factors::Kind::kReplicate : grad ? Factors::Kind::kReduce : Factors::Kind::kPass;
    full.push_back({f.add(std::string(1, static_cast<char>('a' + d)), x.shape[d], kind,
                          !last && grad ? Combiner::kSum : Combiner::kNone)});
  }
  Factors::Tensor rows(full.begin(), full.end() - 1), features = {full.back()};
  f.operands = {full, features, features};
  f.results = {full, rows, rows};
  if (grad) {
    f.operands = {full, features, rows, rows, full};
    f.results = {full, features, features};
  }
  return f;
}

Example layer_norm_example(Shape shape, double eps) {
  Type row = f32({shape.back()});
  return {{operand(f32(shape)), operand(row), operand(row)}, {{"eps", eps}}};
}

/// Shapes with at least one feature, at least `least` of them.
Shape draw_rows(Rng& rng, int64_t least) {
  Shape shape = random_shape(rng, static_cast<int>(random_int(rng, 0, 2)), 40);
  shape.push_back(std::max(least, random_positive_dim(rng)));
  return shape;
}

OpDef layer_norm() {
  return {
      .name = "layer_norm",
      .version = 1,
      .category = "composite",
      .doc =
          "(x - mean) * rstd * gamma + beta over the last axis, where rstd = 1 / sqrt(variance + eps) and the variance "
          "divides by the number of features. The sums are taken in f32 for 8- and 16-bit floats, in two passes. mean "
          "and rstd are results for the backward op. Ba, Kiros and Hinton, \"Layer normalization\", 2016.",
      .operands = {{"x", "rows along the last axis"}, {"gamma", "scale per feature"}, {"beta", "shift per feature"}},
      .attrs = {optional("eps", "added to the variance", 1e-5)},
      .results = {{"out", "shaped like x"}, {"mean", "per row", true}, {"rstd", "per row", true}},
      .constraints = {{"C1", "the operands are floating and have one dtype"},
                      {"C2", "x has at least one dimension"},
                      {"C3", "gamma and beta have one element per feature"}},
      .traits = {.composite = true},
      .stages = ir::kTensorStages,
      .infer = infer_layer_norm,
      .reference = reference_layer_norm,
      .fold = fold_by_reference(),
      .decompose = decompose_layer_norm,
      .vjp = vjp_layer_norm,
      .jvp = ir::by_decomposition(),
      .batch = batch_layer_norm,
      .factors = factors_layer_norm,
      .access = access_layer_norm,
      .linearity = ir::not_linear(),
      .lower = Lowering::kAccess,
      .cost = [](const TypedOp& op) { return pointwise_cost(op, 8); },
      .dtypes = DTypes::kFloats,
      .examples = {layer_norm_example({2, 5}, 1e-5), layer_norm_example({7}, 1e-3), layer_norm_example({2, 3, 4}, 0.1)},
      .draw = [](Rng& rng) { return layer_norm_example(draw_rows(rng, 2), 0.1); },
      .rejects = {{"C1", {i32({2, 3}), i32({3}), i32({3})}, {}},
                  {"C1", {f32({2, 3}), i32({3}), f32({3})}, {}},
                  {"C2", {f32({}), f32({3}), f32({3})}, {}},
                  {"C3", {f32({2, 3}), f32({2}), f32({3})}, {}},
                  {"C3", {f32({2, 3}), f32({3}), f32({1, 3})}, {}}},
  };
}

// ---- layer_norm_grad

Literals reference_layer_norm_grad(const EvalContext& ctx) {
  const Literal &x = ctx.operands[0], &gamma = ctx.operands[1], &mean = ctx.operands[2], &rstd = ctx.operands[3];
  const Literal& ct = ctx.operands[4];
  Literal dx = zeros(ctx.op.results[0]), dgamma = zeros(ctx.op.results[1]), dbeta = zeros(ctx.op.results[2]);
  int64_t size = gamma.size();
  std::vector<double> gamma_sum(size), beta_sum(size);
  for (int64_t row = 0; row < mean.size(); ++row) {
    auto normal = [&](int64_t i) { return (x.get(row * size + i) - mean.get(row)) * rstd.get(row); };
    double sum = 0, dot = 0, n = static_cast<double>(size);
    for (int64_t i = 0; i < size; ++i) {
      double c = ct.get(row * size + i), g = c * gamma.get(i);
      sum += g;
      dot += g * normal(i);
      gamma_sum[i] += c * normal(i);
      beta_sum[i] += c;
    }
    for (int64_t i = 0; i < size; ++i)
      dx.set(row * size + i, rstd.get(row) * (ct.get(row * size + i) * gamma.get(i) - sum / n - normal(i) * dot / n));
  }
  for (int64_t i = 0; i < size; ++i) dgamma.set(i, gamma_sum[i]), dbeta.set(i, beta_sum[i]);
  return {dx, dgamma, dbeta};
}

std::vector<Val> decompose_layer_norm_grad(DecomposeContext& ctx) {
  DType dtype = ctx.operand(0).dtype();
  Val x = wide(ctx.operand(0)), gamma = wide(ctx.operand(1)), mean = wide(ctx.operand(2));
  Val rstd = wide(ctx.operand(3)), ct = wide(ctx.operand(4));
  int64_t last = x.rank() - 1;
  Ints leading = ir::iota_ints(static_cast<int>(last));
  auto rows = [&](Val v) { return broadcast_along(v, x.shape(), {last}); };
  Val normal = (x - rows(mean)) * rows(rstd), g = ct * broadcast_in_dim(gamma, x.shape(), {last});
  Val size = reduce_sum(ctx.b.fill(x.dtype(), x.shape(), 1), {last});
  Val sum = reduce_sum(g, {last}) / size, dot = reduce_sum(g * normal, {last}) / size;
  Val dx = rows(rstd) * (g - rows(sum) - normal * rows(dot));
  return {convert(dx, dtype), convert(reduce_sum(ct * normal, leading), dtype),
          convert(reduce_sum(ct, leading), dtype)};
}

Fragment access_layer_norm_grad(const TypedOp& op) {
  Fragment f;
  DType dtype = op.operands[0].dtype;
  std::vector<int> all = f.add_axes("i", op.operands[0].shape), rows(all.begin(), all.end() - 1);
  int last = all.back();
  std::vector<Expr> element = kernel_ir::axes_as_indices(all), row = kernel_ir::axes_as_indices(rows);
  Expr x = load_wide(op, 0, element), gamma = load_wide(op, 1, {kernel_ir::axis(last)}), ct = load_wide(op, 4, element);
  Expr rstd = load_wide(op, 3, row), normal = (x - load_wide(op, 2, row)) * rstd, g = ct * gamma;
  Expr size = extent_as(x->dtype, op.operands[0].shape.back());
  int sum = f.reduce("sum", x->dtype, rows, Combiner::kSum, {last}, g);
  int dot = f.reduce("dot", x->dtype, rows, Combiner::kSum, {last}, g * normal);
  int mean_g = define(f, "mean_g", rows, f.at(sum) / size), mean_dot = define(f, "mean_dot", rows, f.at(dot) / size);
  int dx = define(f, "dx", all, kernel_ir::convert(dtype, rstd * (g - f.at(mean_g) - normal * f.at(mean_dot))));
  int dgamma = reduce_or_map(f, "dgamma", {last}, Combiner::kSum, rows, ct * normal);
  int dbeta = reduce_or_map(f, "dbeta", {last}, Combiner::kSum, rows, ct);
  f.results = {dx, round_definition(f, dgamma, dtype, "dgamma_out"), round_definition(f, dbeta, dtype, "dbeta_out")};
  return f;
}

Example layer_norm_grad_example(Shape shape) {
  Type x = f32(shape), features = f32({shape.back()}), rows = f32(rows_of(shape));
  return {
      {operand(x), operand(features), operand(rows, between(-0.5, 0.5)), operand(rows, between(0.5, 2)), operand(x)},
      {}};
}

OpDef layer_norm_grad() {
  Type x = f32({2, 3}), d = f32({3}), n = f32({2});
  return {
      .name = "layer_norm_grad",
      .version = 1,
      .category = "composite",
      .doc =
          "Gradients of layer_norm by its operands, from the mean and rstd that it saved, which count as independent "
          "operands here: dx = rstd * (g - avg(g) - n * avg(g * n)) with n = (x - mean) * rstd and g = ct * gamma; "
          "dgamma and dbeta are the sums of ct * n and of ct over all rows.",
      .operands = {{"x", "operand of layer_norm"},
                   {"gamma", "scale per feature"},
                   {"mean", "per row"},
                   {"rstd", "per row"},
                   {"ct", "cotangent of layer_norm's result"}},
      .attrs = {},
      .results = {{"dx", "shaped like x"}, {"dgamma", "per feature"}, {"dbeta", "per feature"}},
      .constraints = {{"C1", "the operands are floating and have one dtype"},
                      {"C2", "x has at least one dimension"},
                      {"C3", "gamma has one element per feature"},
                      {"C4", "mean and rstd have one element per row"},
                      {"C5", "ct has the type of x"}},
      .traits = {.composite = true},
      .stages = ir::kTensorStages,
      .infer = infer_layer_norm_grad,
      .reference = reference_layer_norm_grad,
      .fold = fold_by_reference(),
      .decompose = decompose_layer_norm_grad,
      .vjp = ir::by_decomposition(),
      .jvp = ir::by_decomposition(),
      .batch = ir::by_decomposition(),
      .factors = factors_layer_norm,
      .access = access_layer_norm_grad,
      .linearity = ir::linear_in_each({4}),
      .lower = Lowering::kAccess,
      .cost = [](const TypedOp& op) { return pointwise_cost(op, 14); },
      .dtypes = DTypes::kFloats,
      .examples = {layer_norm_grad_example({2, 5}), layer_norm_grad_example({7}), layer_norm_grad_example({2, 3, 4})},
      .draw = [](Rng& rng) { return layer_norm_grad_example(draw_rows(rng, 1)); },
      .rejects = {{"C1", {x, d, n, n, i32({2, 3})}, {}},
                  {"C1", {i32({2, 3}), i32({3}), i32({2}), i32({2}), i32({2, 3})}, {}},
                  {"C2", {f32({}), d, n, n, x}, {}},
                  {"C3", {x, n, n, n, x}, {}},
                  {"C4", {x, d, d, n, x}, {}},
                  {"C4", {x, d, n, x, x}, {}},
                  {"C5", {x, d, n, n, d}, {}},
                  {"C5", {x, d, n, n, f32({3, 3})}, {}}},
  };
}

}  // namespace

std::vector<OpDef> normalization_ops() {
  return {make_softmax("softmax", "exp(x) divided by its sum along `axis`.", false),
          make_softmax("log_softmax", "x minus the logarithm of the sum of exp(x) along `axis`.", true), layer_norm(),
          layer_norm_grad()};
}

}  // namespace nabla::ops
