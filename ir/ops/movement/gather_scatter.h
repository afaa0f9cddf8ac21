// The index arithmetic that gather and scatter share: how positions in a window tensor (gather's result, scatter's
// updates) relate to the operand and to the vectors of start indices.
#pragma once

#include "ir/ops/common.h"

namespace nabla::ops {

/// `window` below is the tensor whose dimensions are batch dimensions (those of `indices` without the index vector)
/// and window dimensions (those of the operand that are neither collapsed nor batching).
struct IndexedDims {
  Ints window_dims;        ///< of the window tensor, ascending
  Ints batch_dims;         ///< the others of the window tensor
  Ints operand_window;     ///< operand dimension of each window dimension
  Ints operand_collapsed;  ///< operand dimensions of window extent 1 that the window tensor lacks
  Ints operand_batching, indices_batching;
  Ints start_map;          ///< operand dimension of each component of an index vector
  Ints indices_dims;       ///< dimension of `indices` for each batch dimension
  int64_t vector_dim = 0;  ///< of `indices`; its rank where every index is a vector of one component
  bool clamp = false;      ///< starts are clamped so that the window fits; otherwise elements outside are dropped
};

/// From the attributes of gather (`offset_dims`...) or scatter (`update_window_dims`...).
IndexedDims gather_dims(const Attrs& attrs, int operand_rank, int indices_rank, int result_rank);
IndexedDims scatter_dims(const Attrs& attrs, int operand_rank, int indices_rank, int updates_rank);

IndexedDims gather_dims_of(const TypedOp& op);
IndexedDims scatter_dims_of(const TypedOp& op);
/// The window's extent per operand dimension: `slice_sizes` with -1 replaced by the whole dimension.
Shape gather_window(const Attrs& attrs, const Shape& operand);
/// The same of a scatter, from the updates.
Shape scatter_window(const IndexedDims& dims, const TypedOp& op);

/// C1: index dtype; C2: the dimension lists; C3: the index vectors' length; C4: batching sizes.
Status check_indexed(const InferContext& ctx, const IndexedDims& dims);

/// Reference: the operand's element that element `at` of the window tensor stands for; nullopt where it is outside.
/// `window` holds the window's extent per operand dimension.
std::optional<int64_t> operand_position(const IndexedDims& dims, const Extents& operand, const Literal& indices,
                                        const Extents& window, const Extents& at);

Literals reference_gather(const EvalContext& ctx);
Literals reference_scatter(const EvalContext& ctx, kernel_ir::Combiner combiner);

/// Access: the same as expressions over the window tensor's indices.
struct IndexedAccess {
  std::vector<kernel_ir::Expr> indices;  ///< into the operand
  kernel_ir::Expr guard;                 ///< null: always in range
};
IndexedAccess operand_indices(const IndexedDims& dims, const TypedOp& op, const Shape& window,
                              const std::vector<kernel_ir::Expr>& at);

/// Dimension lists of the op when operand, indices or both gain a batch dimension in front. The window tensor gains
/// one too.
struct BatchedLists {
  Ints window_dims, collapsed, operand_batching, indices_batching, start_map;
  int64_t vector_dim;
};
BatchedLists batch_lists(const IndexedDims& dims, bool operand, bool indices);

/// The factors of operand, indices and window tensor. `whole[d]`: the window covers operand dimension d.
struct IndexedFactors {
  Factors f;
  Factors::Tensor operand, indices, window;
};
IndexedFactors indexed_factors(const IndexedDims& dims, const Type& operand, const Type& indices, const Type& window,
                               const std::vector<bool>& whole, Factors::Kind batch_kind);

/// What the updates' places hold in `v`, which is shaped like the operand of a scatter; 0 for dropped updates.
Val gather_updates(FunctionBuilder& b, const TypedOp& op, Val v, Val indices);
/// The record of a scatter with this combiner, with the derivatives of scatter_set or scatter_add.
OpDef make_scatter(const char* name, std::string doc, kernel_ir::Combiner combiner);

}  // namespace nabla::ops
