#include "passes/shard/free_values.h"

#include "ir/typed.h"
#include "passes/shard/parts.h"

namespace nabla::passes {

using ir::Axes;
using ir::Factors;
using ir::Node;
using ir::ValueId;

ir::Shard shard_along(const ir::Mesh& mesh, const RankSymbols& rank, const ir::TypedOp& op, const Factors& factors,
                      const std::vector<Axes>& axes) {
  ir::Shard out{op, factors, {}, {}};
  for (size_t f = 0; f < factors.factors.size(); ++f) {
    out.sizes.push_back(ir::Dim::floordiv(factors.factors[f].size, shards(mesh, axes[f])));
    out.begins.push_back(rank.coordinate(axes[f]) * out.sizes[f]);
  }
  return out;
}

Layout layout_along(const ir::Mesh& mesh, const Factors::Tensor& dims, const Factors& factors, const std::vector<Axes>& axes) {
  Layout out;
  for (const std::vector<int>& dim : dims) out.dims.push_back(axes_of_dim(mesh, dim, factors, axes));
  return out;
}

FreeValues::FreeValues(const ir::Function& f, const ir::Mesh& mesh, const RankSymbols& rank,
                       std::function<Slot(LocalValue)> add, std::function<Slot(ValueId, const Layout&)> bring)
    : f_(f),
      mesh_(mesh),
      rank_(rank),
      add_(std::move(add)),
      bring_(std::move(bring)),
      free_(made_of_scalars(f)),
      makers_(ir::producers(f)) {}

std::optional<Slot> FreeValues::shard(ValueId id, const Layout& to) {
  for (const Made& made : made_[id])
    if (made.layout == to) return made.slot;
  const Node& n = f_.nodes[static_cast<size_t>(makers_[id])];
  std::optional<Slot> made = n.op->lower == ir::Lowering::kConstant ? constant(n, to) : split(n, to);
  if (made) made_[id].push_back({*made, to});
  return made;
}

std::optional<Slot> FreeValues::constant(const Node& n, const Layout& to) {
  std::vector<int64_t> shape = local_type(mesh_, f_.type(n.results[0]), to).extents();
  std::optional<Literal> value = uniform(n.attrs.get_literal("value"), shape);
  return value ? std::optional(add_(LocalConstant{std::move(*value)})) : std::nullopt;
}

std::optional<Slot> FreeValues::split(const Node& n, const Layout& to) {
  if (!n.op->factors.exists() || n.results.size() != 1) return std::nullopt;
  ir::TypedOp op = ir::typed(f_, n);
  Factors factors = n.op->factors(op);
  std::vector<Axes> axes(factors.factors.size());
  for (size_t d = 0; d < to.dims.size(); ++d) {
    const std::vector<int>& dim = factors.results[0][d];
    auto of_factors = axes_of_factors(mesh_, to.dims[d], dim, factors);
    if (!of_factors) return std::nullopt;
    for (size_t k = 0; k < dim.size(); ++k) axes[static_cast<size_t>(dim[k])] = (*of_factors)[k];
  }
  if (layout_along(mesh_, factors.results[0], factors, axes).dims != to.dims) return std::nullopt;
  ir::Shard shard = shard_along(mesh_, rank_, op, factors, axes);
  ir::Attrs attrs = shard.attrs();
  if (!gives_types_of(shard, attrs)) return std::nullopt;
  // A part of a result may need parts of an operand that no layout gives: columns of a reshape are no range of positions.
  std::vector<Layout> layouts;
  for (size_t i = 0; i < n.operands.size(); ++i) {
    layouts.push_back(layout_along(mesh_, factors.operands[i], factors, axes));
    ir::Type part = local_type(mesh_, f_.type(n.operands[i]), layouts.back());
    if (!(part == shard.operand(static_cast<int>(i)))) return std::nullopt;
  }
  std::vector<Slot> operands;
  for (size_t i = 0; i < n.operands.size(); ++i) operands.push_back(bring_(n.operands[i], layouts[i]));
  return add_(LocalNode{&n, std::move(attrs), std::move(operands)});
}

}  // namespace nabla::passes
