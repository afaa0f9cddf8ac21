#include "passes/shard/free_values.h"

#include "ir/typed.h"
#include "passes/shard/parts.h"

namespace nabla::passes {

using ir::Axes;
using ir::Factors;
using ir::Node;
using ir::Val;
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

FreeValues::FreeValues(const ir::Function& f, const ir::Mesh& mesh, const RankSymbols& rank, ir::FunctionBuilder& b,
                       std::function<Val(ValueId, const Layout&)> laid_out)
    : f_(f), mesh_(mesh), rank_(rank), b_(b), laid_out_(std::move(laid_out)), free_(made_of_scalars(f)), makers_(ir::producers(f)) {}

std::optional<Val> FreeValues::part(ValueId id, const Layout& to) {
  for (const Part& part : made_[id])
    if (part.layout == to) return part.value;
  const Node& n = f_.nodes[static_cast<size_t>(makers_[id])];
  std::optional<Val> made = n.op->lower == ir::Lowering::kConstant ? constant(n, to) : split(n, to);
  if (made) made_[id].push_back({*made, to});
  return made;
}

std::optional<Val> FreeValues::constant(const Node& n, const Layout& to) {
  std::vector<int64_t> shape = local_type(mesh_, f_.type(n.results[0]), to).extents();
  std::optional<Literal> part = uniform(n.attrs.get_literal("value"), shape);
  return part ? std::optional(b_.constant(*part)) : std::nullopt;
}

std::optional<Val> FreeValues::split(const Node& n, const Layout& to) {
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
  std::vector<Val> operands;
  for (size_t i = 0; i < n.operands.size(); ++i) operands.push_back(laid_out_(n.operands[i], layouts[i]));
  return b_.op(n.op->name, operands, attrs);
}

}  // namespace nabla::passes
