#include "passes/shard/propagate.h"

#include <limits>
#include <set>

#include "passes/shard/layout_order.h"
#include "passes/shard/loop_borders.h"
#include "passes/shard/manual_regions.h"
#include "passes/shard/merge_cuts.h"
#include "passes/shard/open_composites.h"
#include "passes/shard/own_results.h"
#include "passes/shard/partition.h"
#include "passes/shard/propagation.h"
#include "runtime/base/option_error.h"
#include "runtime/base/option_name.h"

namespace nabla::passes {
namespace {

struct Propagated {
  std::shared_ptr<const ir::Module> flat;  // regions placed, composites opened, cuts merged
  std::unique_ptr<Propagation> by;
  ir::Module sharded;
};

Result<Propagated> propagated(std::shared_ptr<const ir::Module> placed, const LateAxes& late, bool explains, PassContext& context) {
  Propagated out{std::move(placed), nullptr, {}};
  size_t remarks = context.remarks.size();
  while (true) {
    out.by = std::make_unique<Propagation>(*out.flat, explains, context, late);
    out.sharded = NABLA_TRY(out.by->run());
    auto next = open_composites(*out.flat, out.sharded, context);
    if (!next) next = merge_cuts(*out.flat, out.sharded, context);
    if (!next) return out;
    out.flat = std::move(next);
    context.forget_remarks(remarks);
  }
}

/// Chooses the order in which arguments hand their layouts on: the one in which a rank sends and computes least.
class OrderSearch {
 public:
  OrderSearch(std::shared_ptr<const ir::Module> placed, PassContext& context) : placed_(std::move(placed)), context_(context) {}

  LateAxes run() {
    for (const ir::MeshAxis& a : placed_->mesh()->axes)
      if (a.size > 1 && !a.temporal) try_orders_along(a.name);
    return std::move(best_);
  }

 private:
  void try_orders_along(const std::string& axis) {
    const std::vector<LateAxes> orders = layout_orders(*placed_, axis);
    if (!orders.empty() && !cost_) cost_ = cost_of(best_);
    const LateAxes before = best_;
    for (const LateAxes& order : orders) {
      LateAxes late = before;
      late.insert(late.end(), order.begin(), order.end());
      const RunCost cost = cost_of(late);
      // What differs by less than a twentieth of the exchanges is no reason to leave the order of the ops.
      if (cost.us() < cost_->us() - cost_->exchange_us / 20) best_ = std::move(late), cost_ = cost;
    }
  }
  // Infinite for an order that does not compile.
  RunCost cost_of(const LateAxes& late) const {
    constexpr double kNever = std::numeric_limits<double>::max();
    PassContext trial{context_.ops, context_.target};
    Result<Propagated> made = propagated(placed_, late, false, trial);
    if (!made.ok()) return {0, kNever};
    Result<ir::Module> local = partition(made->sharded, trial);
    return local.ok() ? run_cost(*local, context_.target) : RunCost{0, kNever};
  }

  const std::shared_ptr<const ir::Module> placed_;
  PassContext& context_;
  LateAxes best_;
  std::optional<RunCost> cost_;  // of the best
};

Result<Propagated> propagated(const ir::Module& module, bool explains, PassContext& context) {
  auto placed = std::make_shared<const ir::Module>(
      NABLA_TRY(place_regions(with_loop_borders(with_own_results(module, context.ops), context.ops), context.ops)));
  // The layouts of a deterministic program do not depend on the sizes of axes, as costs do.
  const LateAxes late = context.options.deterministic ? LateAxes() : OrderSearch(placed, context).run();
  return propagated(placed, late, explains, context);
}

// Names of the axes along which ranks have parts of something, or communicate by what the program itself says.
std::set<std::string> axes_in_use(const ir::Module& sharded) {
  std::set<std::string> out;
  auto add = [&](const ir::Axes& axes) {
    for (const ir::AxisRef& a : axes) out.insert(a.name);
  };
  auto add_layout = [&](const ir::Sharding& s) {
    for (const ir::DimSharding& dim : s.dims) add(dim.axes);
  };
  for (const ir::StateLeaf& leaf : sharded.state)
    if (leaf.sharding) add_layout(*leaf.sharding);
  for (const ir::FunctionPtr& f : sharded.functions) {
    for (const ir::Value& v : f->values)
      if (v.sharding) add_layout(*v.sharding);
    for (const ir::Node& n : f->nodes)
      for (const auto& [name, attr] : n.attrs) {
        if (const auto* axes = std::get_if<ir::Axes>(&attr)) add(*axes);
        if (const auto* layout = std::get_if<ir::Sharding>(&attr)) add_layout(*layout);
      }
  }
  return out;
}

// Ranks of an idle axis all compute the same. The numbers are right, but nobody asks for such ranks on purpose.
Status check_idle_axes(const ir::Module& sharded, PassContext& context) {
  const std::set<std::string> used = axes_in_use(sharded);
  for (const ir::MeshAxis& a : sharded.mesh()->axes) {
    if (a.size == 1 || a.temporal || used.contains(a.name)) continue;
    const std::string what =
        fmt::format("axis {}: nothing is sharded over it, so that its {} ranks all compute the same", a.name, a.size);
    if (context.options.propagate.idle_axes == IdleAxes::kError)
      return option_error(fmt::format("give {} 1 rank, or let its ranks share the work by {}, {} or {}; {} compiles it as it is", a.name,
                                      OptionName{"layout"}, OptionName{"data-axes"}, OptionName{"auto-shard"},
                                      OptionName{"allow-idle-axes"}),
                          "{}: {}", OptionName{"mesh"}, what);
    context.remarks.push_back({ir::RemarkKind::kIdleAxis, a.name,
                               fmt::format("{}; {}, {} or {} let them share the work", what, OptionName{"layout"}, OptionName{"data-axes"},
                                           OptionName{"auto-shard"})});
  }
  return Ok{};
}

}  // namespace

Result<ir::Module> propagate(const ir::Module& module, PassContext& context) {
  if (module.mesh()) {
    Propagated made = NABLA_TRY(propagated(module, false, context));
    NABLA_TRY(check_idle_axes(made.sharded, context));
    return std::move(made.sharded);
  }
  ir::Module out = module;
  out.stage = ir::Stage::kSharded;
  return out;
}

Result<ir::Module> propagated_layouts(const ir::Module& module, PassContext& context) {
  size_t remarks = context.remarks.size();
  Result<ir::Module> out = Propagation(module, false, context).run();
  context.forget_remarks(remarks);
  return out;
}

Result<LayoutExplanation> explain_layout(const ir::Module& module, const std::string& function, const std::string& value,
                                         PassContext& context) {
  if (!module.mesh()) return error(Code::kBadSharding, "the module has no mesh, so that nothing is laid out");
  Propagated made = NABLA_TRY(propagated(module, true, context));
  const ir::Function* f = made.sharded.find(function);
  if (!f) return error(Code::kUnknownName, "there is no function @{}", function);
  std::vector<std::string> known;
  for (size_t v = 0; v < f->values.size(); ++v) {
    std::string name = ir::value_name(*f, static_cast<ir::ValueId>(v));
    if (name == value || name == "%" + value) return made.by->explain(function, static_cast<ir::ValueId>(v));
    known.push_back(name);
  }
  Diagnostic d = error(Code::kUnknownName, "@{} has no value {}{}", function, value, did_you_mean(value, known));
  d.help = "`nablac opt --pipeline-to sharded` prints all values with their layouts";
  return d;
}

}  // namespace nabla::passes
