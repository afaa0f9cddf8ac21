// Values that follow from nothing but scalars (constants, positions, masks of positions): a rank computes any part of them itself.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <vector>

#include "ir/builder.h"
#include "passes/shard/reshard.h"

namespace nabla::passes {

/// The part of a node that a rank computes where its factors are split along these axes.
ir::Shard shard_along(const ir::Mesh& mesh, const RankSymbols& rank, const ir::TypedOp& op, const ir::Factors& factors,
                      const std::vector<ir::Axes>& axes);
/// The layout of an operand or result of that part.
Layout layout_along(const ir::Mesh& mesh, const ir::Factors::Tensor& dims, const ir::Factors& factors, const std::vector<ir::Axes>& axes);

class FreeValues {
 public:
  /// Nodes are added to `b`; `laid_out` gives an operand of a node in another layout. All outlive this.
  FreeValues(const ir::Function& f, const ir::Mesh& mesh, const RankSymbols& rank, ir::FunctionBuilder& b,
             std::function<ir::Val(ir::ValueId, const Layout&)> laid_out);

  bool has(ir::ValueId id) const { return free_[id] && makers_[id] >= 0; }
  /// Such a value as it is wanted; nothing where its node cannot be split so.
  std::optional<ir::Val> part(ir::ValueId id, const Layout& to);
  /// Of a constant that is the same everywhere.
  std::optional<ir::Val> constant(const ir::Node& n, const Layout& to);

 private:
  std::optional<ir::Val> split(const ir::Node& n, const Layout& to);

  const ir::Function& f_;
  const ir::Mesh& mesh_;
  const RankSymbols& rank_;
  ir::FunctionBuilder& b_;
  std::function<ir::Val(ir::ValueId, const Layout&)> laid_out_;
  const std::vector<char> free_;
  const std::vector<int> makers_;
  std::map<ir::ValueId, std::vector<Part>> made_;
};

}  // namespace nabla::passes
