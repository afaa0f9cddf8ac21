#include "ir/ops/linalg/linalg.h"

namespace nabla::ops {

Status require_matrices(const InferContext& ctx, int i, std::string_view id) {
  NABLA_TRY(require_float(ctx, i, id));
  if (ctx.rank(i) >= 2) return Ok{};
  return ctx.fail(Code::kShapeMismatch, id, "operand {} has rank {}, expected matrices [..., rows, columns]", i,
                  ctx.rank(i));
}

Status require_square(const InferContext& ctx, int i, std::string_view id) {
  return ctx.require_equal(ctx.shape(i)[ctx.rank(i) - 2], ctx.shape(i)[ctx.rank(i) - 1], id, "rows and columns");
}

Dim extent_from_end(const TypedOp& op, int64_t place) {
  const Shape& shape = op.operands[0].shape;
  return shape[shape.size() - static_cast<size_t>(place)];
}

kernel_ir::Fragment matrix_fragment(const TypedOp& op, std::string_view procedure, std::vector<Dim> numbers) {
  const Shape& shape = op.operands[0].shape;
  Dim outer(1);
  for (size_t d = 0; d + 2 < shape.size(); ++d) outer = outer * shape[d];
  numbers.insert(numbers.begin(), {outer, extent_from_end(op, 2), Dim(1)});
  kernel_ir::Fragment f;
  f.procedure = kernel_ir::procedure(procedure, std::move(numbers));
  for (size_t r = 0; r < op.results.size(); ++r) f.opaque(op.op.results[r].name, op.results[r]);
  return f;
}

Factors factors_of_batches(const TypedOp& op, int own) {
  Factors f;
  int batch = op.operands[0].rank() - own;
  std::vector<int> shared;
  char next = 'a';
  auto name = [&] { return std::string(1, next++); };
  for (int d = 0; d < batch; ++d) shared.push_back(f.add(name(), op.operands[0].shape[d]));
  auto tensor = [&](const Type& t) {
    Factors::Tensor out;
    for (int d = 0; d < t.rank(); ++d)
      out.push_back({d < batch ? shared[d] : f.add(name(), t.shape[d], Factors::Kind::kReplicate)});
    return out;
  };
  for (const Type& t : op.operands) f.operands.push_back(tensor(t));
  for (const Type& t : op.results) f.results.push_back(tensor(t));
  return f;
}

Cost cost_per_matrix(const TypedOp& op, const Dim& flops) {
  Cost cost = pointwise_cost(op, 0);
  const Shape& shape = op.operands[0].shape;
  cost.flops = flops;
  for (size_t d = 0; d + 2 < shape.size(); ++d) cost.flops = cost.flops * shape[d];
  return cost;
}

Shape random_matrices(Rng& rng, int64_t rows, int64_t columns) {
  Shape shape;
  if (random_bool(rng)) shape.emplace_back(random_dim(rng, 5));
  shape.emplace_back(rows);
  shape.emplace_back(columns);
  return shape;
}

ValueSpec well_conditioned() {
  ValueSpec values = between(-1, 1);
  values.diagonal = 6;
  return values;
}

// ---- Algebra

namespace {

Val place_along(Val like, int64_t axis) {
  return like.b->op("iota", {}, {{"shape", like.shape()}, {"axis", axis}, {"dtype", DType::kI32}});
}
Val row_of(Val m) { return place_along(m, m.rank() - 2); }
Val column_of(Val m) { return place_along(m, m.rank() - 1); }
Val zero_unless(Val predicate, Val m) { return select(predicate, m, m.b->zeros_like(m)); }

/// v [..., n] as the rows (`axis` from the end 1) or the columns (2) of [..., n, n].
Val spread(Val v, int64_t axis) {
  Shape shape = v.shape();
  shape.push_back(shape.back());
  Ints dims = ir::iota_ints(v.rank());
  dims.back() = v.rank() + 1 - axis;
  return broadcast_in_dim(v, shape, dims);
}

}  // namespace

Val transposed(Val m) {
  Ints order = ir::iota_ints(m.rank());
  std::swap(order[order.size() - 1], order[order.size() - 2]);
  return transpose(m, order);
}

Val product(Val a, Val b) {
  Ints batch = ir::iota_ints(a.rank() - 2);
  return a.b->op("dot_general", {a, b},
                 {{"lhs_contract", Ints{a.rank() - 1}},
                  {"rhs_contract", Ints{b.rank() - 2}},
                  {"lhs_batch", batch},
                  {"rhs_batch", batch}});
}

Val lower_part(Val m, int64_t k) {
  return zero_unless(apply("le", column_of(m), row_of(m) + static_cast<double>(k)), m);
}
Val upper_part(Val m, int64_t k) {
  return zero_unless(apply("ge", column_of(m), row_of(m) + static_cast<double>(k)), m);
}

Val on_diagonal(Val v) {
  Val wide = spread(v, 1);
  return zero_unless(apply("eq", column_of(wide), row_of(wide)), wide);
}
Val diagonal_of(Val m) { return reduce_sum(zero_unless(apply("eq", column_of(m), row_of(m)), m), {m.rank() - 1}); }

Val symmetric_from_lower(Val m) { return lower_part(m) + transposed(lower_part(m, -1)); }
Val gradient_of_lower(Val m) { return lower_part(m) + lower_part(transposed(m), -1); }

Val times_columns(Val m, Val v) {
  Ints dims = ir::iota_ints(v.rank());
  dims.back() = m.rank() - 1;
  return m * broadcast_in_dim(v, m.shape(), dims);
}

Val inverse_or_zero(Val x) {
  Val is_zero = apply("eq", x, x.b->zeros_like(x));
  return select(is_zero, x.b->zeros_like(x), x.b->like(x, 1) / select(is_zero, x.b->like(x, 1), x));
}

Val inverse_gaps(Val v) { return inverse_or_zero(spread(v, 1) - spread(v, 2)); }

Val solve_triangle(Val a, Val b, Triangle how) {
  return a.b->op("triangular_solve", {a, b},
                 {{"left", how.left}, {"lower", how.lower}, {"transpose", how.transpose}, {"unit_diagonal", how.unit}});
}

OpDef factorisation_record(const char* name, std::string doc, const char* shape) {
  return {
      .name = name,
      .version = 1,
      .category = "linear algebra",
      .doc = std::move(doc) + " Computed in f64 and rounded once.",
      .operands = {{"a", shape}},
      .attrs = {},
      .results = {},
      .constraints = {{"C1", "the operand is floating and has two dimensions or more"}},
      .traits = {.kept = true},
      .stages = ir::kTensorStages,
      .infer = nullptr,
      .reference = reference_by_procedure,
      .fold = fold_by_reference(),
      .decompose = ir::no_rule("a primitive: a procedure of kernel_ir"),
      .vjp = ir::not_differentiable("set by the op"),
      .jvp = ir::not_differentiable("set by the op"),
      .batch = batch_elementwise,
      .factors = [](const TypedOp& t) { return factors_of_batches(t, 2); },
      .access = ir::no_rule("set by the op"),
      .linearity = ir::not_linear(),
      .lower = Lowering::kAccess,
      .cost = nullptr,
      .dtypes = DTypes::kFloats,
      .examples = {},
      .draw = nullptr,
      .rejects = {{"C1", {i32({2, 2})}, {}}, {"C1", {f32({2})}, {}}},
  };
}

}  // namespace nabla::ops
