#include "passes/shard/lower_collectives.h"

#include <algorithm>

#include "ir/builder.h"
#include "ir/sharding.h"
#include "passes/rewrite.h"
#include "passes/shard/parts.h"
#include "passes/shard/reshard.h"

namespace nabla::passes {
namespace {

using ir::Dim;
using ir::Ints;
using ir::Node;
using ir::Shape;
using ir::Val;

bool is_collective(const Node& n) { return n.op->lower == ir::Lowering::kCollective; }

/// One function's collectives.
class Lowering {
 public:
  Lowering(const ir::Function& f, const ir::Module& m, const ir::OpTable& ops, const RankSymbols* rank)
      : copy_(f, ops, &m), b_(copy_.builder()), mesh_(m.mesh()), rank_(rank) {
    for (const Node& n : f.nodes) {
      b_.set_location(n.location);
      b_.set_computes(n.computes);
      if (is_collective(n))
        copy_.set(n.results[0], lowered(n));
      else
        copy_.copy(n);
    }
  }
  ir::FunctionPtr finish() { return copy_.finish(); }

 private:
  Val lowered(const Node& n) {
    if (n.operands.empty()) return index(n.attrs.get_axes("axes"));
    Val x = copy_.at(n.operands[0]);
    if (n.op->layout_role == ir::LayoutRole::kVary) return x;
    // A group of one rank has the value already; but permute may leave it without one.
    const CollectiveDef& def = *n.op->collective;
    const int64_t ranks = n.attrs.get_int("shards");
    if (ranks == 1) {
      bool without = def.kind == CollectiveKind::kPermute && n.attrs.get_ints("pairs").empty();
      return without ? b_.fill(x.dtype(), x.shape(), 0) : x;
    }
    switch (def.kind) {
      case CollectiveKind::kAllGather:
        return gather(n, x);
      case CollectiveKind::kReduceScatter:
        return scatter(n, x, ranks);
      case CollectiveKind::kAllToAll:
        return exchange(n, x, ranks);
      case CollectiveKind::kAllReduce:
        return meant(n, b_.op(def.name, {x}, in_mesh_order(without_mean(n.attrs))), ranks);
      default:
        return b_.op(def.name, {x}, n.attrs);
    }
  }

  Val index(const ir::Axes& axes) {
    Dim at = rank_ && !axes.empty() ? rank_->coordinate(axes) : Dim(0);
    ir::Attrs attrs{{"shape", Shape{1}},
                    {"axis", int64_t{0}},
                    {"dtype", DType::kI32},
                    {"offset", Shape{at}},
                    {"whole", Shape{at.bounds().max + 1}}};
    return ir::reshape(b_.op("iota", {}, attrs), {});
  }

  Val gather(const Node& n, Val x) {
    int64_t dim = n.attrs.get_int("dim");
    ir::Attrs first = n.attrs;
    first.set("dim", int64_t{0});
    if (dim == 0) return b_.op("all_gather", {x}, first);
    Shape one = x.shape();
    one.insert(one.begin(), 1);
    return parts_joined(b_.op("all_gather", {ir::reshape(x, one)}, first), dim);
  }

  Val scatter(const Node& n, Val x, int64_t ranks) {
    int64_t dim = n.attrs.get_int("dim");
    ir::Attrs first = without_mean(n.attrs);
    first.set("dim", int64_t{0});
    if (dim == 0) return meant(n, b_.op("reduce_scatter", {x}, first), ranks);
    Val part = b_.op("reduce_scatter", {parts_first(x, dim, ranks)}, first);
    Shape shape = part.shape();
    shape.erase(shape.begin());
    return meant(n, ir::reshape(part, shape), ranks);
  }

  Val exchange(const Node& n, Val x, int64_t ranks) {
    int64_t split = n.attrs.get_int("split"), join = n.attrs.get_int("join");
    ir::Attrs first = n.attrs;
    first.set("split", int64_t{0}), first.set("join", int64_t{0});
    if (split == 0 && join == 0) return b_.op("all_to_all", {x}, first);
    return parts_joined(b_.op("all_to_all", {parts_first(x, split, ranks)}, first), join);
  }

  static ir::Attrs without_mean(ir::Attrs attrs) {
    if (attrs.get_string("combiner") == "mean") attrs.set("combiner", std::string("sum"));
    return attrs;
  }
  static Val meant(const Node& n, Val sum, int64_t ranks) {
    return n.attrs.get_string("combiner") == "mean" ? sum / sum.b->like(sum, static_cast<double>(ranks)) : sum;
  }

  // A sum over ranks is the same whichever axis is named first: in one order exchanges are seen to be of one group.
  ir::Attrs in_mesh_order(ir::Attrs attrs) const {
    if (!mesh_) return attrs;
    auto place = [&](const ir::AxisRef& a) {
      auto axis = std::find_if(mesh_->axes.begin(), mesh_->axes.end(), [&](const auto& m) { return m.name == a.name; });
      return std::pair(axis - mesh_->axes.begin(), a.before);
    };
    ir::Axes axes = attrs.get_axes("axes");
    std::stable_sort(axes.begin(), axes.end(), [&](const auto& a, const auto& b) { return place(a) < place(b); });
    attrs.set("axes", std::move(axes));
    return attrs;
  }

  FunctionCopy copy_;
  ir::FunctionBuilder& b_;
  const ir::Mesh* mesh_;     // null: there is none
  const RankSymbols* rank_;  // of its ranks; null with it
};

}  // namespace

Result<ir::Module> lower_collectives(const ir::Module& module, PassContext& context) {
  ir::Module out = module;
  std::optional<RankSymbols> rank;
  if (module.mesh()) rank.emplace(*module.mesh());
  bool places = false;
  for (ir::FunctionPtr& f : out.functions) {
    if (std::none_of(f->nodes.begin(), f->nodes.end(), is_collective)) continue;
    ScopedActivity activity("lower-collectives on @" + f->name);
    for (const Node& n : f->nodes) places |= is_collective(n) && n.operands.empty();
    f = Lowering(*f, module, context.ops, rank ? &*rank : nullptr).finish();
  }
  // Modules that were written by hand need not declare the coordinates.
  for (size_t i = 0; places && rank && i < rank->all().size(); ++i) {
    const ir::SymbolRef& s = rank->all()[i];
    bool known = std::any_of(out.symbols.begin(), out.symbols.end(), [&](const auto& t) { return t->name == s->name; });
    if (!known) out.symbols.push_back(s);
  }
  return out;
}

}  // namespace nabla::passes
