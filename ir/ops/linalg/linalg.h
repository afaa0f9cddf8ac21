// What ops on batches of matrices [..., rows, columns] share: checks, factors, the fragment, and the algebra in which
// their derivatives are written.
#pragma once

#include "ir/ops/procedure.h"

namespace nabla::ops {

/// C`id`: operand i is floating and has two dimensions at least.
Status require_matrices(const InferContext& ctx, int i, std::string_view id);
/// C`id`: the last two dimensions of operand i are equal.
Status require_square(const InferContext& ctx, int i, std::string_view id);
/// Extent of a dimension of operand 0 counted from the end: 1 is the last.
Dim extent_from_end(const TypedOp& op, int64_t place);

/// A fragment of this procedure, one row per matrix: numbers are the batch, operand 0's rows, 1, then `numbers`.
kernel_ir::Fragment matrix_fragment(const TypedOp& op, std::string_view procedure, std::vector<Dim> numbers = {});
/// Everything but operand 0's last `own` dimensions is a batch that operands and results share and that passes; the
/// other dimensions are needed whole.
Factors factors_of_batches(const TypedOp& op, int own);
/// `flops` per matrix of the batch.
Cost cost_per_matrix(const TypedOp& op, const Dim& flops);
/// [..., rows, columns] with a random batch of rank 0 or 1.
Shape random_matrices(Rng& rng, int64_t rows, int64_t columns);
/// Between -1 and 1 with a growing diagonal: positive definite up to 6 by 6, eigenvalues apart.
ValueSpec well_conditioned();

/// The record of a factorisation of matrices `a` by the procedure of its name; results, derivatives, access, cost,
/// examples and further constraints are the op's own.
OpDef factorisation_record(const char* name, std::string doc, const char* shape);

// ---- Algebra on the last two dimensions
Val transposed(Val m);
Val product(Val a, Val b);
/// 0 where column - row > k (< k); the diagonal has number 0.
Val lower_part(Val m, int64_t k = 0);
Val upper_part(Val m, int64_t k = 0);
/// v [..., n] on the diagonal of [..., n, n], and back.
Val on_diagonal(Val v);
Val diagonal_of(Val m);
/// The symmetric matrix of which m holds the lower triangle.
Val symmetric_from_lower(Val m);
/// The gradient by the lower triangle, from that by all elements of the symmetric matrix.
Val gradient_of_lower(Val m);
/// v [..., k] for each row of m [..., r, k]: m times diag(v).
Val times_columns(Val m, Val v);
/// 1 / x, and 0 where x is 0.
Val inverse_or_zero(Val x);
/// [i, j] = 1 / (v[j] - v[i]), 0 where they are equal.
Val inverse_gaps(Val v);

/// How triangular_solve solves; the defaults are its own.
struct Triangle {
  bool left = true, lower = true, transpose = false, unit = false;
};
Val solve_triangle(Val a, Val b, Triangle how);

}  // namespace nabla::ops
