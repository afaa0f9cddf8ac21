// A function as formulas: every node that has an `access` becomes definitions over virtual tensors, so that fusion
// sees elements, not ops.
#pragma once

#include <map>
#include <vector>

#include "ir/op_def.h"

namespace nabla::passes {

/// How a tensor comes to be.
enum class TensorKind : uint8_t {
  kGiven,       ///< parameter, constant or result of an opaque node: its elements are in memory
  kDefinition,  ///< a formula
  kView,        ///< the bytes of `base` under another shape
};

/// A formula with axes of its own: axes [0, rank) are the tensor's dimensions, then come the reduced (or, for a
/// scatter, the update) axes. Loads name tensors of the graph; there are no kValue references.
struct Formula {
  ir::Shape extents;  ///< of all axes
  int rank = 0;
  kernel_ir::Combiner combiner = kernel_ir::Combiner::kNone;
  kernel_ir::Expr value;
  bool scatter = false;
  std::vector<kernel_ir::Expr> indices;
  kernel_ir::Expr update;

  bool is_map() const { return combiner == kernel_ir::Combiner::kNone && !scatter; }
  int64_t points() const;  ///< evaluations of `value` (or of `update`), at the sizes' upper bounds
};

struct Tensor {
  TensorKind kind = TensorKind::kGiven;
  std::string name;  ///< for kernel text: the op's or the definition's name
  DType dtype = DType::kF32;
  ir::Shape shape;
  int node = -1;             ///< the function's node that it comes from; -1: parameter
  ir::ValueId value = -1;    ///< the function's value that it is; -1: internal to an op
  int base = -1;             ///< kView
  bool fence = false;        ///< kDefinition: always materialised (op `copy`)
  bool contraction = false;  ///< kDefinition: a matrix product in canonical form
  Formula formula;           ///< kDefinition
  int64_t size() const;      ///< elements, at the sizes' upper bounds
};

/// The upper bound of a size, from which decisions follow that do not change what is computed.
inline int64_t most(const ir::Dim& size) { return size.bounds().max; }

struct TensorGraph {
  std::vector<Tensor> tensors;     ///< in dependency order
  std::vector<int> of_value;       ///< tensor of each value; -1: none
  std::vector<int> opaque_nodes;  ///< nodes that stay as they are, in order: library calls, loops, procedures
  /// Of an opaque node with effects: the tensor that stands for the one before it, after which it runs.
  std::map<int, int> after;
};

/// The tensors that an opaque node waits for: its operands, and what stands for the node before it.
std::vector<int> inputs_of(const TensorGraph& graph, const ir::Function& function, int node);

/// Which nodes stay as they are; the others become formulas.
using IsOpaque = std::function<bool(const ir::Node&)>;

/// E0403 for ops without `access`. An opaque node without results is stood for by a tensor that has no value.
Result<TensorGraph> build_tensor_graph(const ir::Function& function, const ir::Module& module,
                                       const IsOpaque& is_opaque);

/// Every tensor that the formula loads, each once, in order of appearance.
std::vector<int> loads_of(const Formula& formula);
/// `f` applied to the loads; every expression of the formula is rewritten.
Formula map_expressions(const Formula& formula, const std::function<kernel_ir::Expr(const kernel_ir::Expr&)>& f);

}  // namespace nabla::passes
