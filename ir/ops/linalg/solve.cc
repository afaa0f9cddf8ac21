// Triangular factors and systems: cholesky, lu, triangular_solve. Derivatives after Giles, "Collected matrix derivative
// results" (2008), and Murray, "Differentiation of the Cholesky decomposition" (2016).
#include "ir/ops/all_ops.h"
#include "ir/ops/linalg/linalg.h"

namespace nabla::ops {
namespace {

Dim cubed(const Dim& n) { return n * n * n; }

InferResult infer_square(const InferContext& ctx) {
  NABLA_TRY(require_matrices(ctx, 0, "C1"));
  NABLA_TRY(require_square(ctx, 0, "C2"));
  return Types{ctx.operands[0]};
}

Example square_example(Shape shape, ValueSpec values) { return {{operand(f32(std::move(shape)), values)}, {}}; }

/// What the factorisations of one square matrix share.
OpDef square_op(const char* name, std::string doc) {
  OpDef op = factorisation_record(name, std::move(doc), "[..., n, n]");
  op.constraints.push_back({"C2", "rows and columns are equal"});
  op.infer = infer_square;
  op.access = [](const TypedOp& t) { return matrix_fragment(t, t.op.name); };
  op.cost = [](const TypedOp& t) { return cost_per_matrix(t, cubed(extent_from_end(t, 1))); };
  op.examples = {square_example({3, 3}, well_conditioned()), square_example({2, 5, 5}, well_conditioned()),
                 square_example({1, 1}, well_conditioned()), square_example({2, 0, 0}, well_conditioned()),
                 square_example({17, 17}, between(20, 21))};
  op.draw = [](Rng& rng) {
    int64_t n = random_int(rng, 0, 6);
    return square_example(random_matrices(rng, n, n), well_conditioned());
  };
  op.rejects.push_back({"C2", {f32({2, 3})}, {}});
  return op;
}

// ---- cholesky

/// The lower triangle with half of its diagonal.
Val halved(Val m) { return (lower_part(m) + lower_part(m, -1)) * 0.5; }

OpDef cholesky() {
  OpDef op = square_op("cholesky",
                       "The lower triangular L with L L^T = a and a positive diagonal. Only the lower triangle of a is "
                       "read, which is taken as symmetric; the gradient is by that triangle. Where a is not positive "
                       "definite, or not finite, the lower triangle of L is NaN.");
  op.results = {{"l", "[..., n, n]; zero above the diagonal"}};
  op.vjp = [](VjpContext& ctx) -> std::vector<MaybeVal> {
    Val l = ctx.result(), inner = halved(product(transposed(l), lower_part(ctx.ct())));
    Val s = solve_triangle(l, solve_triangle(l, inner, {.transpose = true}), {.left = false});
    return {gradient_of_lower(s)};
  };
  op.jvp = [](JvpContext& ctx) -> std::vector<MaybeVal> {
    Val l = ctx.results[0], s = symmetric_from_lower(ctx.tangent(0));
    Val inner = solve_triangle(l, solve_triangle(l, s, {}), {.left = false, .transpose = true});
    return {product(l, halved(inner))};
  };
  // A matrix that is not positive definite, and a larger one that is.
  op.examples.back() = square_example({17, 17}, [] {
    ValueSpec values = well_conditioned();
    values.diagonal = 20;
    return values;
  }());
  op.examples.push_back(square_example({3, 3}, between(-2, -1)));
  return op;
}

// ---- lu

/// Rows of m in the order of the permutation [..., n]; back: the inverse.
Val rows_in_order(Val m, Val permutation, bool back) {
  int64_t axis = m.rank() - 2;
  Val places = broadcast_in_dim(permutation, m.shape(), ir::iota_ints(permutation.rank()));
  return back ? add_along(m.shape(), places, m, axis) : take_along(m, places, axis);
}

Val unit_lower(Val packed) { return lower_part(packed, -1) + on_diagonal(packed.b->like(diagonal_of(packed), 1)); }

OpDef lu() {
  OpDef op = square_op("lu",
                       "Gauss' elimination with the largest pivot of each column (the first of those that tie): row i "
                       "of L U is row permutation[i] of a. A column of zeros is passed over, so that U of a singular "
                       "matrix has a zero on its diagonal.");
  op.results = {{"packed", "U, and below the diagonal L, whose diagonal is 1: [..., n, n]"},
                {"permutation", "i32 [..., n]"}};
  op.infer = [](const InferContext& ctx) -> InferResult {
    Types types = NABLA_TRY(infer_square(ctx));
    Shape shape = types[0].shape;
    shape.pop_back();
    types.emplace_back(DType::kI32, shape);
    return types;
  };
  op.vjp = [](VjpContext& ctx) -> std::vector<MaybeVal> {
    if (ctx.result(0).type().count().is(0)) return {ctx.b.zeros_like(ctx.operand(0))};
    Val f = ctx.result(0), ct = ctx.ct(0), u = upper_part(f);
    Val inner = lower_part(product(transposed(unit_lower(f)), lower_part(ct, -1)), -1) +
                upper_part(product(upper_part(ct), transposed(u)));
    Val s = solve_triangle(f, inner, {.transpose = true, .unit = true});
    s = solve_triangle(f, s, {.left = false, .lower = false, .transpose = true});
    return {rows_in_order(s, ctx.result(1), true)};
  };
  op.jvp = [](JvpContext& ctx) -> std::vector<MaybeVal> {
    if (ctx.results[0].type().count().is(0)) return {ctx.b.zeros_like(ctx.results[0]), std::nullopt};
    Val f = ctx.results[0], t = rows_in_order(ctx.tangent(0), ctx.results[1], false);
    Val s = solve_triangle(f, solve_triangle(f, t, {.unit = true}), {.left = false, .lower = false});
    return {product(unit_lower(f), lower_part(s, -1)) + product(upper_part(s), upper_part(f)), std::nullopt};
  };
  op.examples.back() = square_example({7, 7}, distinct(-5, 5));
  return op;
}

// ---- triangular_solve

Triangle triangle_of(const Attrs& attrs) {
  return {attrs.get_bool("left"), attrs.get_bool("lower"), attrs.get_bool("transpose"),
          attrs.get_bool("unit_diagonal")};
}

InferResult infer_triangular_solve(const InferContext& ctx) {
  for (int i : {0, 1}) NABLA_TRY(require_matrices(ctx, i, "C1"));
  NABLA_TRY(ctx.require_same_dtype(0, 1, "C1"));
  NABLA_TRY(require_square(ctx, 0, "C2"));
  NABLA_TRY(require_rank(ctx, 1, ctx.rank(0), "C3"));
  int rank = ctx.rank(0);
  for (int d = 0; d + 2 < rank; ++d)
    NABLA_TRY(ctx.require_equal(ctx.shape(0)[d], ctx.shape(1)[d], "C3", fmt::format("batch dimension {}", d)));
  int side = ctx.attrs.get_bool("left") ? rank - 2 : rank - 1;
  NABLA_TRY(ctx.require_equal(ctx.shape(0)[rank - 1], ctx.shape(1)[side], "C4", "a and that side of b"));
  return Types{ctx.operands[1]};
}

Val triangle_part(Val m, Triangle how) {
  int64_t k = how.unit ? 1 : 0;
  return how.lower ? lower_part(m, -k) : upper_part(m, k);
}

std::vector<MaybeVal> vjp_triangular_solve(VjpContext& ctx) {
  Triangle how = triangle_of(ctx.attrs()), back = how;
  back.transpose = !how.transpose;
  Val x = ctx.result(), db = solve_triangle(ctx.operand(0), ctx.ct(), back);
  std::vector<MaybeVal> out(2);
  if (ctx.active[1]) out[1] = db;
  if (!ctx.active[0]) return out;
  Val da = how.left ? product(db, transposed(x)) : product(transposed(x), db);
  out[0] = triangle_part(-(how.transpose ? transposed(da) : da), how);
  return out;
}

std::vector<MaybeVal> jvp_triangular_solve(JvpContext& ctx) {
  Triangle how = triangle_of(ctx.attrs());
  MaybeVal rest = ctx.tangents[1];
  if (ctx.tangents[0]) {
    Val t = triangle_part(*ctx.tangents[0], how), x = ctx.results[0];
    if (how.transpose) t = transposed(t);
    rest = add_maybe(rest, -(how.left ? product(t, x) : product(x, t)));
  }
  return {solve_triangle(ctx.operand(0), *rest, how)};
}

Example solve_example(const Shape& batch, int64_t n, int64_t k, Triangle how) {
  Shape a = batch, b = batch;
  a.insert(a.end(), {Dim(n), Dim(n)});
  b.insert(b.end(), {Dim(how.left ? n : k), Dim(how.left ? k : n)});
  return {{operand(f32(a), well_conditioned()), operand(f32(b))},
          {{"left", how.left}, {"lower", how.lower}, {"transpose", how.transpose}, {"unit_diagonal", how.unit}}};
}

OpDef triangular_solve() {
  OpDef op = square_op("triangular_solve",
                       "x with op(a) x = b, or x op(a) = b where not `left`; op(a) is a or, where `transpose`, its "
                       "transpose. Only the triangle of a is read, and not its diagonal where `unit_diagonal`. A zero "
                       "on the diagonal divides: infinities or NaN.");
  op.operands = {{"a", "[..., n, n]"}, {"b", "[..., n, k], or [..., k, n] where not `left`"}};
  op.attrs = {optional("left", "a stands left of x", true), optional("lower", "a is lower triangular", true),
              optional("transpose", "a is transposed", false),
              optional("unit_diagonal", "the diagonal counts as 1", false)};
  op.results = {{"x", "of b's type"}};
  op.constraints = {{"C1", "both operands are floating, of one dtype, and have two dimensions or more"},
                    {"C2", "rows and columns of a are equal"},
                    {"C3", "the dimensions before the last two are the same"},
                    {"C4", "b has a's extent on the side of a"}};
  op.infer = infer_triangular_solve;
  op.vjp = vjp_triangular_solve;
  op.jvp = jvp_triangular_solve;
  op.linearity = ir::linear_in_each({1});
  op.access = [](const TypedOp& t) {
    Triangle how = triangle_of(t.attrs);
    Dim k = t.operands[1].shape[static_cast<size_t>(t.operands[1].rank() - (how.left ? 1 : 2))];
    return matrix_fragment(t, "triangular_solve", {k, how.left, how.lower, how.transpose, how.unit});
  };
  op.cost = [](const TypedOp& t) {
    Cost cost = pointwise_cost(t, 0);
    cost.flops = t.operands[1].count() * extent_from_end(t, 1);
    return cost;
  };
  op.examples = {solve_example({}, 3, 2, {}),
                 solve_example({2}, 4, 3, {.left = false, .lower = false}),
                 solve_example({}, 5, 1, {.transpose = true}),
                 solve_example({}, 3, 4, {.left = false, .lower = true, .transpose = true}),
                 solve_example({}, 4, 2, {.lower = false, .unit = true}),
                 solve_example({}, 20, 3, {.lower = false}),
                 solve_example({}, 0, 2, {})};
  op.draw = [](Rng& rng) {
    Shape batch;
    if (random_bool(rng)) batch.emplace_back(random_dim(rng, 5));
    Triangle how{random_bool(rng), random_bool(rng), random_bool(rng), random_bool(rng)};
    return solve_example(batch, random_int(rng, 0, 6), random_int(rng, 0, 5), how);
  };
  op.rejects = {{"C1", {i32({2, 2}), i32({2, 2})}, {}},
                {"C1", {f32({2, 2}), f32({2})}, {}},
                {"C2", {f32({2, 3}), f32({2, 2})}, {}},
                {"C3", {f32({4, 2, 2}), f32({2, 2})}, {}},
                {"C3", {f32({4, 2, 2}), f32({3, 2, 2})}, {}},
                {"C4", {f32({2, 2}), f32({3, 2})}, {}},
                {"C4", {f32({2, 2}), f32({2, 3})}, {{"left", false}}}};
  return op;
}

}  // namespace

std::vector<OpDef> linalg_solve_ops() { return {cholesky(), lu(), triangular_solve()}; }

}  // namespace nabla::ops
