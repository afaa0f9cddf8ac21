#include "frontend/cpp/transforms.h"

#include "frontend/cpp/convenience.h"
#include "frontend/cpp/emit.h"
#include "frontend/cpp/frame.h"
#include "frontend/cpp/ops.h"

namespace nabla {
namespace {

void check_spmd_axis(const std::string& axis, const Site& site) {
  std::shared_ptr<Frame> frame = Frame::current();
  const ir::Mesh* mesh = frame ? frame->context->module.mesh() : nullptr;
  if (!mesh) {
    Error e = error_at(site, Code::kBadSharding, "vmap: spmd_axis_name is \"{}\", and the program has no mesh", axis);
    Diagnostic d = e.diagnostics()[0];
    d.help = "give one: in Python mesh= of vmap, or tensors that are laid out over it, in C++ that of the program";
    throw Error(std::move(d));
  }
  if (Status known = ir::check_axes(*mesh, {{axis}}, "vmap: spmd_axis_name"); !known.ok())
    throw error_at(site, Code::kBadSharding, "{}", known.errors()[0].message);
}

}  // namespace

Mapped::Mapped(const VmapOptions& options, std::vector<Tensor> operands, const std::vector<size_t>& leaves, Site site)
    : options_(options), operands_(std::move(operands)), site_(site) {
  const std::vector<Axis>& axes = options.in_axes;
  if (axes.size() != 1 && axes.size() != leaves.size())
    throw error_at(site, Code::kBadAttribute, "vmap: in_axes has {} entries, the function has {} arguments",
                   axes.size(), leaves.size());
  if (const std::string& axis = options.spmd_axis_name; !axis.empty()) check_spmd_axis(axis, site);
  size_t operand = 0;
  for (size_t argument = 0; argument < leaves.size(); ++argument)
    for (size_t leaf = 0; leaf < leaves[argument]; ++leaf, ++operand) {
      ir::Type type = operands_[operand].type();
      Axis axis = axes[axes.size() == 1 ? 0 : argument];
      int at = axis ? (*axis < 0 ? *axis + type.rank() : *axis) : -1;
      if (axis && (at < 0 || at >= type.rank()))
        throw error_at(site, Code::kBadAttribute, "vmap: in_axes maps dimension {} of argument {}, which is {}", *axis,
                       argument, type.str());
      if (axis) type.shape.erase(type.shape.begin() + at);
      in_axes_.push_back(at);
      examples_.push_back(std::move(type));
    }
}

std::vector<Tensor> Mapped::call(const TracedFunction& f) const {
  const std::vector<Axis>& axes = options_.out_axes;
  std::vector<ir::Type> results = f.function->types(f.function->results);
  if (axes.size() != 1 && axes.size() != results.size())
    throw error_at(site_, Code::kBadAttribute, "vmap: out_axes has {} entries, the result has {} tensors", axes.size(),
                   results.size());
  Ints in_axes = in_axes_, out_axes;
  in_axes.resize(in_axes.size() + f.captures.size(), -1);
  for (size_t r = 0; r < results.size(); ++r) {
    Axis axis = axes[axes.size() == 1 ? 0 : r];
    int at = axis ? (*axis < 0 ? *axis + results[r].rank() + 1 : *axis) : -1;
    if (axis && (at < 0 || at > results[r].rank()))
      throw error_at(site_, Code::kBadAttribute, "vmap: out_axes puts the batch of a result {} at dimension {}",
                     results[r].str(), *axis);
    out_axes.push_back(at);
  }
  ir::Attrs attrs{{"in_axes", in_axes}, {"out_axes", out_axes}, {"spmd_axis_name", options_.spmd_axis_name}};
  if (options_.axis_size) attrs.set("size", Shape{*options_.axis_size});
  return emit_transform("vmap", f, operands_, std::move(attrs), site_);
}

Tensor unit_vectors(const Tensor& x) {
  ir::Dim n = x.type().count();
  Shape shape = x.shape();
  shape.insert(shape.begin(), n);
  Tensor unit = convert(iota({n, n}, 0) == iota({n, n}, 1), x.dtype());
  return reshape(unit, shape);
}

Tensor unflattened(const Tensor& x, int from, const Shape& shape) {
  Shape out = x.shape();
  out.erase(out.begin() + from);
  out.insert(out.begin() + from, shape.begin(), shape.end());
  return reshape(x, out);
}

}  // namespace nabla
