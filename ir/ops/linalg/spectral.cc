// Orthogonal factors: qr, eigh, svd. Derivatives after Giles, "Collected matrix derivative results" (2008), Seeger et
// al., "Auto-differentiating linear algebra" (2017), and Townsend, "Differentiating the singular value decomposition"
// (2016).
#include "ir/ops/all_ops.h"
#include "ir/ops/linalg/linalg.h"

namespace nabla::ops {
namespace {

Example matrix_example(Shape shape) { return {{operand(f32(std::move(shape)), well_conditioned())}, {}}; }

/// What the three share.
OpDef orthogonal_op(const char* name, std::string doc) {
  OpDef op = factorisation_record(name, std::move(doc), "[..., m, n]");
  op.access = [](const TypedOp& t) { return matrix_fragment(t, t.op.name, {extent_from_end(t, 1)}); };
  op.examples = {matrix_example({3, 3}), matrix_example({2, 5, 3}), matrix_example({1, 1}), matrix_example({4, 3, 0}),
                 matrix_example({19, 12})};
  op.draw = [](Rng& rng) {
    int64_t n = random_int(rng, 0, 5);
    return matrix_example(random_matrices(rng, n + random_int(rng, 0, 4), n));
  };
  return op;
}

// ---- qr

InferResult infer_qr(const InferContext& ctx) {
  NABLA_TRY(require_matrices(ctx, 0, "C1"));
  int rank = ctx.rank(0);
  const Dim &m = ctx.shape(0)[rank - 2], &n = ctx.shape(0)[rank - 1];
  if (!Dim::less_equal(n, m).value_or(false))
    return ctx.fail(Code::kShapeMismatch, "C2", "{} rows are fewer than {} columns; factorise the transpose instead",
                    m.str(), n.str());
  Type r = ctx.operands[0];
  r.shape[rank - 2] = n;
  return Types{ctx.operands[0], r};
}

std::vector<MaybeVal> vjp_qr(VjpContext& ctx) {
  Val q = ctx.result(0), r = ctx.result(1), dq = ctx.ct(0), dr = upper_part(ctx.ct(1));
  Val m = product(r, transposed(dr)) - product(transposed(dq), q);
  return {
      solve_triangle(r, dq + product(q, symmetric_from_lower(m)), {.left = false, .lower = false, .transpose = true})};
}

std::vector<MaybeVal> jvp_qr(JvpContext& ctx) {
  Val q = ctx.results[0], r = ctx.results[1];
  Val c = solve_triangle(r, ctx.tangent(0), {.left = false, .lower = false});
  Val w = product(transposed(q), c), change = upper_part(w) + transposed(lower_part(w, -1));
  return {c - product(q, change), product(change, r)};
}

OpDef qr() {
  OpDef op = orthogonal_op("qr",
                           "a = q r by Householder's reflections: the columns of q are orthonormal, r is upper "
                           "triangular with a diagonal that is not negative, which makes both unique where the columns "
                           "of a are independent. Only there derivatives exist.");
  op.results = {{"q", "[..., m, n]"}, {"r", "[..., n, n]"}};
  op.constraints.push_back({"C2", "there are at least as many rows as columns"});
  op.infer = infer_qr;
  op.vjp = vjp_qr;
  op.jvp = jvp_qr;
  op.cost = [](const TypedOp& t) {
    return cost_per_matrix(t, extent_from_end(t, 2) * extent_from_end(t, 1) * extent_from_end(t, 1) * 4);
  };
  op.rejects.push_back({"C2", {f32({2, 3})}, {}});
  return op;
}

// ---- eigh

InferResult infer_eigh(const InferContext& ctx) {
  NABLA_TRY(require_matrices(ctx, 0, "C1"));
  NABLA_TRY(require_square(ctx, 0, "C2"));
  Type values = ctx.operands[0];
  values.shape.pop_back();
  return Types{values, ctx.operands[0]};
}

std::vector<MaybeVal> vjp_eigh(VjpContext& ctx) {
  Val v = ctx.result(1);
  MaybeVal inner;
  if (ctx.cotangents[0]) inner = on_diagonal(*ctx.cotangents[0]);
  if (ctx.cotangents[1])
    inner = add_maybe(inner, inverse_gaps(ctx.result(0)) * product(transposed(v), *ctx.cotangents[1]));
  return {gradient_of_lower(product(product(v, *inner), transposed(v)))};
}

std::vector<MaybeVal> jvp_eigh(JvpContext& ctx) {
  Val w = ctx.results[0], v = ctx.results[1];
  Val turned = product(product(transposed(v), symmetric_from_lower(ctx.tangent(0))), v);
  return {diagonal_of(turned), product(v, inverse_gaps(w) * turned)};
}

OpDef eigh() {
  OpDef op = orthogonal_op(
      "eigh",
      "Eigenvalues of symmetric matrices, ascending, and orthonormal eigenvectors as columns, by Jacobi's rotations. "
      "Only the lower triangle is read, and the gradient is by it. In each vector the element of largest magnitude "
      "(the "
      "first of those that tie) is positive. Vectors of equal eigenvalues are not unique; pairs of equal eigenvalues "
      "add nothing to derivatives. All NaN where an element is not finite.");
  op.operands = {{"a", "[..., n, n]"}};
  op.results = {{"values", "[..., n]"}, {"vectors", "[..., n, n]"}};
  op.constraints.push_back({"C2", "rows and columns are equal"});
  op.infer = infer_eigh;
  op.vjp = vjp_eigh;
  op.jvp = jvp_eigh;
  op.access = [](const TypedOp& t) { return matrix_fragment(t, "eigh"); };
  op.cost = [](const TypedOp& t) {
    Dim n = extent_from_end(t, 1);
    return cost_per_matrix(t, n * n * n * 60);
  };
  op.examples = {matrix_example({3, 3}), matrix_example({2, 5, 5}), matrix_example({1, 1}), matrix_example({2, 0, 0}),
                 matrix_example({16, 16})};
  op.draw = [](Rng& rng) {
    int64_t n = random_int(rng, 0, 6);
    return matrix_example(random_matrices(rng, n, n));
  };
  op.rejects.push_back({"C2", {f32({2, 3})}, {}});
  return op;
}

// ---- svd

InferResult infer_svd(const InferContext& ctx) {
  NABLA_TRY(require_matrices(ctx, 0, "C1"));
  int rank = ctx.rank(0);
  Dim k = Dim::min(ctx.shape(0)[rank - 2], ctx.shape(0)[rank - 1]);
  Type u = ctx.operands[0], s = u, vh = u;
  u.shape[rank - 1] = vh.shape[rank - 2] = k;
  s.shape.pop_back();
  s.shape[rank - 2] = k;
  return Types{u, s, vh};
}

/// x without what lies in the span of the orthonormal columns of q.
Val outside(Val q, Val x) { return x - product(q, product(transposed(q), x)); }

std::vector<MaybeVal> vjp_svd(VjpContext& ctx) {
  Val u = ctx.result(0), s = ctx.result(1), vh = ctx.result(2), v = transposed(vh), inverse = inverse_or_zero(s);
  MaybeVal inner, out;
  if (ctx.cotangents[1]) inner = on_diagonal(*ctx.cotangents[1]);
  Val gaps = inverse_gaps(s * s);
  auto skew = [](Val m) { return m - transposed(m); };
  if (ctx.cotangents[0]) {
    Val du = *ctx.cotangents[0];
    inner = add_maybe(inner, times_columns(gaps * skew(product(transposed(u), du)), s));
    out = product(times_columns(outside(u, du), inverse), vh);
  }
  if (ctx.cotangents[2]) {
    Val dv = transposed(*ctx.cotangents[2]);
    // S times a matrix is the transpose of the transposed matrix times S.
    inner = add_maybe(inner, transposed(times_columns(transposed(gaps * skew(product(vh, dv))), s)));
    out = add_maybe(out, product(u, transposed(times_columns(outside(v, dv), inverse))));
  }
  return {add_maybe(out, product(product(u, *inner), vh))};
}

std::vector<MaybeVal> jvp_svd(JvpContext& ctx) {
  Val u = ctx.results[0], s = ctx.results[1], v = transposed(ctx.results[2]), t = ctx.tangent(0);
  Val gaps = inverse_gaps(s * s), inverse = inverse_or_zero(s);
  Val tv = product(t, v), p = product(transposed(u), tv), tu = product(transposed(t), u);
  Val ps = times_columns(p, s), sp = transposed(times_columns(transposed(p), s));
  Val du = product(u, gaps * (ps + transposed(ps))) + times_columns(outside(u, tv), inverse);
  Val dv = product(v, gaps * (sp + transposed(sp))) + times_columns(outside(v, tu), inverse);
  return {du, diagonal_of(p), transposed(dv)};
}

OpDef svd() {
  OpDef op = orthogonal_op(
      "svd",
      "a = u diag(s) vh with orthonormal columns of u and rows of vh and s descending, none negative, by one-sided "
      "rotations after Hestenes. In each column of u the element of largest magnitude (the first of those that tie) is "
      "positive. Vectors of equal singular values are not unique; pairs of equal ones and zeros add nothing to "
      "derivatives. All NaN where an element is not finite.");
  op.results = {{"u", "[..., m, k] with k = min(m, n)"}, {"s", "[..., k]"}, {"vh", "[..., k, n]"}};
  op.infer = infer_svd;
  op.vjp = vjp_svd;
  op.jvp = jvp_svd;
  op.cost = [](const TypedOp& t) {
    Dim m = extent_from_end(t, 2), n = extent_from_end(t, 1);
    return cost_per_matrix(t, m * n * Dim::min(m, n) * 60);
  };
  op.examples.push_back(matrix_example({2, 3, 5}));
  op.draw = [](Rng& rng) { return matrix_example(random_matrices(rng, random_int(rng, 0, 6), random_int(rng, 0, 6))); };
  return op;
}

}  // namespace

std::vector<OpDef> linalg_spectral_ops() { return {qr(), eigh(), svd()}; }

}  // namespace nabla::ops
