// Ops that make tensors of numbers that are known: constant and iota.
#include "ir/ops/movement/creation.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

#include "ir/kernel_ir/philox.h"
#include "ir/kernel_ir/rows.h"
#include "ir/kernel_ir/scalar.h"
#include "ir/ops/all_ops.h"
#include "ir/ops/movement/placed.h"
#include "ir/ops/movement/strided.h"

namespace nabla::ops {
namespace {

using kernel_ir::Expr;
using kernel_ir::Fragment;

constexpr const char* kNoOperands = "it has no operands";

}  // namespace

Status require_nonnegative(const InferContext& ctx, const Shape& shape, std::string_view constraint) {
  for (const Dim& d : shape)
    if (d.bounds().min < 0)
      return ctx.fail(Code::kBadAttribute, constraint, "shape {} has a negative size", ir::str(shape));
  return Ok{};
}

Factors fixed_factors(const TypedOp& op) {
  Factors out = placed_factors(op);
  for (Factors::Factor& f : out.factors) f.kind = Factors::Kind::kReplicate;
  return out;
}

namespace {

// ---- constant

Fragment constant_access(const TypedOp& op) {
  const Literal& value = op.attrs.get_literal("value");
  Fragment out;
  for (int64_t i = 0; i < value.size(); ++i) {
    bool same = is_float(value.dtype())
                    ? value.get(i) == value.get(0) && std::signbit(value.get(i)) == std::signbit(value.get(0))
                    : value.get_i(i) == value.get_i(0);
    if (!same) return out;
  }
  if (value.size() == 0) return out;
  std::vector<int> axes = out.add_axes("i", op.results[0].shape);
  Expr number = is_float(value.dtype()) ? kernel_ir::constant(value.dtype(), value.get(0))
                                        : kernel_ir::constant_int(value.dtype(), value.get_i(0));
  out.results = {out.map("y", value.dtype(), axes, number)};
  return out;
}

Literal counting(DType dtype, Extents shape) {
  Literal out(dtype, std::move(shape));
  for (int64_t i = 0; i < out.size(); ++i) out.set_i(i, i);
  return out;
}

OpDef constant_op() {
  return {
      .name = "constant",
      .version = 1,
      .category = "creation",
      .doc =
          "The tensor in `value`. Its access is a map where all elements are equal; any other constant has no "
          "formula (an empty fragment) and is read from the bundle.",
      .operands = {},
      .attrs = {required("value", AttrKind::kLiteral, "the elements")},
      .results = {{"y", "of the literal's type"}},
      .constraints = {},
      .traits = {},
      .stages = ir::kAllStages,
      .infer = [](const InferContext& ctx) -> InferResult {
        const Literal& value = ctx.attrs.get_literal("value");
        return Types{{value.dtype(), ir::static_shape(value.shape())}};
      },
      .reference = [](const EvalContext& ctx) { return Literals{ctx.attrs().get_literal("value")}; },
      .fold = ir::no_rule("it is a constant already"),
      .decompose = ir::no_rule("primitive"),
      .vjp = ir::not_differentiable(kNoOperands),
      .jvp = ir::not_differentiable(kNoOperands),
      .batch = ir::no_rule(kNoOperands),
      .factors = fixed_factors,
      .as_size = [](const ir::SizeContext& c) -> std::optional<Dim> { return Dim(c.attrs.get_literal("value").get_i(0)); },
      .access = constant_access,
      .linearity = ir::not_linear(),
      .lower = Lowering::kConstant,
      .cost =
          [](const TypedOp& op) {
            return Cost{Dim(0), op.results[0].bytes()};
          },
      .dtypes = DTypes::kAsWritten,
      .examples = {{{}, {{"value", Literal::scalar(DType::kF32, 0.5)}}},
                   {{}, {{"value", counting(DType::kI32, {2, 3})}}},
                   {{}, {{"value", Literal(DType::kBF16, {3})}}}},
      .draw = [](Rng& rng) -> Example {
        return {{}, {{"value", counting(DType::kF32, random_extents(rng, static_cast<int>(random_int(rng, 0, 3))))}}};
      },
      .rejects = {},
  };
}

// ---- iota

InferResult infer_iota(const InferContext& ctx) {
  const Shape& shape = ctx.attrs.get_shape("shape");
  NABLA_TRY(require_nonnegative(ctx, shape, "C1"));
  NABLA_TRY(ctx.require_axis(ctx.attrs.get_int("axis"), static_cast<int>(shape.size()), "C2"));
  if (ctx.attrs.get_dtype("dtype") == DType::kBool) return ctx.fail(Code::kBadAttribute, "C3", "bool cannot count");
  NABLA_TRY(require_place(ctx, shape, "C4"));
  return Types{{ctx.attrs.get_dtype("dtype"), shape}};
}

Literals reference_iota(const EvalContext& ctx) {
  const Type& result = ctx.op.results[0];
  int64_t axis = ctx.attrs().get_int("axis");
  Literal row = counted(result.dtype, result.extents()[axis], place_of(ctx.op).offset[axis].value());
  if (result.rank() == 1) return Literals{row};
  Extents along(result.rank(), 0);
  along[axis] = 1;
  return Literals{gathered(row, result, std::move(along))};
}

Fragment access_iota(const TypedOp& op) {
  Fragment out;
  DType dtype = op.results[0].dtype;
  int64_t axis = op.attrs.get_int("axis");
  std::vector<int> axes = out.add_axes("i", op.results[0].shape);
  Expr position = kernel_ir::axis(axes[axis]);
  if (Dim begin = place_of(op).offset[axis]; !begin.is(0)) position = position + kernel_ir::dim(begin);
  out.results = {out.map("y", dtype, axes, kernel_ir::convert(dtype, position))};
  return out;
}

OpDef iota_op() {
  return {
      .name = "iota",
      .version = 1,
      .category = "creation",
      .doc = "The position along `axis`: 0, 1, 2, ... Positions beyond the dtype wrap (integers) or round (floats).",
      .operands = {},
      .attrs = with_place({required("shape", AttrKind::kShape, "of the result"),
                           required("axis", AttrKind::kInt, "that counts"),
                           optional("dtype", "of the result", DType::kI32)}),
      .results = {{"y", "of the given shape and dtype"}},
      .constraints = {{"C1", "no size is negative"},
                      {"C2", "axis is in [0, rank)"},
                      {"C3", "the dtype is not bool"},
                      place_constraint("C4")},
      .traits = {},
      .stages = ir::kTensorStages,
      .infer = infer_iota,
      .reference = reference_iota,
      .fold = fold_by_reference(),
      .decompose = ir::no_rule("primitive"),
      .vjp = ir::not_differentiable(kNoOperands),
      .jvp = ir::not_differentiable(kNoOperands),
      .batch = ir::no_rule(kNoOperands),
      .factors = [](const TypedOp& op) { return placed_factors(op); },
      .form = ir::OpForm::kIota,
      .localise = localise_place,
      .access = access_iota,
      .linearity = ir::not_linear(),
      .lower = Lowering::kAccess,
      .cost = [](const TypedOp& op) { return ir::pointwise_cost(op, 0); },
      .dtypes = DTypes::kAsWritten,
      .examples = {{{}, {{"shape", ir::static_shape({5})}, {"axis", int64_t{0}}}},
                   {{}, {{"shape", ir::static_shape({2, 3})}, {"axis", int64_t{1}}, {"dtype", DType::kF32}}},
                   {{}, {{"shape", ir::static_shape({300})}, {"axis", int64_t{0}}, {"dtype", DType::kI8}}},
                   {{},
                    {{"shape", ir::static_shape({2, 3})},
                     {"axis", int64_t{1}},
                     {"offset", ir::static_shape({1, 4})},
                     {"whole", ir::static_shape({3, 9})}}}},
      .draw = [](Rng& rng) -> Example {
        int rank = static_cast<int>(random_int(rng, 1, 3));
        return {{}, {{"shape", random_shape(rng, rank)}, {"axis", random_int(rng, 0, rank - 1)}}};
      },
      .rejects = {{"C1", {}, {{"shape", ir::static_shape({2, -1})}, {"axis", int64_t{0}}}},
                  {"C2", {}, {{"shape", ir::static_shape({2})}, {"axis", int64_t{1}}}},
                  {"C3", {}, {{"shape", ir::static_shape({2})}, {"axis", int64_t{0}}, {"dtype", DType::kBool}}},
                  {"C4",
                   {},
                   {{"shape", ir::static_shape({2})},
                    {"axis", int64_t{0}},
                    {"offset", ir::static_shape({2})},
                    {"whole", ir::static_shape({3})}}}},
  };
}

// ---- element_count

OpDef element_count_op() {
  return {
      .name = "element_count",
      .version = 1,
      .category = "creation",
      .doc =
          "The number of elements of a shape as a scalar: the divisor of a mean over sizes that are known only at run "
          "time. Integers wrap, floats round.",
      .operands = {},
      .attrs = {required("shape", AttrKind::kShape, "whose sizes are multiplied"),
                optional("dtype", "of the result", DType::kI64)},
      .results = {{"n", "a scalar"}},
      .constraints = {{"C1", "no size is negative"}, {"C2", "the dtype is not bool"}},
      .traits = {},
      .stages = ir::kTensorStages,
      .infer = [](const InferContext& ctx) -> InferResult {
        NABLA_TRY(require_nonnegative(ctx, ctx.attrs.get_shape("shape"), "C1"));
        DType dtype = ctx.attrs.get_dtype("dtype");
        if (dtype == DType::kBool) return ctx.fail(Code::kBadAttribute, "C2", "bool cannot count");
        return Types{{dtype, {}}};
      },
      .reference =
          [](const EvalContext& ctx) {
            Literal out = zeros(ctx.op.results[0]);
            int64_t n = Type(DType::kBool, ctx.attrs().get_shape("shape")).count().value();
            is_float(out.dtype()) ? out.set(0, static_cast<double>(n)) : out.set_i(0, n);
            return Literals{out};
          },
      .fold = ir::no_rule("kernels hold it as a number already"),
      .decompose = ir::no_rule("primitive"),
      .vjp = ir::not_differentiable(kNoOperands),
      .jvp = ir::not_differentiable(kNoOperands),
      .batch = ir::no_rule(kNoOperands),
      .factors = fixed_factors,
      .access =
          [](const TypedOp& op) {
            Fragment out;
            Expr n = kernel_ir::dim(Type(DType::kBool, op.attrs.get_shape("shape")).count());
            DType dtype = op.results[0].dtype;
            out.results = {out.map("n", dtype, {}, kernel_ir::convert(dtype, n))};
            return out;
          },
      .linearity = ir::not_linear(),
      .lower = Lowering::kAccess,
      .cost = [](const TypedOp& op) { return ir::pointwise_cost(op, 0); },
      .dtypes = DTypes::kAsWritten,
      .examples = {{{}, {{"shape", ir::static_shape({2, 3})}}},
                   {{}, {{"shape", ir::static_shape({})}, {"dtype", DType::kF32}}}},
      .draw = [](Rng& rng) -> Example {
        return {{}, {{"shape", random_shape(rng, static_cast<int>(random_int(rng, 0, 3)))}, {"dtype", DType::kF32}}};
      },
      .rejects = {{"C1", {}, {{"shape", ir::static_shape({-1})}}},
                  {"C2", {}, {{"shape", ir::static_shape({2})}, {"dtype", DType::kBool}}}},
  };
}
}  // namespace

std::vector<OpDef> creation_ops() { return {constant_op(), iota_op(), element_count_op()}; }

}  // namespace nabla::ops
