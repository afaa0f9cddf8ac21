#include "frontend/cpp/sharding.h"

#include <algorithm>

#include "frontend/cpp/emit.h"
#include "frontend/cpp/frame.h"
#include "ir/verifier.h"

namespace nabla {
namespace {

void check_known(const Mesh& mesh, const ir::Axes& axes, const std::string& what, const Site& site) {
  Status known = ir::check_axes(mesh, axes, what);
  if (!known.ok()) throw error_at(site, Code::kBadSharding, "{}", known.errors()[0].message);
}

void check_rank(const Mesh& mesh, int64_t rank, const char* what, const Site& site) {
  if (rank >= 0 && rank < mesh.ranks()) return;
  throw error_at(site, Code::kBadSharding, "{}: mesh {} has ranks 0 to {}, got {}", what, mesh.name, mesh.ranks() - 1, rank);
}

// The part that a rank has along the axes. A temporal axis has no ranks, whose numbers leave it out.
int64_t part_of(const Mesh& mesh, const ir::Axes& axes, int64_t rank, const char* what, const Site& site) {
  Mesh spatial = mesh;
  std::erase_if(spatial.axes, [](const MeshAxis& a) { return a.temporal; });
  for (const ir::AxisRef& a : axes)
    if (spatial.size_of(a.name) == 0)
      throw error_at(site, Code::kBadSharding, "{}: {} is a temporal axis of mesh {}: each rank has all parts along it", what, a.name,
                     mesh.name);
  return ir::coordinate(spatial, axes, rank);
}

}  // namespace

int64_t get_axis_size(const Mesh& mesh, const std::string& axis, Site site) {
  check_known(mesh, {{axis}}, "get_axis_size", site);
  return mesh.size_of(axis);
}

int64_t get_coordinate(const Mesh& mesh, int64_t rank, const std::string& axis, Site site) {
  check_known(mesh, {{axis}}, "get_coordinate", site);
  check_rank(mesh, rank, "get_coordinate", site);
  return part_of(mesh, {{axis}}, rank, "get_coordinate", site);
}

std::map<std::string, int64_t> get_axis_indices(const Mesh& mesh, int64_t rank, Site site) {
  check_rank(mesh, rank, "get_axis_indices", site);
  std::map<std::string, int64_t> out;
  for (const MeshAxis& a : mesh.axes)
    if (!a.temporal) out[a.name] = get_coordinate(mesh, rank, a.name, site);
  return out;
}

Ints get_devices_on_axis_slice(const Mesh& mesh, const std::string& axis, int64_t coordinate, Site site) {
  const char* what = "get_devices_on_axis_slice";
  check_known(mesh, {{axis}}, what, site);
  if (coordinate < 0 || coordinate >= mesh.size_of(axis))
    throw error_at(site, Code::kBadSharding, "{}: mesh {} has places 0 to {} along {}, got {}", what, mesh.name,
                   mesh.size_of(axis) - 1, axis, coordinate);
  Ints out;
  for (int64_t r = 0; r < mesh.ranks(); ++r)
    if (part_of(mesh, {{axis}}, r, what, site) == coordinate) out.push_back(r);
  return out;
}

PDim::PDim(const std::string& axis) {
  if (!axis.empty()) sharding.axes.push_back({axis});
}

PDim::PDim(std::initializer_list<std::string> axes) {
  for (const std::string& a : axes) sharding.axes.push_back({a});
}

PDim PDim::priority(int number, Site site) const {
  if (number < 0) throw error_at(site, Code::kBadSharding, "a layout's priority is {}, expected 0 or more", number);
  PDim out = *this;
  out.sharding.priority = number;
  return out;
}

PDim open(std::initializer_list<std::string> axes) {
  PDim out(axes);
  out.sharding.open = true;
  return out;
}

P P::replicated_axes(std::initializer_list<std::string> axes) const {
  P out = *this;
  for (const std::string& a : axes) out.sharding.replicated.push_back({a});
  return out;
}

bool P::is_fully_replicated() const {
  return std::all_of(sharding.dims.begin(), sharding.dims.end(), [](const ir::DimSharding& d) { return d.axes.empty(); });
}

int64_t P::total_shards(const Mesh& mesh, Site site) const {
  check_known(mesh, ir::axes_of(sharding), sharding.str(), site);
  int64_t out = 1;
  for (const ir::DimSharding& d : sharding.dims) out *= ir::shards(mesh, d.axes);
  return out;
}

std::vector<std::string> P::get_implicitly_replicated_axes(const Mesh& mesh) const {
  std::vector<std::string> out = mesh.axis_names();
  for (const ir::AxisRef& a : ir::axes_of(sharding)) std::erase(out, a.name);
  return out;
}

Tensor shard(const Arg& x, const P& layout, Site site) {
  Tensor out = emit("shard", {x}, {{"sharding", layout.sharding}}, site)[0];
  const Mesh* mesh = out.frame()->context->module.mesh();
  const std::string what = fmt::format("shard of {} as {}", out.type().str(), layout.sharding.str());
  Status fits = mesh ? ir::check_sharding(*mesh, layout.sharding, out.type(), what) : Ok{};
  if (fits.ok()) return out;
  Diagnostic d = fits.errors()[0];
  d.location = locate(x.site().line > 0 ? x.site() : site, out.frame()->name);
  throw Error(std::move(d));
}

Shape compute_local_shape(const Shape& global_shape, const P& layout, const Mesh& mesh, int64_t rank, Site site) {
  const char* what = "compute_local_shape";
  const std::vector<ir::DimSharding>& dims = layout.sharding.dims;
  if (dims.size() != global_shape.size())
    throw error_at(site, Code::kBadSharding, "{}: {} is the layout of {} dimensions, the shape has {}", what, layout.sharding.str(),
                   dims.size(), global_shape.size());
  check_known(mesh, ir::axes_of(layout.sharding), what, site);
  check_rank(mesh, rank, what, site);
  Shape out;
  for (size_t d = 0; d < dims.size(); ++d) {
    const ir::Dim& n = global_shape[d];
    int64_t part = part_of(mesh, dims[d].axes, rank, what, site), parts = ir::shards(mesh, dims[d].axes);
    if (n.is_static() && n.value() < 0)
      throw error_at(site, Code::kBadSharding, "{}: dimension {} has {} elements, expected 0 or more", what, d, n.value());
    out.push_back(n.is_static() ? ir::Dim(ir::part_of_dim(n.value(), parts, part).count) : ir::Dim::floordiv(n, parts));
  }
  return out;
}

bool needs_reshard(const P& from, const P& to) {
  auto same = [](const ir::DimSharding& a, const ir::DimSharding& b) { return a.axes == b.axes; };
  const auto &a = from.sharding.dims, &b = to.sharding.dims;
  return !std::equal(a.begin(), a.end(), b.begin(), b.end(), same);
}

}  // namespace nabla
