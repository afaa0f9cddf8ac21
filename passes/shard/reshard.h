// From one layout of a value to another.
#pragma once

#include <optional>

#include "ir/builder.h"
#include "passes/shard/layout.h"

namespace nabla::passes {

/// What a rank knows of its place: the symbols of its coordinates.
class RankSymbols {
 public:
  explicit RankSymbols(const ir::Mesh& mesh);
  /// coordinate(mesh, axes, rank) as a size.
  ir::Dim coordinate(const ir::Axes& axes) const;
  const std::vector<ir::SymbolRef>& all() const { return symbols_; }

 private:
  const ir::Mesh& mesh_;
  std::vector<ir::SymbolRef> symbols_;  // per axis of the mesh
};

/// A part of a value.
struct Part {
  ir::Val value;
  Layout layout;
};

/// One step from a layout to another.
struct ReshardStep {
  enum Kind : uint8_t { kReduceScatter, kAllReduce, kAllToAll, kAllGather, kPermute, kCut };
  Kind kind;
  ir::Axes axes;
  int dim = -1;         ///< that gains or loses the axes; loses, where `to` gains them
  int to = -1;          ///< of kAllToAll
  ir::Ints pairs = {};  ///< of kPermute
};
/// The op of a step; of kCut, `section`.
std::string_view name_of(ReshardStep::Kind kind);
/// How large a rank's part is after the step, by its size before.
double growth(const ir::Mesh& mesh, const ReshardStep& step);

/// To a layout in which nothing is pending, of a value of this whole type: the quickest that a search finds. Sums over a
/// temporal axis are made first, and other layouts along it changed as by `plain_steps`.
std::vector<ReshardStep> reshard_steps(const ir::Mesh& mesh, const ir::Type& type, const Layout& from, const Layout& to);
/// In a fixed order, which always leads there. Pending sums are reduced first, onto the shards that the new layout has along
/// the same axes where it is possible, those over a temporal axis first. Then a dimension that loses the axes which
/// another gains is exchanged, others are gathered and cut.
std::vector<ReshardStep> plain_steps(const ir::Mesh& mesh, const Layout& from, const Layout& to);
/// Bytes that a rank sends for steps, of a value of this whole type in the first layout. `share`: as for `reshard_bytes`.
double bytes_of_steps(const ir::Mesh& mesh, const ir::Type& type, const Layout& from, const std::vector<ReshardStep>& steps,
                      std::optional<DType> share = std::nullopt);
/// The same of `reshard_steps`, of a value whose pending sums are kept in the type `share`, and in its own once they are made.
double reshard_bytes(const ir::Mesh& mesh, const ir::Type& type, const Layout& from, const Layout& to, DType share);
/// The same of a value whose pending sums have its own type.
double reshard_bytes(const ir::Mesh& mesh, const ir::Type& type, const Layout& from, const Layout& to);
/// The part that the rank has under another layout. `made`: the type to which a pending sum is rounded as soon as it is
/// made, before any further step; without one the part keeps its type.
ir::Val reshard(const ir::Mesh& mesh, const RankSymbols& rank, const Part& part, const Layout& to,
                std::optional<DType> made = std::nullopt);

/// The value with what is pending over these axes combined, on every rank.
ir::Val all_reduce(const ir::Mesh& mesh, ir::Val value, const ir::Axes& axes, kernel_ir::Combiner combiner);

}  // namespace nabla::passes
