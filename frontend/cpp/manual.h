// Functions that are written for the ranks of a mesh, and what these exchange. docs/sharding.md.
#pragma once

#include <cstddef>
#include <initializer_list>
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "frontend/cpp/sharding.h"
#include "frontend/cpp/trace.h"

namespace nabla {

/// One mesh axis or several, major first: "tp", {"dp", "tp"}.
struct AxisNames {
  /// All those that the region around is written for.
  static AxisNames of_region() {
    AxisNames out = std::vector<std::string>();
    out.region = true;
    return out;
  }
  AxisNames(const char* name) : list{name} {}         // NOLINT: converts
  AxisNames(const std::string& name) : list{name} {}  // NOLINT: converts
  AxisNames(std::initializer_list<std::string> names) : list(names) {}
  AxisNames(std::vector<std::string> names) : list(std::move(names)) {}  // NOLINT: converts
  AxisNames(std::nullptr_t) = delete;  // psum_scatter(x, 0): a dimension is no axis of a mesh
  std::vector<std::string> list;
  bool region = false;
};

// What the template below is made of; defined in manual.cc.
/// The node of a region: layouts are one per tensor of the arguments and of the result.
class Region {
 public:
  /// `what`: whose region it is, in errors.
  Region(std::vector<P> in, std::vector<std::string> axes, std::vector<Tensor> operands, Site site, std::string what = "shard_map");
  const std::string& what() const { return what_; }
  /// The type of a rank's part of an operand.
  ir::Type part(size_t operand) const { return parts_[operand]; }
  /// Makes the function being traced that of the region.
  void enter() const;
  /// The region of f, whose results are laid out as `out` says; what f closes over is whole on every rank.
  std::vector<Tensor> call(const TracedFunction& f, const std::vector<P>& out) const;

 private:
  ir::Shardings in_;
  ir::Axes axes_;
  Ints sizes_;
  std::vector<Tensor> operands_;
  std::vector<ir::Type> parts_;
  Site site_;
  std::string what_;
};

/// What shard_map returns: call it with f's arguments.
template <class F>
class ShardMapped {
 public:
  ShardMapped(F f, std::vector<P> in, std::vector<P> out, std::vector<std::string> axes, Site site)
      : f_(std::move(f)), in_(std::move(in)), out_(std::move(out)), axes_(std::move(axes)), site_(site) {}

  template <class... A>
  auto operator()(const A&... args) const {
    F f = f_;
    Region region(in_, axes_, all_tensors(args...), site_);
    Tracing tracing(inner_name("region"), site_);
    region.enter();
    size_t next = 0;
    auto inner = [&](auto copy) {
      for (auto& leaf : leaves_of<Tensor>(copy))
        *leaf.second = tracing.param(name_of(*leaf.second), region.part(next++));
      return copy;
    };
    std::tuple<A...> inside{inner(args)...};
    auto result = std::apply([&](const A&... a) { return f(a...); }, inside);
    TracedFunction traced = tracing.finish(tensors_of(result));
    return with_tensors(std::move(result), region.call(traced, out_));
  }

 private:
  F f_;
  std::vector<P> in_, out_;
  std::vector<std::string> axes_;
  Site site_;
};

/// f, written for one rank of the program's mesh. It gets the parts of the arguments that `in_specs` says, and its
/// results are the parts of the results by `out_specs`: a layout per tensor, in order. An axis that a layout does not
/// name means: the same on all ranks along it. `axes` are those that f is written for, all of the mesh where none are
/// given; along the others its values are sharded as any. Values of outside that f uses are whole. Throws E0210 where a
/// layout does not fit; a result that may differ along an axis which its layout does not name is E0210 when the program
/// is compiled.
template <class F>
auto shard_map(F f, std::vector<P> in_specs, std::vector<P> out_specs, std::vector<std::string> axes = {},
               Site site = Site::here()) {
  return ShardMapped<F>(std::move(f), std::move(in_specs), std::move(out_specs), std::move(axes), site);
}

/// Layouts of some of the arguments, or of some of the tensors of a result, by their places.
using Layouts = std::map<size_t, P>;
/// Throws E0210 where `layouts` names a place that is not there.
void check_places(const Layouts& layouts, size_t count, const char* what, const Site& site);

/// What shard_map of a function of whole arrays returns: call it with f's arguments.
template <class F>
class LaidOut {
 public:
  LaidOut(F f, Layouts in, Layouts out, Site site) : f_(std::move(f)), in_(std::move(in)), out_(std::move(out)), site_(site) {}

  template <class... A>
  auto operator()(const A&... args) const {
    check_places(in_, sizeof...(A), "in_specs lays out argument", site_);
    F f = f_;
    size_t next = 0;
    auto inner = [&](auto copy) {
      auto said = in_.find(next++);
      if (said != in_.end())
        for (auto& leaf : leaves_of<Tensor>(copy)) *leaf.second = shard(Arg(*leaf.second, site_), said->second, site_);
      return copy;
    };
    std::tuple<A...> inside{inner(args)...};
    auto result = std::apply([&](const A&... a) { return f(a...); }, inside);
    std::vector<Tensor> tensors = tensors_of(result);
    check_places(out_, tensors.size(), "out_specs lays out result", site_);
    for (const auto& [place, layout] : out_) tensors[place] = shard(Arg(tensors[place], site_), layout, site_);
    return with_tensors(std::move(result), tensors);
  }

 private:
  F f_;
  Layouts in_, out_;
  Site site_;
};

/// f, written for whole arrays, whose arguments (every tensor of one alike) and results are laid out so:
/// shard_map(f, Layouts{{0, P("dp", "")}}, Layouts{{0, P("", "tp")}}). What lies between follows by propagation, as what is not
/// named here does. Throws E0210 where a place is not there, otherwise as shard.
template <class F>
auto shard_map(F f, Layouts in_specs, Layouts out_specs, Site site = Site::here()) {
  return LaidOut<F>(std::move(f), std::move(in_specs), std::move(out_specs), site);
}

// ---- Inside of a region: what the ranks along its axes exchange. Where no axes are given these are all those that the region
// is written for. All throw E0210 outside of a region, and where an axis is not one of its own.

/// The sum over the ranks along the axes; the same on all of them.
Tensor psum(const Arg& x, const AxisNames& axes = AxisNames::of_region());
Tensor pmean(const Arg& x, const AxisNames& axes = AxisNames::of_region());
Tensor pmax(const Arg& x, const AxisNames& axes = AxisNames::of_region());
Tensor pmin(const Arg& x, const AxisNames& axes = AxisNames::of_region());
/// The ranks' values combined element by element, the same on all of them; `reduce_op` is "sum", "max", "min", "mean" or
/// "prod", otherwise E0204. For a product the values are gathered.
Tensor all_reduce(const Arg& x, const std::string& reduce_op = "sum", const AxisNames& reduce_axes = AxisNames::of_region());
/// The ranks' values joined along a dimension (JAX's with tiled=True): n times as long, the same on all ranks.
Tensor all_gather(const Arg& x, const AxisNames& axes = AxisNames::of_region(), int64_t dim = 0);
Tensor all_gather(const Arg& x, int64_t dim);
/// The same along dimension 0, over all axes of the region; outside of one x, whole on every rank.
Tensor gather_all_axes(const Arg& x);
/// Of the sum over the ranks the rank's part along a dimension, which they divide (JAX's with tiled=True), otherwise E0203.
Tensor psum_scatter(const Arg& x, const AxisNames& axes = AxisNames::of_region(), int64_t dim = 0);
/// The same. `reduce_op` is "sum", otherwise E0204.
Tensor reduce_scatter(const Arg& x, int64_t axis = 0, const std::string& reduce_op = "sum",
                      const AxisNames& axis_name = AxisNames::of_region());
/// Part k of x along `split` goes to the k-th rank; what comes is joined along `join`.
Tensor all_to_all(const Arg& x, const AxisNames& axes, int64_t split, int64_t join);
Tensor all_to_all(const Arg& x, int64_t split, int64_t join);
/// x goes from the first rank of each pair to the second, by their places along the axes; zeros where nobody sends to.
/// E0204 for a number that is no place, and for one that sends or gets twice.
Tensor ppermute(const Arg& x, const AxisNames& axes, const std::vector<std::pair<int64_t, int64_t>>& pairs);
Tensor ppermute(const Arg& x, const std::vector<std::pair<int64_t, int64_t>>& pairs);
/// On every rank what the one has whose place along the region's axes is `root`; E0204 where none has it.
Tensor distributed_broadcast(const Arg& x, int64_t root = 0);
inline Tensor broadcast(const Arg& x, int64_t root = 0) { return distributed_broadcast(x, root); }
/// The rank's place along the axes, i32[], and how many there are; `what` asks, in errors.
Tensor axis_index(const AxisNames& axes = AxisNames::of_region(), Site site = Site::here());
int64_t axis_size(const AxisNames& axes = AxisNames::of_region(), Site site = Site::here(), const char* what = "axis_size");

}  // namespace nabla
