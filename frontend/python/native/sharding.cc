// Meshes, layouts, regions that are written for one rank, and their collectives.
#include <algorithm>
#include <memory>
#include <optional>
#include <regex>
#include <string>
#include <vector>

#include "frontend/cpp/manual.h"
#include "frontend/python/native/bind.h"
#include "frontend/python/native/bundle.h"
#include "frontend/python/native/eager_part.h"
#include "ir/reference/ranks.h"
#include "ir/symbols.h"
#include "ir/verifier.h"
#include "passes/transform/mark_varying.h"

namespace nabla::python {
namespace {

using Names = std::vector<std::string>;

// "tp", or a part of an axis: "tp:(2)4".
ir::AxisRef axis_of(const std::string& text) {
  static const std::regex part("([^:]+):\\((\\d+)\\)(\\d+)");
  std::smatch found;
  if (!std::regex_match(text, found, part)) return {text};
  return {found[1], std::stoll(found[2]), std::stoll(found[3])};
}
ir::Axes axes_of(const Names& names) {
  ir::Axes out;
  for (const std::string& name : names) out.push_back(axis_of(name));
  return out;
}
Names names_of(const ir::Axes& axes) {
  Names out;
  for (const ir::AxisRef& a : axes) out.push_back(a.str());
  return out;
}

[[noreturn]] void fail_at(Diagnostic d, const Site& site) {
  d.location = locate(site, "");
  throw Error(std::move(d));
}

std::shared_ptr<ir::Mesh> mesh_of(const std::string& name, const std::vector<std::pair<std::string, int64_t>>& axes) {
  auto out = std::make_shared<ir::Mesh>(ir::Mesh{name, {}, locate(python_site(), "")});
  for (const auto& [axis, size] : axes) out->axes.push_back({axis, size});
  if (Status fits = ir::check_mesh(*out); !fits.ok()) fail_at(fits.errors()[0], python_site());
  return out;
}

using DimTuple = std::tuple<Names, bool, int>;  // axes, open, priority

std::shared_ptr<ir::Sharding> layout_of(const std::vector<DimTuple>& dims, const Names& replicated, bool allow_padding) {
  auto out = std::make_shared<ir::Sharding>();
  for (const auto& [axes, open, priority] : dims) out->dims.push_back({axes_of(axes), open, priority});
  out->replicated = axes_of(replicated), out->allow_padding = allow_padding;
  return out;
}
std::vector<DimTuple> dims_of(const ir::Sharding& s) {
  std::vector<DimTuple> out;
  for (const ir::DimSharding& d : s.dims) out.emplace_back(names_of(d.axes), d.open, d.priority);
  return out;
}

P spec_of(const ir::Sharding& s) {
  P out;
  out.sharding = s;
  return out;
}

std::vector<P> specs_of(const std::vector<ir::Sharding>& layouts) {
  std::vector<P> out;
  for (const ir::Sharding& s : layouts) out.push_back(spec_of(s));
  return out;
}

// `what` names the tensor in errors.
Value shard(const Operand& x, const ir::Mesh& mesh, const ir::Sharding& layout, const std::string& what) {
  return recorded([&](const Site& site) {
    nabla::Tensor t = tensor_of(x, site);
    Frame::current()->context->need_mesh(mesh, what, site);
    if (Status fits = ir::check_sharding(mesh, layout, t.type(), what); !fits.ok()) fail_at(fits.errors()[0], site);
    return given_back(nabla::shard(t, spec_of(layout), site));
  });
}

py::object placement_of(const Value& v) {
  PlacementRef p = v.placement();
  if (!p) return py::none();
  return py::make_tuple(std::make_shared<ir::Mesh>(p->mesh), std::make_shared<ir::Sharding>(*p->sharding));
}

// How a tensor that is made like `v` is laid out: as `v` is. Where only propagation tells that of a value that is traced,
// it may still find more axes for both: `v` is not asked, which would settle it; and parts may be padded, since nobody said
// that axes divide the sizes. In a function of one rank there are parts alone, which have no layouts.
py::object placement_like(const Value& v) {
  for (std::shared_ptr<Frame> f = Frame::current(); f; f = f->parent)
    if (!f->manual.empty()) return py::none();
  if (!v.is_traced()) return placement_of(v);
  nabla::Tensor t = v.operand();
  const std::shared_ptr<Frame>& frame = t.frame();
  const ir::Module& module = frame->context->module;
  if (!module.mesh()) return py::none();
  ir::ShardingRef known = frame->builder.function().values[t.id()].sharding;
  for (auto [leaf, value] : frame->reads)
    if (value == t.id()) known = module.state[leaf].sharding;
  ir::ShardingRef found = known ? known : layout_of_value(*frame, t.id());
  if (!found) return py::none();
  ir::Sharding out = *found;
  for (ir::DimSharding& d : out.dims) d.open = d.open || !known;
  out.allow_padding = out.allow_padding || !known;
  return py::make_tuple(std::make_shared<ir::Mesh>(*module.mesh()), std::make_shared<ir::Sharding>(std::move(out)));
}

// The parts of all ranks, by their numbers.
std::vector<Value> shards_of(const Value& v) {
  PlacementRef p = v.placement();
  if (!p) return {v.copied()};
  std::vector<Value> out;
  for (Literal& part : ir::cut(p->mesh, *p->sharding, v.array("shards"))) out.emplace_back(std::move(part));
  return out;
}

std::unique_ptr<Region> region_of(const ir::Mesh& mesh, const std::vector<ir::Sharding>& in,
                                  const Names& axes, const std::vector<Operand>& operands, const std::string& what) {
  auto body = [&](const Site& site) {
    std::vector<nabla::Tensor> tensors = tensors_of(operands, site);
    Frame::current()->context->need_mesh(mesh, "the function", site);
    return std::make_unique<Region>(specs_of(in), axes, std::move(tensors), site, what);
  };
  return naming_op(what, [&] { return pointers_to(operands); }, [&] { return recorded(body); });
}

// What may differ between ranks and must not is said at the call, before somebody looks at the results. What a region in
// another one does is seen with that.
void check_what_differs(const Frame& frame) {
  for (const Frame* f = &frame; f; f = f->parent.get())
    if (!f->manual.empty()) return;
  const ir::Function& f = frame.builder.function();
  const std::vector<ir::ValueId>& results = f.nodes.back().results;
  auto is_given = [&](int id) { return std::find(results.begin(), results.end(), id) == results.end(); };
  ir::Module region = module_of_part(frame.context->module, part_of(f, results, is_given).function);
  if (auto marked = passes::mark_varying(region, frame.builder.ops()); !marked.ok()) throw Error(marked.errors());
}

std::vector<nabla::Tensor> call_region(const Region& r, const TracedFunction& f, const std::vector<ir::Sharding>& out) {
  try {
    std::vector<nabla::Tensor> results = r.call(f, specs_of(out));
    if (!results.empty()) check_what_differs(*Frame::current());
    return results;
  } catch (const Error& e) {  // says the op of regions, where the user has called another function
    Diagnostics said = e.diagnostics();
    const std::string op = "shard_map: ";
    for (Diagnostic& d : said)
      if (d.message.starts_with(op)) d.message = r.what() + ": " + d.message.substr(op.size());
    throw Error(std::move(said));
  }
}

template <class F>
void define_reduction(py::module_& m, const char* name, F f) {
  m.def(name, [f](const Operand& x, const Names& axes) {
    return recorded([&](const Site& site) { return given_back(f(arg_of(x, site), AxisNames(axes))); });
  });
}

void bind_collectives(py::module_& m) {
  define_reduction(m, "psum", &nabla::psum);
  define_reduction(m, "pmean", &nabla::pmean);
  define_reduction(m, "pmax", &nabla::pmax);
  define_reduction(m, "pmin", &nabla::pmin);
  m.def("all_gather", [](const Operand& x, const Names& axes, int64_t dim) {
    return recorded([&](const Site& site) { return given_back(nabla::all_gather(arg_of(x, site), axes, dim)); });
  });
  m.def("psum_scatter", [](const Operand& x, const Names& axes, int64_t dim) {
    return recorded([&](const Site& site) { return given_back(nabla::psum_scatter(arg_of(x, site), axes, dim)); });
  });
  m.def("all_to_all", [](const Operand& x, const Names& axes, int64_t split, int64_t join) {
    return recorded([&](const Site& site) { return given_back(nabla::all_to_all(arg_of(x, site), axes, split, join)); });
  });
  m.def("ppermute", [](const Operand& x, const Names& axes, const std::vector<std::pair<int64_t, int64_t>>& pairs) {
    return recorded([&](const Site& site) { return given_back(nabla::ppermute(arg_of(x, site), axes, pairs)); });
  });
  m.def("axis_index", [](const Names& axes) {
    return recorded([&](const Site& site) { return given_back(nabla::axis_index(axes, site)); });
  });
  m.def("axis_size", [](const Names& axes, const std::string& what) {
    return recorded([&](const Site& site) { return nabla::axis_size(axes, site, what.c_str()); });
  });
}

}  // namespace

OtherMesh of_op(const OtherMesh& e, const std::string& op, const std::vector<const Operand*>& operands) {
  if (e.names_op) return e;
  struct LaidOut {
    std::string what;
    PlacementRef placement;
  };
  std::optional<LaidOut> first, other;
  for (size_t i = 0; i < operands.size() && !other; ++i) {
    if (!py::isinstance<Value>(operands[i]->object)) continue;
    const Value& v = operands[i]->object.cast<const Value&>();
    PlacementRef placement = v.placement();
    if (!placement) continue;
    if (!first)
      first = {fmt::format("operand {}, {},", i, v.type().str()), placement};
    else if (placement->mesh.str() != first->placement->mesh.str())
      other = {fmt::format("operand {}, {},", i, v.type().str()), placement};
  }
  Diagnostic d = e.diagnostics()[0];
  auto layout = [](const LaidOut& x) { return fmt::format("{} over mesh {}", x.placement->sharding->str(), x.placement->mesh.str()); };
  d.message = other ? fmt::format("{}: {} is laid out as {}, and {} as {}", op, first->what, layout(*first), other->what, layout(*other))
                    : fmt::format("{}: {}", op, d.message);
  OtherMesh out(std::move(d));
  out.names_op = true;
  return out;
}

void bind_sharding(py::module_& m) {
  py::class_<ir::Mesh, std::shared_ptr<ir::Mesh>>(m, "Mesh")
      .def(py::init(&mesh_of))
      .def_property_readonly("name", [](const ir::Mesh& mesh) { return mesh.name; })
      .def_property_readonly("axes", [](const ir::Mesh& mesh) {
        std::vector<std::pair<std::string, int64_t>> out;
        for (const ir::MeshAxis& a : mesh.axes) out.emplace_back(a.name, a.size);
        return out;
      });
  py::class_<ir::Sharding, std::shared_ptr<ir::Sharding>>(m, "Layout")
      .def(py::init(&layout_of))
      .def_property_readonly("dims", &dims_of)
      .def_property_readonly("replicated", [](const ir::Sharding& s) { return names_of(s.replicated); })
      .def_readonly("allow_padding", &ir::Sharding::allow_padding)
      .def("__repr__", &ir::Sharding::str);
  py::class_<Region>(m, "Region")
      .def(py::init(&region_of))
      .def("part",
           [](const Region& r, size_t i) { return std::make_pair(r.part(i).dtype, shape_tuple(r.part(i).shape)); })
      .def("enter", &Region::enter)
      .def("call", [](const Region& r, const TracedFunction& f, const std::vector<ir::Sharding>& out) {
        return recorded([&](const Site&) { return given_back(call_region(r, f, out)); });
      });
  m.def("multiples_for", [](const Size& size, int64_t parts) { return ir::multiples_for(size.dim, parts); });
  m.def("shard", &shard);
  m.def("placement", &placement_of);
  m.def("placement_like", &placement_like);
  m.def("shards", &shards_of);
  m.def("unplaced", [](const Value& v) { return v.unplaced(); });
  // Outside of traced functions: what comes now may use tensors of this mesh.
  m.def("enter_mesh", &Eager::enter_mesh);
  m.def("leave_mesh", &Eager::leave_mesh);
  bind_collectives(m);
}

}  // namespace nabla::python
