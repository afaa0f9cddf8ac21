#include "passes/shard/manual_regions.h"

#include <algorithm>

#include "passes/rewrite.h"
#include "passes/transform/check_regions.h"
#include "passes/transform/mark_varying.h"

namespace nabla::passes {
namespace {

using ir::Axes;
using ir::Function;
using ir::FunctionPtr;
using ir::ManualRegion;
using ir::Node;
using ir::Sharding;
using ir::Val;

class Placing {
 public:
  Placing(const ir::Module& module, const ir::OpTable& ops) : out_(module), ops_(ops) {}

  Result<ir::Module> run() {
    // Callees first: bodies have no regions of their own any more when they are placed.
    for (const FunctionPtr& f : NABLA_TRY(bottom_up(out_))) {
      bool any =
          std::any_of(f->nodes.begin(), f->nodes.end(), [](const Node& n) { return n.op->manual || is_vary(n); });
      if (any) out_.set(placed(*f));
    }
    return std::move(out_);
  }

 private:
  static bool is_vary(const Node& n) { return n.op->layout_role == ir::LayoutRole::kVary; }

  FunctionPtr placed(const Function& f) {
    FunctionCopy copy(f, ops_, &out_);
    for (const Node& n : f.nodes) {
      copy.builder().set_location(n.location);
      if (n.op->manual)
        copy.set(n.results, place(copy.builder(), n, n.op->manual(n.attrs), copy.at(n.operands)));
      else if (is_vary(n))
        copy.set(n.results[0], copy.at(n.operands[0]));
      else
        copy.copy(n);
    }
    return copy.finish();
  }

  std::vector<Val> place(ir::FunctionBuilder& b, const Node& n, const ManualRegion& r,
                         const std::vector<Val>& operands) {
    std::vector<Val> args, out;
    for (size_t i = 0; i < operands.size(); ++i) {
      ir::ShardingRef whole = laid_out(r, r.in[i]);
      Val v = b.op("shard", {operands[i]}, {{"sharding", *whole}});
      b.lay_out(v, whole);
      args.push_back(b.op("full_to_shard", {v}, border(r, r.in[i])));
    }
    std::vector<Val> made = body(b, *out_.find(r.body), args);
    b.set_location(n.location);
    for (size_t i = 0; i < made.size(); ++i) {
      Val v = b.op("shard_to_full", {made[i]}, border(r, r.out[i]));
      b.lay_out(v, laid_out(r, r.out[i]));
      out.push_back(b.op("shard", {v}, {{"sharding", open_sharding(v.rank())}}));
    }
    return out;
  }
  static ir::Attrs border(const ManualRegion& r, const Sharding& parts) {
    return {{"parts", parts}, {"axes", r.axes}, {"sizes", r.sizes}};
  }
  // Cut as the region says, not along its other axes, and open for those that are not manual.
  static ir::ShardingRef laid_out(const ManualRegion& r, const Sharding& parts) {
    Sharding out = parts;
    Axes used = axes_of(parts);
    for (ir::DimSharding& d : out.dims) d.open = true;
    for (const ir::AxisRef& a : r.axes)
      if (std::find(used.begin(), used.end(), a) == used.end()) out.replicated.push_back(a);
    return std::make_shared<const Sharding>(std::move(out));
  }

  std::vector<Val> body(ir::FunctionBuilder& b, const Function& f, const std::vector<Val>& args) {
    std::vector<Val> values(f.values.size()), out;
    auto set = [&](ir::ValueId id, Val v) {
      values[id] = v;
      if (f.values[id].sharding && !b.function().values[v.id].sharding) b.lay_out(v, f.values[id].sharding);
    };
    for (size_t i = 0; i < args.size(); ++i) set(f.params[i], args[i]);
    LocationRef around = b.location();
    for (const Node& n : f.nodes) {
      b.set_location(around);
      std::vector<Val> operands;
      for (ir::ValueId id : n.operands) operands.push_back(values[id]);
      Node own = n;
      own.attrs = ir::with_functions(n.attrs, [&](const std::string& name) { return copied(name); });
      std::vector<Val> results = b.clone(own, operands);
      for (size_t i = 0; i < results.size(); ++i) set(n.results[i], results[i]);
    }
    for (ir::ValueId id : f.results) out.push_back(values[id]);
    return out;
  }
  // A function of its own for what is run here, and for all that it runs.
  std::string copied(const std::string& name) {
    Function f = *out_.find(name);
    for (Node& n : f.nodes)
      n.attrs = ir::with_functions(n.attrs, [&](const std::string& callee) { return copied(callee); });
    f.name = fresh_name(out_, name);
    std::string made = f.name;
    out_.functions.push_back(std::make_shared<const Function>(std::move(f)));
    return made;
  }

  ir::Module out_;
  const ir::OpTable& ops_;
};

}  // namespace

Result<ir::Module> place_regions(const ir::Module& flat, const ir::OpTable& ops) {
  ir::Module marked = NABLA_TRY(mark_varying(flat, ops));
  bool regions = std::any_of(marked.functions.begin(), marked.functions.end(), [](const FunctionPtr& f) {
    return std::any_of(f->nodes.begin(), f->nodes.end(), [](const Node& n) { return bool(n.op->manual); });
  });
  if (!regions) return marked;
  std::set<std::string> bodies = reached(marked).inside;
  ir::Module out = NABLA_TRY(Placing(marked, ops).run());
  drop_unnamed(out, bodies);
  return out;
}

Status check_collectives(const ir::Module& sharded) {
  const Node* first = nullptr;
  for (const FunctionPtr& f : sharded.functions)
    for (const Node& n : f->nodes) {
      if (is_border(n)) return Ok{};
      if (!first && n.op->lower == ir::Lowering::kCollective && !n.attrs.get_axes("axes").empty()) first = &n;
    }
  if (!first) return Ok{};
  Diagnostic d = error(Code::kWrongStage, "{}: a program for all ranks has no collectives", first->op->name);
  d.location = first->location;
  d.help = "lay the operand out instead: collectives follow from layouts; or write it inside of shard_map";
  return d;
}

bool is_border(const Node& n) { return n.op->layout_role == ir::LayoutRole::kEnter || n.op->layout_role == ir::LayoutRole::kLeave; }

Layout outside_of(const Node& border, const Layout& inside) {
  Layout out = inside;
  const Sharding& parts = border.attrs.get_sharding("parts");
  for (size_t d = 0; d < out.dims.size(); ++d)
    out.dims[d].insert(out.dims[d].begin(), parts.dims[d].axes.begin(), parts.dims[d].axes.end());
  return out;
}

std::optional<Layout> inside_of(const Node& border, const Layout& outside) {
  Layout out = outside;
  const Sharding& parts = border.attrs.get_sharding("parts");
  for (size_t d = 0; d < out.dims.size(); ++d) {
    const Axes& cut = parts.dims[d].axes;
    if (!is_prefix(cut, out.dims[d])) return std::nullopt;
    out.dims[d].erase(out.dims[d].begin(), out.dims[d].begin() + static_cast<std::ptrdiff_t>(cut.size()));
  }
  return out;
}

}  // namespace nabla::passes
