#include "passes/shard/rules/split.h"

#include <algorithm>

namespace nabla::passes {

using ir::Axes;
using ir::Dim;
using ir::Factors;
using ir::Ints;
using ir::Shape;
using ir::Val;

Split::Split(const RuleContext& c, const Axes& taken) : c_(c), axes_(c.axes) {
  for (Axes& axes : axes_)
    if (overlap(c.mesh, axes, taken)) axes.clear();
}

Layout Split::layout(const Factors::Tensor& tensor) const {
  Layout out;
  for (const std::vector<int>& dim : tensor) out.dims.push_back(axes_of_dim(c_.mesh, dim, c_.factors, axes_));
  return out;
}

Layout Split::result(size_t r) const {
  const Factors::Tensor& tensor = c_.factors.results[r];
  Layout out = layout(tensor);
  for (size_t f = 0; f < axes_.size(); ++f) {
    bool kept = has_factor(tensor, static_cast<int>(f));
    if (c_.factors.factors[f].kind == Factors::Kind::kReduce && !kept)
      out.pending.insert(out.pending.end(), axes_[f].begin(), axes_[f].end());
  }
  return out;
}

ir::Shard Split::shard() const {
  ir::Shard out{c_.op, c_.factors, {}, {}};
  for (size_t f = 0; f < axes_.size(); ++f) {
    out.sizes.push_back(Dim::floordiv(c_.factors.factors[f].size, shards(c_.mesh, axes_[f])));
    out.begins.push_back(c_.rank.coordinate(axes_[f]) * out.sizes[f]);
  }
  return out;
}

ir::Attrs Split::attrs() const { return shard().attrs(); }

bool Split::fits() const {
  for (size_t f = 0; f < axes_.size(); ++f) {
    const Factors::Factor& factor = c_.factors.factors[f];
    bool sum = factor.kind != Factors::Kind::kReduce || factor.combiner == kernel_ir::Combiner::kSum;
    if (!axes_[f].empty() && !sum) return false;
  }
  return gives_types_of(shard(), attrs());
}

Axes kept_pending(const RuleContext& c, const std::vector<size_t>& operands, const std::vector<Layout>& layouts) {
  const Axes& pending = c.layout(operands[0]).pending;
  for (size_t i : operands) {
    if (!(c.layout(i).pending == pending)) return {};
    for (const Axes& axes : c.layout(i).dims)
      if (overlap(c.mesh, axes, pending)) return {};
  }
  for (const Layout& layout : layouts)
    for (const Axes& axes : layout.dims)
      if (overlap(c.mesh, axes, pending)) return {};
  return pending;
}

Val brought(const RuleContext& c, size_t operand, const Layout& to) {
  if (to.pending.empty()) return c.part(operand, to);
  return c.share(reshard(c.mesh, c.rank, {c.value(operand), {c.layout(operand).dims, {}}}, {to.dims, {}}));
}

bool is_zero(const RuleContext& c, size_t operand) {
  ir::ValueId id = c.n.operands[operand];
  for (const ir::Node& n : c.f.nodes)
    if (n.results.size() == 1 && n.results[0] == id && n.op->lower == ir::Lowering::kConstant) {
      const Literal& value = n.attrs.get_literal("value");
      const auto* bytes = static_cast<const char*>(value.data());
      return std::all_of(bytes, bytes + value.size_bytes(), [](char byte) { return byte == 0; });
    }
  return false;
}

double bytes_brought(const RuleContext& c, size_t operand, const Layout& to) {
  Layout from = c.layout(operand);
  if (!to.pending.empty()) from.pending.clear();
  return reshard_bytes(c.mesh, c.f.type(c.n.operands[operand]), from, {to.dims, {}});
}
double bytes_returned(const RuleContext& c, size_t result, const Layout& made) {
  return reshard_bytes(c.mesh, c.f.type(c.n.results[result]), made, c.wanted(result));
}
double bytes_of_part(const RuleContext& c, const ir::Type& type, const Layout& layout) {
  return static_cast<double>(local_type(c.mesh, type, layout).bytes().bounds().max);
}

ir::Attrs group_attrs(const ir::Mesh& mesh, const Axes& axes) {
  return {{"axes", axes}, {"shards", shards(mesh, axes)}};
}
Val all_gather(const RuleContext& c, Val value, const Axes& axes, int64_t dim) {
  ir::Attrs attrs = group_attrs(c.mesh, axes);
  attrs.set("dim", dim);
  return c.b.op("all_gather", {value}, attrs);
}

Val scalar(ir::FunctionBuilder& b, const Dim& value) {
  if (value.is_static()) return b.fill(DType::kI64, {}, static_cast<double>(value.value()));
  int64_t least = std::min<int64_t>(value.bounds().min, 0);
  Dim offset = value - Dim(least);
  ir::Attrs attrs{{"shape", Shape{1}},
                  {"axis", int64_t{0}},
                  {"dtype", DType::kI64},
                  {"offset", Shape{offset}},
                  {"whole", Shape{offset.bounds().max + 1}}};
  Val out = ir::reshape(b.op("iota", {}, attrs), {});
  return least == 0 ? out : out + b.fill(DType::kI64, {}, static_cast<double>(least));
}
Val spread(Val scalar, const Shape& shape) { return ir::broadcast_in_dim(scalar, shape, {}); }

Val positions_along(ir::FunctionBuilder& b, const Shape& shape, int64_t dim, const Dim& first) {
  Val at = b.op("iota", {}, {{"shape", shape}, {"axis", dim}, {"dtype", DType::kI64}});
  return first.is(0) ? at : at + spread(scalar(b, first), shape);
}

Val section(Val x, int64_t dim, const Dim& first, const Dim& size) {
  if (first.is(0) && size == x.shape()[dim]) return x;
  return x.b->op("section", {x}, {{"axis", dim}, {"range", Shape{first, size}}});
}

Dim clamped(const Dim& d, int64_t low, int64_t high) {
  ir::Interval bounds = d.bounds();
  if (bounds.min >= low && bounds.max <= high) return d;
  return Dim::min(Dim::max(d, low), high);
}

Val taken_along(Val x, Val positions, int64_t axis) {
  Ints others = ir::iota_ints(x.rank());
  others.erase(others.begin() + axis);
  return x.b->op("gather", {x, positions},
                 {{"offset_dims", Ints{}},
                  {"collapsed_slice_dims", Ints{axis}},
                  {"operand_batching_dims", others},
                  {"start_indices_batching_dims", others},
                  {"start_index_map", Ints{axis}},
                  {"index_vector_dim", int64_t{x.rank()}},
                  {"slice_sizes", Ints(static_cast<size_t>(x.rank()), 1)}});
}

Ints count_from(int64_t first, int64_t count) {
  Ints out;
  for (int64_t i = 0; i < count; ++i) out.push_back(first + i);
  return out;
}

}  // namespace nabla::passes
