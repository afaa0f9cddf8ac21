#include "frontend/cpp/linalg.h"

#include <algorithm>

#include "frontend/cpp/control_flow.h"
#include "frontend/cpp/emit.h"
#include "frontend/cpp/frame.h"

namespace nabla {
namespace {

const Tensor& need_matrices(const Arg& x, const char* function) {
  if (!x.is_tensor()) throw error_at(x.site(), Code::kMisuse, "{}: the operand is a number", function);
  if (x.tensor().rank() < 2)
    throw error_at(x.site(), Code::kShapeMismatch, "{}: the operand needs two dimensions, got {}", function,
                   x.tensor().type().str());
  return x.tensor();
}

/// b as columns, and whether it was vectors.
std::pair<Tensor, bool> columns_of(const Tensor& a, const Arg& b, const char* function) {
  if (!b.is_tensor()) throw error_at(b.site(), Code::kMisuse, "{}: the right-hand side is a number", function);
  bool vectors = b.tensor().rank() == a.rank() - 1;
  return {vectors ? unsqueeze(b, -1) : b.tensor(), vectors};
}

/// Row i of the result is row order[i] of b [..., n, k].
Tensor reordered(const Tensor& b, const Tensor& order) {
  return take_along_axis(b, broadcast_to(unsqueeze(order, -1), b.shape()), -2);
}

Tensor plane(const Tensor& like, int axis) {
  Shape shape(like.shape().end() - 2, like.shape().end());
  return iota(shape, axis, i32);
}
Tensor on_diagonal(const Tensor& x) { return broadcast_to(eq(plane(x, 1), plane(x, 0)), x.shape()); }

/// -1 to the number of exchanges in the permutation [..., n]: the determinant of its matrix. Inversions are counted.
Tensor sign_of(const Tensor& order, DType dtype) {
  Tensor earlier = unsqueeze(order, -1), later = unsqueeze(order, -2);
  Tensor out_of_order = gt(earlier, later);
  Tensor upper = triu(convert(out_of_order, i32), 1);
  return convert(1 - 2 * rem(sum(upper, {-2, -1}), 2), dtype);
}

Tensor det_by_lu(const Tensor& a) {
  auto [packed, order] = lu(a);
  return prod(diagonal(packed), {-1}) * sign_of(order, packed.dtype());
}

/// [...] for every element of the matrices [..., n, n].
Tensor for_matrices(const Tensor& x, const Shape& shape) {
  return broadcast_to(unsqueeze(unsqueeze(x, -1), -1), shape);
}

Tensor part(const Tensor& m, int64_t row, int64_t rows, int64_t column, int64_t columns) {
  return slice_axis(slice_axis(m, -2, row, row + rows), -1, column, column + columns);
}

Tensor det_of_two(const Tensor& m) {
  auto at = [&](int64_t i, int64_t k) { return squeeze(squeeze(part(m, i, 1, k, 1), {-1}), {-1}); };
  return at(0, 0) * at(1, 1) - at(0, 1) * at(1, 0);
}

/// The determinants of singular matrices, for their derivatives: lu has none there. Between the bases of the singular
/// vectors, which are constants, a matrix is diagonal and what vanishes comes last: of [[B, C], [D, E]] with two rows
/// in E it is det(B) * det(E - D inv(B) C), which any perturbation may be put into. Of rank n - 3 and less, where B is
/// singular too, the first and second derivatives are 0.
Tensor det_of_singular(const Tensor& a) {
  int64_t n = a.size(-1), m = n - 2;
  if (n == 1) return squeeze(squeeze(a, {-1}), {-1});
  if (n == 2) return det_of_two(a);
  auto [u, s, vh] = svd(stop_gradient(a));
  Tensor inner = matmul(matmul(transpose(u), a), transpose(vh));
  Tensor block = part(inner, 0, m, 0, m);
  auto value = [&](int64_t i) { return squeeze(slice_axis(s, -1, i, i + 1), {-1}); };
  Tensor low = le(value(m - 1), value(0) * (epsilon_of(a.dtype()) * static_cast<double>(n)));
  block = select(for_matrices(low, block.shape()), convert(on_diagonal(block), block.dtype()), block);
  Tensor rest = part(inner, m, 2, m, 2) - matmul(part(inner, m, 2, 0, m), solve(block, part(inner, 0, m, m, 2)));
  Tensor out = det_by_lu(block) * det_of_two(rest) * stop_gradient(det_by_lu(u) * det_by_lu(vh));
  return select(low, zeros_like(out), out);
}

}  // namespace

Tensor solve(const Arg& a, const Arg& b) {
  AtSite at(a);
  const Tensor& t = need_matrices(a, "solve");
  auto [columns, vectors] = columns_of(t, b, "solve");
  auto [packed, order] = lu(a);
  Tensor y = triangular_solve(packed, reordered(columns, order), true, true, false, true);
  Tensor x = triangular_solve(packed, y, true, false);
  return vectors ? squeeze(x, {-1}) : x;
}

Tensor cholesky_solve(const Arg& l, const Arg& b) {
  AtSite at(l);
  const Tensor& t = need_matrices(l, "cholesky_solve");
  auto [columns, vectors] = columns_of(t, b, "cholesky_solve");
  Tensor x = triangular_solve(l, triangular_solve(l, columns), true, true, true);
  return vectors ? squeeze(x, {-1}) : x;
}

Tensor inv(const Arg& a) {
  AtSite at(a);
  const Tensor& t = need_matrices(a, "inv");
  return solve(a, convert(on_diagonal(t), t.dtype()));
}

Tensor det(const Arg& a) {
  AtSite at(a);
  const Tensor& t = need_matrices(a, "det");
  if (!t.shape().back().is_static() || t.shape().back().is(0)) return det_by_lu(t);
  Tensor pivots = abs(diagonal(lu(stop_gradient(t))[0]));
  double small = epsilon_of(t.dtype()) * static_cast<double>(t.shape().back().value());
  Tensor singular = any(le(pivots, amax(pivots, {-1}, true) * small), {-1});
  // No derivative may come from the factors of a singular matrix: it would be 0 times infinity.
  Tensor regular = det_by_lu(select(for_matrices(singular, t.shape()), stop_gradient(t), t));
  auto rare = [](const Tensor& m) {
    Tensor d = det_of_singular(m);
    return d - stop_gradient(d);  // the factors say the value, this its derivatives
  };
  auto none = [](const Tensor& m) { return zeros_like(sum(m, {-2, -1})); };
  return select(singular, cond(any(singular), rare, none, t) + stop_gradient(regular), regular);
}

std::pair<Tensor, Tensor> slogdet(const Arg& a) {
  AtSite at(a);
  need_matrices(a, "slogdet");
  auto [packed, order] = lu(a);
  Tensor pivots = diagonal(packed);
  return {prod(sign(pivots), {-1}) * sign_of(order, packed.dtype()), sum(log(abs(pivots)), {-1})};
}

Tensor lstsq(const Arg& a, const Arg& b) {
  AtSite at(a);
  const Tensor& t = need_matrices(a, "lstsq");
  auto [columns, vectors] = columns_of(t, b, "lstsq");
  auto [q, r] = qr(a);
  Tensor x = triangular_solve(r, matmul(transpose(q), columns), true, false);
  return vectors ? squeeze(x, {-1}) : x;
}

Tensor pinv(const Arg& a, double rcond) {
  AtSite at(a);
  const Tensor& t = need_matrices(a, "pinv");
  if (rcond < 0) rcond = epsilon_of(t.dtype()) * static_cast<double>(std::max(t.size(-1), t.size(-2)));
  auto [u, s, vh] = svd(a);
  Tensor counts = gt(s, amax(s, {-1}, true) * rcond);
  Tensor inverse = select(counts, 1 / select(counts, s, ones(s.shape(), s.dtype())), zeros_like(s));
  return matmul(transpose(vh) * unsqueeze(inverse, -2), transpose(u));
}

Tensor matrix_norm(const Arg& a, const std::string& kind) {
  AtSite at(a);
  const Tensor& t = need_matrices(a, "matrix_norm");
  if (kind == "fro") {
    Tensor wide = widened(a);
    return in_dtype(root_of_squares(sum(wide * wide, {-2, -1})), t.dtype());
  }
  if (kind == "nuc") return sum(svd(a)[1], {-1});
  if (kind == "2") return amax(svd(a)[1], {-1});
  if (kind == "1") return amax(sum(abs(a), {-2}), {-1});
  if (kind == "inf") return amax(sum(abs(a), {-1}), {-1});
  throw error_at(a.site(), Code::kBadAttribute,
                 "matrix_norm: \"{}\", expected \"fro\", \"nuc\", \"2\", \"1\" or \"inf\"", kind);
}

Tensor diagonal(const Arg& a) {
  AtSite at(a);
  const Tensor& t = need_matrices(a, "diagonal");
  int64_t rows = t.size(-2), columns = t.size(-1), k = std::min(rows, columns);
  Tensor square = slice_axis(slice_axis(a, -2, 0, k), -1, 0, k);
  return sum(select(on_diagonal(square), square, zeros_like(square)), {-1});
}

Tensor trace_of(const Arg& a) {
  AtSite at(a);
  return sum(diagonal(a), {-1});
}

Tensor diag_embed(const Arg& v) {
  AtSite at(v);
  if (!v.is_tensor() || v.tensor().rank() < 1)
    throw error_at(v.site(), Code::kShapeMismatch, "diag_embed: the operand needs a dimension");
  Shape shape = v.tensor().shape();
  shape.push_back(shape.back());
  Tensor wide = broadcast_to(unsqueeze(v, -1), shape);
  return select(on_diagonal(wide), wide, zeros_like(wide));
}

Tensor eye(int64_t n, int64_t columns, DType dtype, Site site) {
  AtSite at(site);
  Shape shape = {n, columns < 0 ? n : columns};
  return convert(eq(iota(shape, 0, i32), iota(shape, 1, i32)), dtype);
}

Tensor band_part(const Arg& x, int64_t below, int64_t above) {
  AtSite at(x);
  Tensor out = need_matrices(x, "band_part");
  if (below >= 0) out = triu(out, -below);
  if (above >= 0) out = tril(out, above);
  return out;
}

}  // namespace nabla
