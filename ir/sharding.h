// Meshes, and how values are laid out over them. docs/sharding.md says what they mean; the model is Shardy's.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/diagnostic.h"

namespace nabla::ir {

struct MeshAxis {
  std::string name;
  int64_t size = 1;
  /// Its parts are computed one after the other by the same rank: microbatches. At most one axis of a mesh; partition
  /// makes it a loop.
  bool temporal = false;
  bool operator==(const MeshAxis&) const = default;
};

/// Ranks by named coordinates, row-major: the last axis is the fastest. A temporal axis has coordinates, and no ranks
/// of its own: until partition it is treated as if it had.
struct Mesh {
  std::string name;
  std::vector<MeshAxis> axes;
  LocationRef location;

  int64_t ranks() const;  ///< along all axes but the temporal one
  int64_t size_of(std::string_view axis) const;  ///< 0: there is no such axis
  const MeshAxis* temporal() const;              ///< null: there is none
  std::vector<std::string> axis_names() const;
  std::string sizes() const;                       ///< "dp=4, tp=2"
  std::string str() const;                         ///< "pod (dp=4, tp=2)"
  std::string lacks(std::string_view axis) const;  ///< "mesh pod (dp=4, tp=2) has no axis `pd`; did you mean `dp`?"
};
/// The names of axes in an option: "dp,tp" or "dp;tp". E0901 for an empty one and for one that stands twice.
Result<std::vector<std::string>> axis_list(const std::string& option, std::string list);

/// An axis of a mesh, or a part of it: with an axis of `before` * size * after ranks, the part of coordinate c is
/// c / after % size.
struct AxisRef {
  std::string name;
  int64_t before = 1;
  int64_t size = 0;  ///< 0: the whole axis
  bool operator==(const AxisRef&) const = default;
  std::string str() const;  ///< "tp", "tp:(2)4"
};
/// Major first.
using Axes = std::vector<AxisRef>;
std::string str(const Axes& axes);  ///< "{dp, tp:(2)4}"
/// How many parts the axes make. Requires check_axes.
int64_t shards(const Mesh& mesh, const Axes& axes);
/// The part that a rank has: its coordinate along the axes, as one number. Requires check_axes.
int64_t coordinate(const Mesh& mesh, const Axes& axes, int64_t rank);
/// What the part of a coordinate has of a dimension that is cut into `parts`: `count` elements from `begin` on. All have
/// the same `size`, ceil(extent / parts), of which the last ones' ends are padding.
struct PartOfDim {
  int64_t begin = 0, size = 0, count = 0;
};
PartOfDim part_of_dim(int64_t extent, int64_t parts, int64_t coordinate);
/// The ranks that differ from this one along the axes alone, by their coordinate there. Requires check_axes.
std::vector<int64_t> group_of(const Mesh& mesh, const Axes& axes, int64_t rank);
/// E0210 for an axis that the mesh lacks, a part that does not divide it, and parts of one axis that overlap.
Status check_axes(const Mesh& mesh, const Axes& axes, const std::string& what);

/// The layout of one dimension.
struct DimSharding {
  Axes axes;
  bool open = false;  ///< propagation may add axes
  int priority = 0;   ///< propagation follows those of 0 first, then those of 1, ...
  bool operator==(const DimSharding&) const = default;
  std::string str() const;  ///< "dp", "{dp, tp}", "{tp, ?}", "{}", "{tp, ?}p1"
};

/// The layout of a value: a dimension without axes is whole on every rank. No axis stands twice.
struct Sharding {
  std::vector<DimSharding> dims;
  Axes replicated;  ///< axes along which the value must be the same
  /// Axes need not divide the extents: every shard has ceil(extent / shards) elements, and what lies beyond the extent
  /// is padding (the pass pad-shards).
  bool allow_padding = false;
  bool operator==(const Sharding&) const = default;
  std::string str() const;  ///< "<dp, {tp, ?}, {}> replicated {pp} allow_padding"
};
using ShardingRef = std::shared_ptr<const Sharding>;
using Shardings = std::vector<Sharding>;
/// All that it names, those of the dimensions first.
Axes axes_of(const Sharding& sharding);

}  // namespace nabla::ir
