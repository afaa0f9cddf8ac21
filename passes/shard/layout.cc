#include "passes/shard/layout.h"

#include <algorithm>

#include "ir/typed.h"

namespace nabla::passes {

using ir::Axes;
using ir::Factors;
using ir::Mesh;

Layout layout_of(const ir::ShardingRef& sharding, int rank) {
  Layout out{std::vector<Axes>(static_cast<size_t>(rank)), {}};
  for (size_t d = 0; sharding && d < sharding->dims.size(); ++d) out.dims[d] = sharding->dims[d].axes;
  return out;
}

ir::ShardingRef sharding_of(const Layout& layout, const Mesh& mesh, const ir::Type& type) {
  ir::Sharding out;
  bool any = false;
  for (size_t d = 0; d < layout.dims.size(); ++d) {
    const Axes& axes = layout.dims[d];
    out.dims.push_back({axes, axes.empty()});
    any |= !axes.empty();
    out.allow_padding |= !axes.empty() && !divides(mesh, axes, type.shape[d]);
  }
  return any ? std::make_shared<const ir::Sharding>(std::move(out)) : nullptr;
}

ir::Type local_type(const Mesh& mesh, const ir::Type& type, const Layout& layout) {
  ir::Type out = type;
  for (size_t d = 0; d < out.shape.size(); ++d)
    out.shape[d] = ir::Dim::ceildiv(out.shape[d], shards(mesh, layout.dims[d]));
  return out;
}

ir::Sharding whole_sharding(int rank) { return {std::vector<ir::DimSharding>(static_cast<size_t>(rank)), {}}; }
ir::Sharding open_sharding(int rank) { return {std::vector<ir::DimSharding>(static_cast<size_t>(rank), {{}, true}), {}}; }

bool is_temporal(const Mesh& mesh, const Axes& axes) {
  const ir::MeshAxis* temporal = mesh.temporal();
  return temporal && std::any_of(axes.begin(), axes.end(), [&](const ir::AxisRef& a) { return a.name == temporal->name; });
}

bool overlap(const Mesh& mesh, const Axes& a, const Axes& b) {
  Axes both = a;
  both.insert(both.end(), b.begin(), b.end());
  return !check_axes(mesh, both, "").ok();
}

bool names(const Axes& axes, const std::string& axis) {
  return std::any_of(axes.begin(), axes.end(), [&](const ir::AxisRef& a) { return a.name == axis; });
}

Axes without(Axes axes, const Axes& taken) {
  std::erase_if(axes, [&](const ir::AxisRef& a) { return std::find(taken.begin(), taken.end(), a) != taken.end(); });
  return axes;
}

bool is_prefix(const Axes& part, const Axes& whole) {
  return part.size() <= whole.size() && std::equal(part.begin(), part.end(), whole.begin());
}

bool divides(const Mesh& mesh, const Axes& axes, const ir::Dim& extent) {
  return ir::Dim::mod(extent, shards(mesh, axes)).is(0);
}

bool has_granules(const ir::Dim& extent) { return ir::Dim::mod(extent, kGranules).is(0); }

Axes joined(const Mesh& mesh, const Axes& axes) {
  Axes out;
  for (const ir::AxisRef& a : axes) {
    ir::AxisRef* last = out.empty() ? nullptr : &out.back();
    if (!last || last->name != a.name || last->size == 0 || last->before * last->size != a.before) {
      out.push_back(a);
      continue;
    }
    last->size *= a.size;
    if (last->before == 1 && last->size == mesh.size_of(a.name)) last->size = 0;
  }
  return out;
}

std::optional<std::vector<Axes>> axes_of_factors(const Mesh& mesh, const Axes& axes, const std::vector<int>& dim,
                                                 const Factors& factors) {
  std::vector<Axes> out(dim.size());
  std::vector<ir::AxisRef> left(axes.rbegin(), axes.rend());  // the next one last
  for (size_t k = 0; k < dim.size() && !left.empty(); ++k) {
    const ir::Dim& size = factors.factors[dim[k]].size;
    while (!left.empty()) {
      Axes more = out[k];
      more.push_back(left.back());
      if (divides(mesh, more, size)) {
        out[k] = std::move(more);
        left.pop_back();
        continue;
      }
      // Room for a part of the axis: the rest of it goes to the next factor.
      int64_t room = size.is_static() && size.value() > 0 ? size.value() / shards(mesh, out[k]) : 1;
      int64_t whole = shards(mesh, {left.back()});
      if (room > 1 && whole % room == 0 && k + 1 < dim.size()) {
        ir::AxisRef axis = left.back();
        out[k].push_back({axis.name, axis.before, room});
        left.back() = {axis.name, axis.before * room, whole / room};
      }
      break;
    }
    // A minor factor is split only where every part has one of the major one.
    if (!left.empty() && !(ir::Dim(shards(mesh, out[k])) == size)) return std::nullopt;
  }
  return left.empty() ? std::optional(out) : std::nullopt;
}

void drop_strided(const Mesh& mesh, const Factors& factors, std::vector<Axes>& of_factor) {
  for (bool changed = true; changed;) {
    changed = false;
    for (const auto* tensors : {&factors.operands, &factors.results})
      for (const Factors::Tensor& dims : *tensors)
        for (const std::vector<int>& dim : dims) {
          bool whole = true;
          for (int f : dim) {
            if (!whole && !of_factor[f].empty()) of_factor[f].clear(), changed = true;
            whole &= ir::Dim(shards(mesh, of_factor[f])) == factors.factors[f].size;
          }
        }
  }
}

Axes axes_of_dim(const Mesh& mesh, const std::vector<int>& dim, const Factors& factors,
                 const std::vector<Axes>& of_factor) {
  Axes out;
  for (int f : dim) {
    out.insert(out.end(), of_factor[f].begin(), of_factor[f].end());
    if (!(ir::Dim(shards(mesh, of_factor[f])) == factors.factors[f].size)) break;
  }
  return joined(mesh, out);
}

bool can_split(const Factors::Factor& factor) {
  return factor.kind == Factors::Kind::kPass ||
         (factor.kind == Factors::Kind::kReduce && factor.combiner != kernel_ir::Combiner::kNone);
}

bool has_factor(const Factors::Tensor& dims, int factor) {
  return std::any_of(dims.begin(), dims.end(), [&](const auto& d) { return std::find(d.begin(), d.end(), factor) != d.end(); });
}

bool gives_types_of(const ir::Shard& part, const ir::Attrs& attrs, const ir::Module* functions) {
  std::vector<ir::Type> operands;
  for (size_t i = 0; i < part.op.operands.size(); ++i) operands.push_back(part.operand(static_cast<int>(i)));
  auto find = [&](std::string_view name) { return functions ? functions->find(name) : nullptr; };
  Result<std::vector<ir::Type>> types = ir::infer_types(part.op.op, operands, attrs, find);
  for (size_t r = 0; types.ok() && r < part.op.results.size(); ++r)
    if (!((*types)[r] == part.result(static_cast<int>(r)))) return false;
  return types.ok();
}

bool is_product(const ir::Node& node) {
  return node.op->lower == ir::Lowering::kContraction || node.op->lower == ir::Lowering::kConvolution || node.op->traits.products;
}

std::vector<char> made_of_scalars(const ir::Function& f) {
  std::vector<char> out(f.values.size(), false);
  auto of_scalars = [&](const ir::Node& n) {
    if (n.op->traits.side_effect || n.op->lower == ir::Lowering::kControl || n.op->manual) return false;
    bool scalars = std::all_of(n.operands.begin(), n.operands.end(),
                               [&](ir::ValueId id) { return f.type(id).rank() == 0 || out[static_cast<size_t>(id)]; });
    if (n.operands.empty() || !scalars) return scalars;
    if (!n.op->factors.exists() || n.op->layout_role == ir::LayoutRole::kShard || is_product(n)) return false;
    const ir::Factors factors = n.op->factors(ir::typed(f, n));
    return std::all_of(factors.factors.begin(), factors.factors.end(),
                       [](const ir::Factors::Factor& k) { return k.kind == ir::Factors::Kind::kPass; });
  };
  for (const ir::Node& n : f.nodes)
    for (ir::ValueId id : n.results) out[static_cast<size_t>(id)] = of_scalars(n);
  return out;
}

}  // namespace nabla::passes
