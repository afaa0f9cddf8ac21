// Whether meshes are meshes, and layouts fit their mesh and their values.
#include <algorithm>
#include <numeric>
#include <set>

#include "ir/op_def.h"
#include "ir/symbols.h"
#include "ir/verifier.h"
#include "runtime/base/text.h"

namespace nabla::ir {
namespace {

Diagnostic refuse(const std::string& what, const std::string& why) {
  return error(Code::kBadSharding, "{}: {}", what, why);
}

// " at input.nbl:3: mesh pod = {dp=2}"
std::string place(const LocationRef& location) {
  std::string_view text = location->text;
  text.remove_prefix(std::min(text.find_first_not_of(" \t"), text.size()));
  return fmt::format("{}{}{}", at_place(location), text.empty() ? "" : ": ", text);
}

// What is wrong with axes has two places: that of the layout, and that of the mesh.
Status beside_mesh(const Mesh& mesh, Status status) {
  if (status.ok() || !mesh.location) return status;
  for (Diagnostic& d : status.errors())
    d.notes.push_back(fmt::format("mesh {} is {{{}}}, declared{}", mesh.name, mesh.sizes(), place(mesh.location)));
  return status;
}

// Does `count` divide the extent at every value of its symbols, as far as can be told?
bool divides(int64_t count, const Dim& extent) {
  return Dim::mod(extent, count).is(0);
}

Status check_divides(const Mesh& mesh, const Axes& axes, const Type& type, int dim, const std::string& what) {
  int64_t count = shards(mesh, axes);
  const Dim& extent = type.shape[dim];
  if (divides(count, extent)) return Ok{};
  if (extent.is_static()) {
    Diagnostic d = refuse(what, fmt::format("dimension {} of {} has {} elements, which {} shards along {} do not divide", dim,
                                            type.str(), extent.str(), count, str(axes)));
    d.help = fmt::format("say allow_padding beside the layout: shards have {} elements then", (extent.value() + count - 1) / count);
    return d;
  }
  Diagnostic d = error(Code::kUndecidable, "{}: dimension {} of {} may not be divisible into {} shards along {}", what,
                       dim, type.str(), count, str(axes));
  if (std::string help = help_to_divide(extent, count); !help.empty()) d.help = help;
  return d;
}

// What pads: ranks, along a dimension of which the length is known.
Status check_padding(const Mesh& mesh, const Axes& axes, const Type& type, int dim, const std::string& what) {
  const Dim& extent = type.shape[dim];
  if (divides(shards(mesh, axes), extent)) return Ok{};
  if (mesh.temporal() && !axes.empty() && axes.back().name == mesh.temporal()->name)
    return refuse(what, fmt::format("dimension {} of {} has {} elements, which {} shards along {} do not divide, and "
                                    "microbatches along {} are not padded", dim, type.str(), extent.str(), shards(mesh, axes),
                                    str(axes), mesh.temporal()->name));
  if (!extent.is_static()) {
    Status undecided = check_divides(mesh, axes, type, dim, what);
    for (Diagnostic& d : undecided.errors()) d.notes.push_back("allow_padding pads dimensions of a static length alone");
    return undecided;
  }
  return Ok{};
}

// Microbatches are parts of what a rank has: they are cut last.
Status check_temporal(const Mesh& mesh, const Axes& axes, const std::string& what) {
  const MeshAxis* temporal = mesh.temporal();
  for (const AxisRef& a : axes) {
    if (!temporal || a.name != temporal->name) continue;
    if (a.size != 0) return refuse(what, fmt::format("{} is a part of the temporal axis {}", a.str(), a.name));
    if (!(a == axes.back()))
      return refuse(what, fmt::format("the temporal axis {} stands before {} in {}: it comes last", a.name,
                                      axes.back().str(), str(axes)));
  }
  return Ok{};
}

constexpr const char* kOtherSizes = "trace the program with a mesh of these sizes: what its ranks exchange follows from them";

// Of a manual region: its collectives are those of so many ranks.
Status check_sizes(const Mesh& mesh, const Node& node, const Ints& sizes) {
  const Axes& axes = node.attrs.get_axes("axes");
  (void)NABLA_TRY(beside_mesh(mesh, check_axes(mesh, axes, node.op->name)));
  for (size_t i = 0; i < axes.size() && i < sizes.size(); ++i) {
    int64_t ranks = mesh.size_of(axes[i].name);
    if (ranks == sizes[i]) continue;
    Diagnostic d = refuse(node.op->name, fmt::format("the region is written for {} ranks along {}, and mesh {} has {}",
                                                     sizes[i], axes[i].name, mesh.name, ranks));
    d.help = kOtherSizes;
    return beside_mesh(mesh, d);
  }
  return Ok{};
}

// The axis that a vmap spreads its batch over.
const std::string* spmd_axis(const Node& node) {
  const Attr* attr = node.attrs.find("spmd_axis_name");
  const auto* name = attr ? std::get_if<std::string>(attr) : nullptr;
  return name && !name->empty() ? name : nullptr;
}

// Of the attributes: layouts are of the operand, and collectives count the ranks that they join.
Status check_attributes(const Mesh& mesh, const Function& f, const Node& node) {
  const Attr* shards_attr = node.attrs.find("shards");
  if (const std::string* axis = spmd_axis(node))
    (void)NABLA_TRY(beside_mesh(mesh, check_axes(mesh, {{*axis}}, node.op->name + ": spmd_axis_name")));
  if (const Attr* sizes = node.attrs.find("sizes"); sizes && node.attrs.find("axes"))
    (void)NABLA_TRY(check_sizes(mesh, node, std::get<Ints>(*sizes)));
  for (const auto& [name, attr] : node.attrs) {
    const Sharding* s = std::get_if<Sharding>(&attr);
    if (s && name != "parts")  // those are checked by the op, which counts them itself
      (void)NABLA_TRY(check_sharding(mesh, *s, f.type(node.operands[0]), node.op->name));
    const Axes* axes = std::get_if<Axes>(&attr);
    if (!axes) continue;
    (void)NABLA_TRY(beside_mesh(mesh, check_axes(mesh, *axes, node.op->name)));
    int64_t count = shards(mesh, *axes);
    if (!shards_attr || std::get<int64_t>(*shards_attr) == count) continue;
    Diagnostic d = refuse(node.op->name, fmt::format("{} are {} ranks of mesh {}, not {}", str(*axes), count, mesh.name,
                                                     std::get<int64_t>(*shards_attr)));
    d.help = kOtherSizes;
    return beside_mesh(mesh, d);
  }
  return Ok{};
}

// What speaks of a mesh, in a module that has none.
Status check_without_mesh(const Node& node) {
  if (const std::string* axis = spmd_axis(node))
    return refuse(node.op->name, fmt::format("spmd_axis_name is \"{}\", and the module has no mesh", *axis));
  for (const auto& [name, attr] : node.attrs) {
    const Axes* axes = std::get_if<Axes>(&attr);
    const Sharding* sharding = std::get_if<Sharding>(&attr);
    if (node.op->manual) return refuse(node.op->name, "the module has no mesh");
    if ((axes && !axes->empty()) || (sharding && !axes_of(*sharding).empty()))
      return refuse(node.op->name, "the module has no mesh");
  }
  return Ok{};
}

// [A-Za-z_][A-Za-z0-9_]*
bool is_identifier(std::string_view text) {
  auto letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; };
  auto later = [&](char c) { return letter(c) || (c >= '0' && c <= '9'); };
  return !text.empty() && letter(text[0]) && std::all_of(text.begin(), text.end(), later);
}

}  // namespace

Status check_mesh(const Mesh& mesh) {
  const std::string what = "mesh " + mesh.name;
  if (mesh.name.empty()) return error(Code::kBadSharding, "a mesh has no name");
  if (mesh.axes.empty()) return refuse(what, "it has no axis");
  std::set<std::string_view> names;
  int64_t ranks = 1;
  for (const MeshAxis& a : mesh.axes) {
    if (!is_identifier(a.name)) {
      Diagnostic d = refuse(what, fmt::format("`{}` names no axis", printable(a.name)));
      d.help = "axes are named by letters, digits and _, and no digit comes first: options, plans and reports list them";
      return d;
    }
    if (a.temporal && &a != mesh.temporal())
      return refuse(what, fmt::format("{} and {} are temporal: a mesh has one temporal axis", mesh.temporal()->name, a.name));
    if (!names.insert(a.name).second) return refuse(what, fmt::format("two axes are named {}", a.name));
    if (a.size < 1) return refuse(what, fmt::format("axis {} has {} ranks, expected 1 or more", a.name, a.size));
    if (a.size > kMaxRanks || (ranks *= a.size) > kMaxRanks)
      return refuse(what, fmt::format("it has more than {} ranks", kMaxRanks));
  }
  return Ok{};
}

Status check_sharding(const Mesh& mesh, const Sharding& s, const Type& type, const std::string& what) {
  if (s.dims.size() != type.shape.size())
    return refuse(what, fmt::format("{} is the layout of {} dimensions, {} has {}", s.str(), s.dims.size(), type.str(),
                                    type.rank()));
  (void)NABLA_TRY(beside_mesh(mesh, check_axes(mesh, axes_of(s), what)));
  for (const DimSharding& d : s.dims) (void)NABLA_TRY(beside_mesh(mesh, check_temporal(mesh, d.axes, what)));
  for (int d = 0; d < type.rank(); ++d)
    (void)NABLA_TRY(beside_mesh(mesh, s.allow_padding ? check_padding(mesh, s.dims[d].axes, type, d, what)
                                                      : check_divides(mesh, s.dims[d].axes, type, d, what)));
  return Ok{};
}

namespace {

Status check_leaf(const Mesh& mesh, const StateLeaf& leaf, const std::string& what) {
  (void)NABLA_TRY(check_sharding(mesh, *leaf.sharding, leaf.type, what));
  for (const AxisRef& a : axes_of(*leaf.sharding))
    if (mesh.temporal() && a.name == mesh.temporal()->name)
      return refuse(what, fmt::format("it is laid out along {}, a temporal axis: state is there for all microbatches", a.name));
  return Ok{};
}

}  // namespace

Status check_coordinate(const Module& m, const Symbol& s) {
  int64_t ranks = m.mesh() ? m.mesh()->size_of(s.axis) : 0;
  if (ranks > 0 && s.min == 0 && s.max == ranks - 1 && s.multiple == 1) return Ok{};
  return refuse(fmt::format("symbol {} in [{}, {}]", s.name, s.min, s.max),
                ranks == 0 ? fmt::format("no mesh has an axis {}", s.axis)
                           : fmt::format("coordinates along {} are in [0, {}]", s.axis, ranks - 1));
}

Status check_meshes(const Module& m, const LocateItem& locate) {
  auto at = [&](Item item, size_t i, const LocationRef& own, Status status) {
    if (status.ok()) return status;
    for (Diagnostic& d : status.errors())
      if (!d.location) d.location = own || !locate ? own : locate(item, i);
    return status;
  };
  for (size_t i = 0; i < m.meshes.size(); ++i)
    (void)NABLA_TRY(at(Item::kMesh, i, m.meshes[i].location,
                       i == 0 ? check_mesh(m.meshes[i])
                              : Status(refuse("mesh " + m.meshes[i].name, "a module has one mesh, this is the second"))));
  for (size_t i = 0; i < m.state.size(); ++i) {
    const StateLeaf& leaf = m.state[i];
    if (!leaf.sharding) continue;
    std::string what = "state leaf " + leaf.name;
    Status ok = !m.mesh()                    ? Status(refuse(what, "the module has no mesh"))
                : m.stage >= Stage::kLocal ? Status(error(Code::kWrongStage, "{} has a layout in a {} module", what, name_of(m.stage)))
                                             : check_leaf(*m.mesh(), leaf, what);
    (void)NABLA_TRY(at(Item::kState, i, leaf.location, std::move(ok)));
  }
  return Ok{};
}

Status check_layout(const Module& m, const Function& f, ValueId id) {
  const Value& v = f.values[id];
  if (!v.sharding) return Ok{};
  std::string what = describe_value(f, id);
  if (!m.mesh()) return refuse(what, "the module has no mesh");
  if (m.stage >= Stage::kLocal) return error(Code::kWrongStage, "{} has a layout in a {} module", what, name_of(m.stage));
  return check_sharding(*m.mesh(), *v.sharding, v.type, what);
}

Status check_layouts(const Module& m, const Function& f, const Node& node) {
  (void)NABLA_TRY(m.mesh() ? check_attributes(*m.mesh(), f, node) : check_without_mesh(node));
  for (ValueId id : node.results) (void)NABLA_TRY(check_layout(m, f, id));
  return Ok{};
}

Status check_shardings(const Module& m, const Function& f) {
  auto located = [](Status status, const LocationRef& location) {
    if (status.ok()) return status;
    for (Diagnostic& d : status.errors())
      if (!d.location) d.location = location;
    return status;
  };
  for (ValueId id : f.params) (void)NABLA_TRY(located(check_layout(m, f, id), f.location));
  for (const Node& node : f.nodes) (void)NABLA_TRY(located(check_layouts(m, f, node), node.location));
  return Ok{};
}

}  // namespace nabla::ir
