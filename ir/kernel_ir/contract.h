// Matrix products inside kernels: what is multiplied, and how the work is cut into units.
#pragma once

#include <optional>

#include "ir/kernel_ir/kernel.h"

namespace nabla::kernel_ir {

/// acc[batch..., m, n] = sum(k) lhs * rhs, each side one load, perhaps converted.
struct Contraction {
  int value = -1;              ///< acc
  std::vector<int> batch;      ///< axes of acc before m and n
  int m = -1, n = -1, k = -1;  ///< axes
  Expr lhs, rhs;               ///< loads; lhs moves with m and k, rhs with k and n
  DType dtype = DType::kF32;   ///< of acc
};

/// The contraction of a kernel whose body is [let...] contract [store...]; nullopt for other kernels.
std::optional<Contraction> find_contraction(const Kernel& kernel);

/// Elements of a vector of so many bytes in code for CPUs: as many as the widest data of the kernel allow, in all of its vectors.
int vector_elements(const Kernel& kernel, int vector_bytes);

/// How a generated matrix product is cut: blocks of rows, or of columns where there are more of them, and tiles of
/// `tile_rows` x `tile_vectors` registers inside.
struct ContractPlan {
  int tile_rows = 1, tile_vectors = 1;
  bool by_columns = false;
  int64_t block = 1;   ///< rows or columns of a unit; a multiple of the tile
  ir::Dim blocks = 1;  ///< per batch element
};
/// For a target with this many vector registers of `lanes` elements. Follows from the sizes' upper bounds, and does not
/// depend on the number of threads.
ContractPlan plan_contraction(const ir::Dim& m, const ir::Dim& n, int lanes, int vector_registers);

}  // namespace nabla::kernel_ir
