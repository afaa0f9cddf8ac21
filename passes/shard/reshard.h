// Steps that bring a value from one layout to another: what they send, and their nodes.
#pragma once

#include <optional>

#include "ir/builder.h"
#include "passes/shard/layout.h"
#include "runtime/base/collective.h"

namespace nabla::passes {

/// The coordinates of a rank, as symbols: one per axis of the mesh.
class RankSymbols {
 public:
  explicit RankSymbols(const ir::Mesh& mesh);
  /// The place of the rank along these axes, as a size: coordinate(mesh, axes, rank).
  ir::Dim coordinate(const ir::Axes& axes) const;
  const std::vector<ir::SymbolRef>& all() const { return symbols_; }

 private:
  const ir::Mesh& mesh_;
  std::vector<ir::SymbolRef> symbols_;  // per axis of the mesh
};

/// A rank's shard of a value.
struct Part {
  ir::Val value;
  Layout layout;
};

/// One step from a layout to another.
struct ReshardStep {
  enum Kind : uint8_t { kReduceScatter, kAllReduce, kAllToAll, kAllGather, kPermute, kCut };
  Kind kind;
  ir::Axes axes;
  int dim = -1;         ///< the dimension that gains or loses the axes. If `to` is set, it loses them to that one
  int to = -1;          ///< of kAllToAll
  ir::Ints pairs = {};  ///< of kPermute
};
/// The collective that a step becomes. None for a cut, which becomes a `section`.
std::optional<CollectiveKind> collective_of(ReshardStep::Kind kind);
/// The size of a rank's shard after the step, divided by its size before.
double growth(const ir::Mesh& mesh, const ReshardStep& step);

/// The quickest steps that a search finds, to a layout in which nothing is pending. `type` is the global type. Sums over a temporal axis
/// are made first. Other changes along that axis follow `plain_steps`.
std::vector<ReshardStep> reshard_steps(const ir::Mesh& mesh, const ir::Type& type, const Layout& from, const Layout& to);
/// Steps in a fixed order, which exist for all layouts. First pending sums are reduced, those over a temporal axis before others. They are
/// scattered if a dimension gains exactly their axes. Then axes that one dimension loses to another are exchanged (all_to_all).
/// Other losses are gathered, and other gains are cut.
std::vector<ReshardStep> plain_steps(const ir::Mesh& mesh, const Layout& from, const Layout& to);
/// Bytes that a rank sends in these steps. `type` is the global type of the value, `from` its layout before the first step. `share`: as
/// for `reshard_bytes`.
double bytes_of_steps(const ir::Mesh& mesh, const ir::Type& type, const Layout& from, const std::vector<ReshardStep>& steps,
                      std::optional<DType> share = std::nullopt);
/// Bytes that a rank sends in `reshard_steps`. Pending sums are exchanged in the type `share`, and have their own type after that.
double reshard_bytes(const ir::Mesh& mesh, const ir::Type& type, const Layout& from, const Layout& to, DType share);
/// The same if pending sums have the type of the value.
double reshard_bytes(const ir::Mesh& mesh, const ir::Type& type, const Layout& from, const Layout& to);
/// The rank's shard after these steps. `pending`: the axes over which a sum is pending in it before. `made`: as for `reshard`.
ir::Val by_steps(const ir::Mesh& mesh, const RankSymbols& rank, ir::Val shard, ir::Axes pending, const std::vector<ReshardStep>& steps,
                 std::optional<DType> made = std::nullopt);
/// The rank's shard under another layout. `made` is the type to which a pending sum is rounded right after ranks have combined it.
/// Without it the shard keeps its type.
ir::Val reshard(const ir::Mesh& mesh, const RankSymbols& rank, const Part& part, const Layout& to,
                std::optional<DType> made = std::nullopt);

/// The combination of the values of all ranks along these axes, on each of them.
ir::Val all_reduce(const ir::Mesh& mesh, ir::Val value, const ir::Axes& axes, kernel_ir::Combiner combiner);

}  // namespace nabla::passes
