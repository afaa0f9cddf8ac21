// Layouts of arrays over a mesh: what is written beside inputs, state and values. docs/sharding.md.
#pragma once

#include <initializer_list>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "frontend/cpp/tensor.h"
#include "ir/sharding.h"

namespace nabla {

/// Ranks by named coordinates: what Program::mesh returns.
using Mesh = ir::Mesh;
/// An axis of a mesh and how many ranks lie along it.
using MeshAxis = ir::MeshAxis;
/// An axis whose parts the same ranks compute one after the other: arrays laid out along it are cut into so many
/// microbatches. One of a mesh.
inline MeshAxis temporal(std::string name, int64_t microbatches) { return {std::move(name), microbatches, true}; }

// ---- Where ranks lie. All throw E0210 for an axis that the mesh lacks, and for a number that is no rank of it.

/// How many ranks there are; how many lie along an axis (of a temporal one: how many microbatches there are).
inline int64_t num_devices(const Mesh& mesh) { return mesh.ranks(); }
int64_t get_axis_size(const Mesh& mesh, const std::string& axis, Site site = Site::here());
/// Where a rank lies along an axis. E0210 for a temporal one, whose parts all belong to the rank.
int64_t get_coordinate(const Mesh& mesh, int64_t rank, const std::string& axis, Site site = Site::here());
/// The same of every axis but a temporal one, by its name.
std::map<std::string, int64_t> get_axis_indices(const Mesh& mesh, int64_t rank, Site site = Site::here());
/// The ranks that have this coordinate along the axis. E0210 for one that none has.
Ints get_devices_on_axis_slice(const Mesh& mesh, const std::string& axis, int64_t coordinate, Site site = Site::here());

// ---- Layouts.

/// The layout of one dimension: the axes that it is cut along, major first. It is closed: nothing adds to it.
struct PDim {
  /// "dp"; "" is whole on every rank.
  PDim(const char* axis) : PDim(std::string(axis)) {}
  PDim(const std::string& axis);
  PDim(std::initializer_list<std::string> axes);
  PDim(ir::DimSharding dim) : sharding(std::move(dim)) {}
  /// The same, followed by propagation after all of lower numbers; without it 0. Throws E0210 below 0.
  PDim priority(int number, Site site = Site::here()) const;
  ir::DimSharding sharding;
};
/// The same, and propagation may add axes after these.
PDim open(std::initializer_list<std::string> axes);
/// Propagation decides.
inline PDim open() { return open({}); }

/// The layout of an array: P("dp", "", PDim{"tp", "pp"}) cuts the first of three dimensions along dp and the last along tp
/// and pp. As many dimensions as the array has.
struct P {
  template <class... D>
  requires(std::is_convertible_v<D, PDim>&&...) explicit P(D&&... dims) { (add(PDim(std::forward<D>(dims))), ...); }
  explicit P(std::initializer_list<PDim> dims) {
    for (const PDim& d : dims) add(d);
  }
  operator const ir::Sharding&() const { return sharding; }
  /// The same where axes do not divide: each rank then has ceil(extent / shards) elements, the last ones of which may be
  /// padding that nobody sees. Without it such a layout is E0210.
  P allow_padding() const {
    P out = *this;
    out.sharding.allow_padding = true;
    return out;
  }
  /// The same, and what is laid out so is the same on all ranks along these axes: propagation adds none of them.
  P replicated_axes(std::initializer_list<std::string> axes) const;
  /// Whether every rank has all of it.
  bool is_fully_replicated() const;
  /// Into how many different parts it cuts an array. E0210 for axes that the mesh lacks.
  int64_t total_shards(const Mesh& mesh, Site site = Site::here()) const;
  /// The axes of the mesh that it does not name.
  std::vector<std::string> get_implicitly_replicated_axes(const Mesh& mesh) const;
  ir::Sharding sharding;

 private:
  void add(const PDim& d) { sharding.dims.push_back(d.sharding); }
};

/// x, laid out so: in the middle of a program, where propagation is to find this layout. Its derivative is laid out so
/// too. Throws E0203 unless the layout has a dimension for each of x's, and what does not fit the program's mesh is E0210.
Tensor shard(const Arg& x, const P& layout, Site site = Site::here());
/// The same, by the name that JAX gives it.
inline Tensor with_sharding_constraint(const Arg& x, const P& layout, Site site = Site::here()) {
  return shard(x, layout, site);
}
/// The same: it lays out anew whatever x's layout is.
inline Tensor reshard(const Arg& x, const P& layout, Site site = Site::here()) { return shard(x, layout, site); }

/// The shape of what a rank has of an array, padding left out: of n elements in s parts ceil(n / s), fewer at the end, and
/// floordiv(n, s) of a size that is known at run time. Throws E0210 unless the layout has a dimension for each of the
/// shape's and axes of the mesh, for a temporal axis, for a size below 0, and for a number that is no rank.
Shape compute_local_shape(const Shape& global_shape, const P& layout, const Mesh& mesh, int64_t rank, Site site = Site::here());
/// The same as total_shards.
inline int64_t get_num_shards(const P& layout, const Mesh& mesh, Site site = Site::here()) {
  return layout.total_shards(mesh, site);
}
/// Whether axes cut the dimensions of two layouts otherwise, so that an array of the one has to be laid out anew.
bool needs_reshard(const P& from, const P& to);

}  // namespace nabla
