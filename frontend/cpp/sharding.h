// Layouts of arrays over a mesh: what is written beside inputs, state and values. docs/sharding.md.
#pragma once

#include <initializer_list>
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
  ir::Sharding sharding;

 private:
  void add(const PDim& d) { sharding.dims.push_back(d.sharding); }
};

/// x, laid out so: in the middle of a program, where propagation is to find this layout. Its derivative is laid out so
/// too. Throws E0203 unless the layout has a dimension for each of x's.
Tensor shard(const Arg& x, const P& layout, Site site = Site::here());
/// The same, by the name that JAX gives it.
inline Tensor with_sharding_constraint(const Arg& x, const P& layout, Site site = Site::here()) {
  return shard(x, layout, site);
}

}  // namespace nabla
