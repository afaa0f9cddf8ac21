// Kernels that were compiled when the package was built, for values that are computed without a compiler: one entry per
// op and dtypes, over symbolic extents (frontend/python/kernels/make_kernels.py).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "ir/module.h"
#include "ir/op_def.h"

namespace nabla::python {

/// How a node is called in the library.
struct KernelCall {
  std::string entry;  ///< "add_f32_f32", "reduce_sum_f32", "reduce_sum_rows_f32", "product_nt_f32", "dot_nt_f32"
  std::vector<std::vector<int64_t>> shapes;  ///< of the operands, as the entry takes them
};
/// The call of an elementwise op as one of vectors, of a reduction over neighbouring dimensions as one of [a, b, c] or
/// [a, b] over b, of a product of matrices or of one batch of them, of softmax and its relatives over the last
/// dimension. Nullopt for everything else, for attributes other than their defaults, and for arrays without elements.
std::optional<KernelCall> kernel_call(const ir::TypedOp& op);

/// Where the bundles are: "kernels_NAME.nbundle" and "products_NAME.nbundle" per instruction set NAME. Without the
/// folder nothing is found.
void set_kernel_folder(const std::string& folder);

/// Runs a flat function node by node: what the library has by its kernels, what `rewritten` knows in terms of it, small
/// arrays and everything else by the reference interpreter. Errors as `interpret`.
Result<std::vector<Literal>> evaluate(const ir::Module& module, const ir::Function& function,
                                      std::vector<Literal> args);

}  // namespace nabla::python
