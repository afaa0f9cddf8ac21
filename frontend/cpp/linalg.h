// Linear algebra on batches of matrices [..., rows, columns], made of the factorisations cholesky, lu, qr, eigh, svd
// and of triangular_solve. Leading dimensions of two operands are the same: broadcast_to makes them so.
#pragma once

#include <array>
#include <string>
#include <utility>

#include "frontend/cpp/array.h"

namespace nabla {

/// x with a x = b, by lu. a [..., n, n]; b [..., n, k], or [..., n] with one dimension less than a. A singular a gives
/// infinities or NaN.
Tensor solve(const Arg& a, const Arg& b);
/// x with a x = b, where a is L L^T with the lower triangular `l` of cholesky. b as in solve.
Tensor cholesky_solve(const Arg& l, const Arg& b);
/// The inverse of a [..., n, n]. solve(a, b) is better than inv(a) times b.
Tensor inv(const Arg& a);
/// The determinant of a [..., n, n]: [...].
Tensor det(const Arg& a);
/// Sign (-1, 0 or 1) and logarithm of the magnitude of the determinant, which may itself be out of range: [...] each.
std::pair<Tensor, Tensor> slogdet(const Arg& a);
/// x that makes |a x - b| smallest, by qr. a [..., m, n] with independent columns, m >= n; b [..., m, k] or [..., m].
Tensor lstsq(const Arg& a, const Arg& b);
/// The pseudoinverse [..., n, m] of a [..., m, n], by svd; singular values up to `rcond` times the largest count as 0.
/// rcond below 0: max(m, n) times the distance of 1 from the next number.
Tensor pinv(const Arg& a, double rcond = -1);
/// "fro" (the root of the sum of squares), "nuc" (the sum of the singular values), "2" (the largest one), "1" (the
/// largest sum of magnitudes in a column) or "inf" (in a row): [...]. E0204 for other names.
Tensor matrix_norm(const Arg& a, const std::string& kind = "fro");
/// Sum of the diagonal of the last two dimensions, which may differ.
Tensor trace_of(const Arg& a);
/// The diagonal of the last two dimensions: [..., min(rows, columns)].
Tensor diagonal(const Arg& a);
/// v [..., n] on the diagonal of [..., n, n].
Tensor diag_embed(const Arg& v);
/// [n, n], or [n, columns], with ones on the diagonal.
Tensor eye(int64_t n, int64_t columns = -1, DType dtype = DType::kF32, Site site = Site::here());
/// Elements of the last two dimensions from `below` diagonals under the main one to `above` over it; others become 0.
/// Below 0: all.
Tensor band_part(const Arg& x, int64_t below, int64_t above);

}  // namespace nabla
