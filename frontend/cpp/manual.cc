#include "frontend/cpp/manual.h"

#include <algorithm>
#include <set>

#include "frontend/cpp/array.h"
#include "frontend/cpp/emit.h"
#include "frontend/cpp/frame.h"
#include "frontend/cpp/ops.h"
#include "ir/verifier.h"

namespace nabla {
namespace {

const ir::Mesh& mesh_of(const char* what, const Site& site) {
  std::shared_ptr<Frame> frame = Frame::current();
  if (!frame) throw error_at(site, Code::kMisuse, "{} is called outside of a traced function", what);
  if (const ir::Mesh* mesh = frame->context->module.mesh()) return *mesh;
  throw error_at(site, Code::kBadSharding, "{}: the program has no mesh, so that there are no ranks", what);
}

// The axes for which the function being traced is written, those of enclosing regions too.
std::vector<std::string> manual_axes() {
  std::vector<std::string> out;
  for (std::shared_ptr<Frame> f = Frame::current(); f; f = f->parent)
    out.insert(out.end(), f->manual.begin(), f->manual.end());
  return out;
}

bool contains(const std::vector<std::string>& list, const std::string& name) {
  return std::find(list.begin(), list.end(), name) != list.end();
}

std::string text(const std::vector<std::string>& names) {
  std::string out;
  for (const std::string& n : names) out += (out.empty() ? "" : ", ") + n;
  return "{" + out + "}";
}

// The axes for which the innermost region around is written; none: there is no region.
std::vector<std::string> axes_of_region() {
  for (std::shared_ptr<Frame> f = Frame::current(); f; f = f->parent)
    if (!f->manual.empty()) return f->manual;
  return {};
}

Error with_help(const Error& e, std::string help) {
  Diagnostic d = e.diagnostics()[0];
  d.help = std::move(help);
  return Error(std::move(d));
}

// A collective where no region is written for the ranks along the axis; "": where there is no region.
Error misplaced(const char* what, const std::string& axis, const std::vector<std::string>& manual, const Site& site) {
  std::string collective = axis.empty() ? what : fmt::format("{} along {}", what, axis);
  Error e = manual.empty()
                ? error_at(site, Code::kBadSharding, "{}: the function is not written for the ranks of a mesh", collective)
                : error_at(site, Code::kBadSharding, "{}: the region around it is written for the ranks along {} alone",
                           collective, text(manual));
  return with_help(e, manual.empty() ? "use it in the function of a shard_map; elsewhere what ranks exchange follows from layouts"
                                     : fmt::format("add {} to the axes of the shard_map", axis));
}

// Attributes of a collective along these axes.
ir::Attrs group(const char* what, const AxisNames& axes, const Site& site) {
  const ir::Mesh& mesh = mesh_of(what, site);
  std::vector<std::string> manual = manual_axes(), names = axes.region ? axes_of_region() : axes.list;
  if (axes.region && names.empty()) throw misplaced(what, "", manual, site);
  ir::Axes list;
  for (const std::string& name : names) list.push_back({name});
  if (Status known = ir::check_axes(mesh, list, what); !known.ok())
    throw with_help(error_at(site, Code::kBadSharding, "{}", known.errors()[0].message),
                    manual.empty() ? fmt::format("the axes of mesh {} are {}", mesh.name, text(mesh.axis_names()))
                                   : fmt::format("the region around it is written for the ranks along {}", text(manual)));
  for (const std::string& name : names)
    if (!contains(manual, name)) throw misplaced(what, name, manual, site);
  return {{"axes", list}, {"shards", shards(mesh, list)}};
}

Tensor exchange(const char* what, const char* op, const Arg& x, const AxisNames& axes, const ir::Attrs& more) {
  ir::Attrs attrs = group(what, axes, x.site());
  for (const auto& [name, value] : more) attrs.set(name, value);
  return emit(op, {x}, std::move(attrs), x.site())[0];
}

Tensor reduced_over(const char* what, const Arg& x, const AxisNames& axes, const char* combiner) {
  return exchange(what, "all_reduce", x, axes, {{"combiner", std::string(combiner)}});
}

void check_reduce_op(const char* what, const std::string& reduce_op, const std::vector<std::string>& known, const Site& site) {
  if (contains(known, reduce_op)) return;
  Error e = error_at(site, Code::kBadAttribute, "{}: reduce_op is one of {}, got \"{}\"", what, text(known), reduce_op);
  throw with_help(e, mesh_of(what, site).size_of(reduce_op) > 0 ? fmt::format("{} is an axis of the mesh: axes come last", reduce_op)
                     : known.size() == 1 ? "all_reduce has other combinations, of which ranks can take their parts"
                                         : "reduce over gathered values (all_gather) for any other combination");
}

// As Python's ppermute says it.
void check_pairs(const Arg& x, const std::vector<std::pair<int64_t, int64_t>>& pairs, const ir::Attrs& group) {
  const int64_t places = group.get_int("shards");
  std::string all;
  for (const auto& [from, to] : pairs) all += fmt::format("{}({}, {})", all.empty() ? "" : ", ", from, to);
  auto refuse = [&](const std::string& what, const char* help) {
    Diagnostic d = error_at(x.site(), Code::kBadAttribute, "ppermute of {} along {}: {}, in {{{}}}",
                            x.is_tensor() ? x.tensor().type().str() : "a number", ir::str(group.get_axes("axes")), what, all)
                       .diagnostics()[0];
    d.help = help;
    throw Error(std::move(d));
  };
  for (bool gets : {false, true}) {
    std::set<int64_t> seen;
    for (const auto& [from, to] : pairs) {
      int64_t place = gets ? to : from;
      if (place < 0 || place >= places)
        refuse(fmt::format("{} is no place, where there are 0 to {}", place, places - 1), "a pair is (place that sends, place that gets)");
      if (!seen.insert(place).second)
        refuse(fmt::format("place {} {} twice", place, gets ? "gets" : "sends"),
               "each sends and gets at most once: what goes to several is distributed_broadcast");
    }
  }
}

// E0207 or E0210 where the ranks do not divide a dimension.
ir::Type part_type(const ir::Mesh& mesh, const ir::Sharding& s, const Tensor& x, const std::string& argument, const Site& site) {
  ir::Type type = x.type();
  std::string name = name_of(x).empty() ? "" : " %" + name_of(x);
  Status fits = ir::check_sharding(mesh, s, type, argument + name);
  if (!fits.ok()) {
    Diagnostic d = fits.errors()[0];
    d.location = locate(site, "");
    // Of parts that ranks see as they are there is no padding.
    if (d.help.starts_with("say allow_padding"))
      d.help = "a function of one rank gets parts of one size: pad the array, or cut another dimension";
    throw Error(std::move(d));
  }
  for (int i = 0; i < type.rank(); ++i) type.shape[i] = ir::Dim::floordiv(type.shape[i], shards(mesh, s.dims[i].axes));
  return type;
}

void check_specs(const std::string& what, const std::vector<P>& specs, size_t tensors, const char* name, const char* of, const Site& site) {
  if (specs.size() == tensors) return;
  throw error_at(site, Code::kBadSharding, "{}: {} has {} layouts, {} {} tensors", what, name, specs.size(), of,
                 tensors);
}

}  // namespace

Region::Region(std::vector<P> in, std::vector<std::string> axes, std::vector<Tensor> operands, Site site, std::string what)
    : operands_(std::move(operands)), site_(site), what_(std::move(what)) {
  const ir::Mesh& mesh = mesh_of(what_.c_str(), site);
  std::vector<std::string> taken = manual_axes();
  if (axes.empty())
    for (const std::string& name : mesh.axis_names())
      if (!contains(taken, name)) axes.push_back(name);
  for (const std::string& name : axes) {
    axes_.push_back({name});
    sizes_.push_back(mesh.size_of(name));
    if (contains(taken, name))
      throw with_help(error_at(site, Code::kBadSharding,
                               "{}: it is inside of a region that is written for the ranks along {} already", what_, name),
                      "a region in another one is for other axes: say those of both, in Python by axis_names= of shard_map");
  }
  if (Status known = ir::check_axes(mesh, axes_, what_); !known.ok())
    throw error_at(site, Code::kBadSharding, "{}", known.errors()[0].message);
  check_specs(what_, in, operands_.size(), "in_specs", "its arguments have", site);
  for (size_t i = 0; i < in.size(); ++i) {
    in_.push_back(in[i].sharding);
    parts_.push_back(part_type(mesh, in_[i], operands_[i], fmt::format("{}: argument {}", what_, i), site));
  }
}

void Region::enter() const {
  for (const ir::AxisRef& a : axes_) Frame::current()->manual.push_back(a.name);
  for (size_t i = 0; i < operands_.size(); ++i)
    if (parts_[i] != operands_[i].type())
      Frame::current()->parts.push_back(fmt::format("argument {} of {} is the part {} of {}, laid out as {}", i, what_, parts_[i].str(),
                                                    operands_[i].type().str(), in_[i].str()));
}

std::vector<Tensor> Region::call(const TracedFunction& f, const std::vector<P>& out) const {
  check_specs(what_, out, f.function->results.size(), "out_specs", "its result has", site_);
  AtSite at(site_);
  std::vector<Arg> operands;
  ir::Shardings in = in_, outer;
  for (const P& p : out) outer.push_back(p.sharding);
  for (const Tensor& t : operands_) operands.emplace_back(t, site_);
  for (const Tensor& t : f.captures) {
    operands.emplace_back(t, site_);
    in.push_back({std::vector<ir::DimSharding>(static_cast<size_t>(t.rank())), {}});
  }
  return emit(
      "shard_map", operands,
      {{"body", ir::FunctionRef{f.function->name}}, {"axes", axes_}, {"sizes", sizes_}, {"in", in}, {"out", outer}},
      site_);
}

Tensor psum(const Arg& x, const AxisNames& axes) { return reduced_over("psum", x, axes, "sum"); }
Tensor pmean(const Arg& x, const AxisNames& axes) { return reduced_over("pmean", x, axes, "mean"); }
Tensor pmax(const Arg& x, const AxisNames& axes) { return reduced_over("pmax", x, axes, "max"); }
Tensor pmin(const Arg& x, const AxisNames& axes) { return reduced_over("pmin", x, axes, "min"); }

Tensor all_reduce(const Arg& x, const std::string& reduce_op, const AxisNames& reduce_axes) {
  check_reduce_op("all_reduce", reduce_op, {"sum", "max", "min", "mean", "prod"}, x.site());
  if (reduce_op != "prod") return reduced_over("all_reduce", x, reduce_axes, reduce_op.c_str());
  // A product has no derivative as one collective: the ranks' values are gathered.
  ir::Attrs attrs = group("all_reduce", reduce_axes, x.site());
  attrs.set("dim", int64_t{0});
  AtSite at(x);
  return prod(emit("all_gather", {unsqueeze(x, 0)}, std::move(attrs), x.site())[0], {0});
}

Tensor all_gather(const Arg& x, const AxisNames& axes, int64_t dim) {
  return exchange("all_gather", "all_gather", x, axes, {{"dim", counted_from_end(dim, x)}});
}

Tensor all_gather(const Arg& x, int64_t dim) { return all_gather(x, AxisNames::of_region(), dim); }

Tensor gather_all_axes(const Arg& x) {
  if (!manual_axes().empty()) return exchange("gather_all_axes", "all_gather", x, AxisNames::of_region(), {{"dim", int64_t{0}}});
  P whole;
  whole.sharding.dims.resize(x.is_tensor() ? static_cast<size_t>(x.tensor().rank()) : 0);
  return shard(x, whole, x.site());
}

Tensor psum_scatter(const Arg& x, const AxisNames& axes, int64_t dim) {
  return exchange("psum_scatter", "reduce_scatter", x, axes, {{"dim", counted_from_end(dim, x)}});
}

Tensor reduce_scatter(const Arg& x, int64_t axis, const std::string& reduce_op, const AxisNames& axis_name) {
  check_reduce_op("reduce_scatter", reduce_op, {"sum"}, x.site());
  return exchange("reduce_scatter", "reduce_scatter", x, axis_name, {{"dim", counted_from_end(axis, x)}});
}

Tensor all_to_all(const Arg& x, int64_t split, int64_t join) { return all_to_all(x, AxisNames::of_region(), split, join); }

Tensor all_to_all(const Arg& x, const AxisNames& axes, int64_t split, int64_t join) {
  return exchange("all_to_all", "all_to_all", x, axes,
                  {{"split", counted_from_end(split, x)}, {"join", counted_from_end(join, x)}});
}

Tensor ppermute(const Arg& x, const AxisNames& axes, const std::vector<std::pair<int64_t, int64_t>>& pairs) {
  ir::Attrs attrs = group("ppermute", axes, x.site());
  check_pairs(x, pairs, attrs);
  Ints list;
  for (const auto& [from, to] : pairs) list.insert(list.end(), {from, to});
  attrs.set("pairs", std::move(list));
  return emit("permute", {x}, std::move(attrs), x.site())[0];
}

Tensor ppermute(const Arg& x, const std::vector<std::pair<int64_t, int64_t>>& pairs) {
  return ppermute(x, AxisNames::of_region(), pairs);
}

Tensor distributed_broadcast(const Arg& x, int64_t root) {
  const char* what = "distributed_broadcast";
  ir::Attrs attrs = group(what, AxisNames::of_region(), x.site());
  int64_t ranks = attrs.get_int("shards");
  if (root < 0 || root >= ranks)
    throw error_at(x.site(), Code::kBadAttribute, "{}: root is a rank, 0 to {}, got {}", what, ranks - 1, root);
  AtSite at(x);
  if (x.is_tensor() && x.tensor().dtype() == DType::kBool)
    return convert(distributed_broadcast({convert(x, i32), x.site()}, root), DType::kBool);
  // Its share of a sum of which the others have zero.
  Tensor here = emit("axis_index", {}, std::move(attrs), x.site())[0] == root;
  return reduced_over(what, {select(here, x, zeros_like(x)), x.site()}, AxisNames::of_region(), "sum");
}

Tensor axis_index(const AxisNames& axes, Site site) {
  return emit("axis_index", {}, group("axis_index", axes, site), site)[0];
}

int64_t axis_size(const AxisNames& axes, Site site, const char* what) { return group(what, axes, site).get_int("shards"); }

void check_places(const Layouts& layouts, size_t count, const char* what, const Site& site) {
  for (const auto& [place, layout] : layouts)
    if (place >= count) throw error_at(site, Code::kBadSharding, "shard_map: {} {}, and there are {}", what, place, count);
}

}  // namespace nabla
