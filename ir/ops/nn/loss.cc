// Cross-entropy of logits against integer labels, and its gradient.
#include <cmath>
#include <limits>

#include "ir/ops/access.h"
#include "ir/ops/all_ops.h"

namespace nabla::ops {
namespace {

using kernel_ir::Combiner;
using kernel_ir::Expr;
using kernel_ir::Fragment;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

Shape loss_shape(const Shape& logits) { return Shape(logits.begin(), logits.end() - 1); }

/// C1..C4, which both ops share.
Status check_logits(const InferContext& ctx) {
  NABLA_TRY(require_float(ctx, 0, "C1"));
  NABLA_TRY(require_integer(ctx, 1, "C2"));
  if (ctx.rank(0) < 1 || !Dim::less_equal(1, ctx.shape(0).back()).value_or(false))
    return ctx.fail(Code::kShapeMismatch, "C3", "logits are {}, expected a last dimension of at least one class",
                    ir::str(ctx.shape(0)));
  return Ok{};
}

Status require_rows(const InferContext& ctx, int operand, std::string_view constraint) {
  NABLA_TRY(require_rank(ctx, operand, ctx.rank(0) - 1, constraint));
  for (int d = 0; d < ctx.rank(operand); ++d)
    NABLA_TRY(
        ctx.require_equal(ctx.shape(operand)[d], ctx.shape(0)[d], constraint,
                          fmt::format("sizes of {} and logits in dimension {}", ctx.op.operands[operand].name, d)));
  return Ok{};
}

InferResult infer_cross_entropy(const InferContext& ctx) {
  NABLA_TRY(check_logits(ctx));
  NABLA_TRY(require_rows(ctx, 1, "C4"));
  const DType dtype = ctx.operands[0].dtype;
  const Shape rows = loss_shape(ctx.shape(0));
  return Types{Type(dtype, rows), Type(accumulation_type(dtype), rows)};
}

InferResult infer_cross_entropy_grad(const InferContext& ctx) {
  NABLA_TRY(check_logits(ctx));
  NABLA_TRY(ctx.require_same_dtype(0, 3, "C1"));
  if (const DType lse = ctx.operands[2].dtype, sums = accumulation_type(ctx.operands[0].dtype); lse != sums)
    return ctx.fail(Code::kDTypeMismatch, "C1", "logsumexp is {}, expected {}", name_of(lse), name_of(sums));
  for (int i : {1, 2, 3}) NABLA_TRY(require_rows(ctx, i, "C4"));
  return Types{ctx.operands[0]};
}

bool is_class(int64_t label, int64_t classes) { return label >= 0 && label < classes; }

Literals reference_cross_entropy(const EvalContext& ctx) {
  const Literal &x = ctx.operands[0], &labels = ctx.operands[1];
  Literal loss = zeros(ctx.op.results[0]), lse = zeros(ctx.op.results[1]);
  int64_t classes = x.shape().back();
  for (int64_t row = 0; row < labels.size(); ++row) {
    double top = -std::numeric_limits<double>::infinity(), sum = 0;
    for (int64_t i = 0; i < classes; ++i) {
      double v = x.get(row * classes + i);
      if (std::isnan(v) || v > top) top = v;
    }
    for (int64_t i = 0; i < classes; ++i) sum += std::exp(x.get(row * classes + i) - top);
    int64_t label = labels.get_i(row);
    lse.set(row, top + std::log(sum));
    loss.set(row, is_class(label, classes) ? top - x.get(row * classes + label) + std::log(sum) : kNan);
  }
  return {loss, lse};
}

Literals reference_cross_entropy_grad(const EvalContext& ctx) {
  const Literal &x = ctx.operands[0], &labels = ctx.operands[1], &lse = ctx.operands[2], &ct = ctx.operands[3];
  Literal out = zeros(ctx.op.results[0]);
  int64_t classes = x.shape().back();
  for (int64_t row = 0; row < labels.size(); ++row)
    for (int64_t i = 0; i < classes; ++i) {
      int64_t at = row * classes + i, label = labels.get_i(row);
      double p = std::exp(x.get(at) - lse.get(row));
      out.set(at, is_class(label, classes) ? (p - (i == label ? 1 : 0)) * ct.get(row) : kNan);
    }
  return {out};
}

/// Where the class is the label's, shaped like the logits.
Val one_hot(Val logits, Val labels) {
  int64_t last = logits.rank() - 1;
  Val classes = logits.b->op("iota", {}, {{"shape", logits.shape()}, {"axis", last}, {"dtype", DType::kI64}});
  return apply("eq", classes, broadcast_along(convert(labels, DType::kI64), logits.shape(), {last}));
}

std::vector<Val> decompose_cross_entropy(DecomposeContext& ctx) {
  Val x = wide(ctx.operand(0));
  Ints axes = {x.rank() - 1};
  DType dtype = ctx.operand(0).dtype();
  Val top = apply("stop_gradient", reduce_max(x, axes));
  Val e = apply("exp", x - broadcast_along(top, x.shape(), axes));
  Val log_sum = apply("log", reduce_sum(e, axes)), hot = one_hot(x, ctx.operand(1));
  Val picked = reduce_sum(select(hot, x, ctx.b.zeros_like(x)), axes);
  Val valid = ctx.b.op("reduce_or", {hot}, {{"axes", axes}});
  // The difference of two logits comes first: beside large logits the logarithm would be rounded away.
  Val loss = select(valid, (top - picked) + log_sum, ctx.b.like(log_sum, kNan));
  return {convert(loss, dtype), top + log_sum};
}

std::vector<Val> decompose_cross_entropy_grad(DecomposeContext& ctx) {
  Val x = wide(ctx.operand(0)), lse = wide(ctx.operand(2)), ct = wide(ctx.operand(3));
  Ints axes = {x.rank() - 1};
  auto rows = [&](Val v) { return broadcast_along(v, x.shape(), axes); };
  Val hot = one_hot(x, ctx.operand(1));
  Val p = apply("exp", x - rows(lse));
  Val valid = rows(ctx.b.op("reduce_or", {hot}, {{"axes", axes}}));
  Val g = (p - convert(hot, x.dtype())) * rows(ct);
  return {convert(select(valid, g, ctx.b.like(g, kNan)), ctx.operand(0).dtype())};
}

Expr inside(Expr label, const Dim& classes) {
  return kernel_ir::both(kernel_ir::ge(label, kernel_ir::index(0)), kernel_ir::lt(label, kernel_ir::dim(classes)));
}

Fragment access_cross_entropy(const TypedOp& op) {
  Fragment f;
  DType dtype = op.operands[0].dtype;
  std::vector<int> all = f.add_axes("i", op.operands[0].shape), rows(all.begin(), all.end() - 1);
  int last = all.back();
  Expr x = load_wide(op, 0, kernel_ir::axes_as_indices(all));
  int top = f.reduce("top", x->dtype, rows, Combiner::kMax, {last}, x);
  int sum = f.reduce("sum", x->dtype, rows, Combiner::kSum, {last}, unary("exp", x - f.at(top)));
  int log_sum = define(f, "log_sum", rows, unary("log", f.at(sum)));
  std::vector<Expr> at = kernel_ir::axes_as_indices(rows);
  Expr label = kernel_ir::convert(DType::kI64, load_operand(op, 1, at));
  at.push_back(label);
  Expr picked = kernel_ir::guarded_load(dtype, 0, at, inside(label, op.operands[0].shape.back()),
                                        kernel_ir::constant(dtype, kNan));
  Expr behind = f.at(top) - kernel_ir::convert(x->dtype, picked);
  int loss = define(f, "loss", rows, kernel_ir::convert(dtype, behind + f.at(log_sum)));
  f.results = {loss, define(f, "lse", rows, f.at(top) + f.at(log_sum))};
  return f;
}

Fragment access_cross_entropy_grad(const TypedOp& op) {
  Fragment f;
  std::vector<int> all = f.add_axes("i", op.operands[0].shape), rows(all.begin(), all.end() - 1);
  std::vector<Expr> row = kernel_ir::axes_as_indices(rows);
  Expr x = load_wide(op, 0, kernel_ir::axes_as_indices(all));
  Expr label = kernel_ir::convert(DType::kI64, load_operand(op, 1, row));
  Expr p = unary("exp", x - load_wide(op, 2, row));
  Expr hot = kernel_ir::select(kernel_ir::eq(kernel_ir::axis(all.back()), label), number_like(x, 1), number_like(x, 0));
  Expr g = (p - hot) * load_wide(op, 3, row);
  Expr checked = kernel_ir::select(inside(label, op.operands[0].shape.back()), g, number_like(x, kNan));
  f.results = {define(f, "dlogits", all, kernel_ir::convert(op.results[0].dtype, checked))};
  return f;
}

std::vector<MaybeVal> vjp_cross_entropy(VjpContext& ctx) {
  std::vector<MaybeVal> out(2);
  if (!ctx.active[0]) return out;
  Val x = ctx.operand(0), lse = ctx.result(1);
  if (ctx.cotangents[0]) out[0] = ctx.b.op("cross_entropy_grad", {x, ctx.operand(1), lse, ctx.ct(0)});
  if (ctx.cotangents[1]) {
    auto rows = [&](Val v) { return broadcast_along(v, x.shape(), {x.rank() - 1}); };
    out[0] = add_maybe(out[0], convert(apply("exp", wide(x) - rows(lse)) * rows(ctx.ct(1)), x.dtype()));
  }
  return out;
}

Factors factors_loss(const TypedOp& op) {
  Factors f;
  const Type& x = op.operands[0];
  Factors::Tensor full;
  for (int d = 0; d < x.rank(); ++d)
    full.push_back({f.add(std::string(1, static_cast<char>('a' + d)), x.shape[d],
                          d == x.rank() - 1 ? Factors::Kind::kReplicate : Factors::Kind::kPass)});
  Factors::Tensor rows(full.begin(), full.end() - 1);
  for (const Type& t : op.operands) f.operands.push_back(t.rank() == x.rank() ? full : rows);
  for (const Type& t : op.results) f.results.push_back(t.rank() == x.rank() ? full : rows);
  return f;
}

Shape draw_logits(Rng& rng) {
  Shape shape = random_shape(rng, static_cast<int>(random_int(rng, 0, 2)), 40);
  shape.push_back(random_positive_dim(rng));
  return shape;
}

/// In bf16, of which logsumexp is f32.
Example narrow_grad_example() {
  const Type x(DType::kBF16, {3, 5}), row(DType::kBF16, {3});
  return {{operand(x, between(-4, 4)), operand(i32({3}), between(0, 4)), operand(f32({3}), between(2, 4)), operand(row)}, {}};
}

/// Labels reach a little beyond the classes; never where derivatives are checked against differences.
Example loss_example(Shape logits, bool grad, bool beyond) {
  double classes = static_cast<double>(logits.back().value());
  Type row = f32(loss_shape(logits));
  Example e{{operand(f32(logits), between(-4, 4)),
             operand(i32(row.shape), between(beyond ? -1 : 0, beyond ? classes : classes - 1))},
            {}};
  if (grad) e.operands.insert(e.operands.end(), {operand(row, between(2, 4)), operand(row)});
  return e;
}

OpDef cross_entropy() {
  return {
      .name = "cross_entropy",
      .version = 1,
      .category = "composite",
      .doc =
          "Per row the negative log-likelihood of its label under softmax of the logits: logsumexp(logits) - "
          "logits[label]. The largest logit is subtracted first, so that nothing overflows. A label outside of the "
          "classes gives NaN, as loss and as gradient. logsumexp is a result for the backward op, in f32 for 8- and 16-bit "
          "floats, whose rounding would distort the gradient.",
      .operands = {{"logits", "[rows..., classes]"}, {"labels", "integers [rows...]"}},
      .attrs = {},
      .results = {{"loss", "per row"}, {"logsumexp", "per row, in the accumulation dtype", true}},
      .constraints = {{"C1", "logits are floating"},
                      {"C2", "labels are integers"},
                      {"C3", "logits have a last dimension of at least one class"},
                      {"C4", "labels have the shape of the rows"}},
      .traits = {.composite = true},
      .stages = ir::kTensorStages,
      .infer = infer_cross_entropy,
      .reference = reference_cross_entropy,
      .fold = fold_by_reference(),
      .decompose = decompose_cross_entropy,
      .vjp = vjp_cross_entropy,
      .jvp = ir::by_decomposition(),
      .batch = batch_elementwise,
      .factors = factors_loss,
      .access = access_cross_entropy,
      .linearity = ir::not_linear(),
      .lower = Lowering::kAccess,
      .cost =
          [](const TypedOp& op) {
            Cost cost = pointwise_cost(op, 0);
            cost.flops = op.operands[0].count() * 4;
            return cost;
          },
      .dtypes = DTypes::kFloats,
      .examples = {loss_example({3, 5}, false, false), loss_example({4}, false, false),
                   loss_example({2, 3, 2}, false, false)},
      .draw = [](Rng& rng) { return loss_example(draw_logits(rng), false, false); },
      .rejects = {{"C1", {i32({3, 5}), i32({3})}, {}},
                  {"C2", {f32({3, 5}), f32({3})}, {}},
                  {"C3", {f32({}), i32({})}, {}},
                  {"C3", {f32({3, 0}), i32({3})}, {}},
                  {"C4", {f32({3, 5}), i32({2})}, {}},
                  {"C4", {f32({3, 5}), i32({3, 5})}, {}}},
  };
}

OpDef cross_entropy_grad() {
  Type x = f32({3, 5}), row = f32({3}), labels = i32({3});
  return {
      .name = "cross_entropy_grad",
      .version = 1,
      .category = "composite",
      .doc =
          "Gradient of cross_entropy by its logits: (exp(logits - logsumexp) - onehot(label)) * ct, where logsumexp "
          "counts as an independent operand. Rows whose label is outside of the classes are NaN.",
      .operands = {{"logits", "[rows..., classes]"},
                   {"labels", "integers [rows...]"},
                   {"logsumexp", "per row"},
                   {"ct", "cotangent of the loss, per row"}},
      .attrs = {},
      .results = {{"dlogits", "shaped like logits"}},
      .constraints = {{"C1", "logits are floating; ct has their dtype, logsumexp their accumulation dtype"},
                      {"C2", "labels are integers"},
                      {"C3", "logits have a last dimension of at least one class"},
                      {"C4", "labels, logsumexp and ct have the shape of the rows"}},
      .traits = {.composite = true},
      .stages = ir::kTensorStages,
      .infer = infer_cross_entropy_grad,
      .reference = reference_cross_entropy_grad,
      .fold = fold_by_reference(),
      .decompose = decompose_cross_entropy_grad,
      .vjp = ir::by_decomposition(),
      .jvp = ir::by_decomposition(),
      .batch = batch_elementwise,
      .factors = factors_loss,
      .access = access_cross_entropy_grad,
      .linearity = ir::linear_in_each({3}),
      .lower = Lowering::kAccess,
      .cost = [](const TypedOp& op) { return pointwise_cost(op, 4); },
      .dtypes = DTypes::kAsWritten,  // logsumexp follows the logits only where they are wide
      .examples = {loss_example({3, 5}, true, false), loss_example({4}, true, false),
                   loss_example({2, 3, 2}, true, false), narrow_grad_example()},
      .draw = [](Rng& rng) { return loss_example(draw_logits(rng), true, false); },
      .rejects = {{"C1", {x, labels, i32({3}), row}, {}},
                  {"C1", {i32({3, 5}), labels, row, row}, {}},
                  {"C2", {x, row, row, row}, {}},
                  {"C3", {f32({3, 0}), labels, row, row}, {}},
                  {"C4", {x, i32({2}), row, row}, {}},
                  {"C4", {x, labels, x, row}, {}},
                  {"C4", {x, labels, row, f32({2})}, {}}},
  };
}

}  // namespace

std::vector<OpDef> loss_ops() { return {cross_entropy(), cross_entropy_grad()}; }

}  // namespace nabla::ops
