// Operations of a CPU's kernel: what its statements compute, and how often, by lanes or one element at a time.
#include "ir/cost/operations.h"

#include <algorithm>
#include <set>

#include "ir/kernel_ir/packs.h"

namespace nabla::ir {
namespace {

using kernel_ir::Expr;
using kernel_ir::ExprKind;

// To join the lanes of a sum: steps that wait for each other, in the time of which as many other instructions would have ended.
constexpr double kJoinLanes = 16;
// Of elements for which a guard holds, about: for the others the fill is computed, lane by lane.
constexpr double kGuardHolds = 0.5;
// What the times of procedures (kernel_ir/procedure.h) are estimated for.
constexpr double kInstructionsOfProcedures = 2.5;

/// Of one evaluation of an expression.
struct Count {
  double in_lanes = 0, one_by_one = 0, once = 0;  ///< once: does not change along the lanes
};

class Statement {
 public:
  Statement(const kernel_ir::Kernel& k, int lane) : k_(k), lane_(lane) {}

  void add(const Expr& e) {
    if (e) add(e, false, 1);
  }
  const Count& count() const { return out_; }

 private:
  bool varies(const Expr& e) const {
    bool out = false;
    kernel_ir::visit(e, [&](const Expr& x) {
      out |= x->kind == ExprKind::kAxis && x->ref == lane_;
      if (x->kind == ExprKind::kValue) {
        const std::vector<int>& axes = k_.values[static_cast<size_t>(x->ref)].axes;
        out |= std::find(axes.begin(), axes.end(), lane_) != axes.end();
      }
    });
    return out;
  }
  // Lanes that do not lie side by side, or of which some are not there, are loaded one by one (codegen/print).
  bool gathers(const Expr& load) const {
    if (load->guard && (varies(load->guard) || varies(load->fill))) return true;
    auto stride = kernel_ir::stride_along(load->args, k_.buffers[static_cast<size_t>(load->ref)].shape, lane_,
                                          [this](const Expr& e) { return varies(e); });
    return stride != 1;
  }
  void add(const Expr& e, bool each, double often) {
    if (!seen_.insert(e.id()).second) return;
    const bool moves = lane_ < 0 || varies(e), load = e->kind == ExprKind::kLoad;
    if (lane_ >= 0 && moves && load) each |= gathers(e);
    double cost = load ? 1 : e->kind == ExprKind::kCall && e->dtype != DType::kI64 ? e->fn->cost : 0;
    (lane_ < 0 || each ? out_.one_by_one : moves ? out_.in_lanes : out_.once) += often * cost;
    if (load && e->guard) add(e->guard, each, often), add(e->fill, each, each ? often * kGuardHolds : often);
    for (const Expr& arg : e->args) add(arg, each, often);
  }

  const kernel_ir::Kernel& k_;
  int lane_;
  std::set<const void*> seen_;
  Count out_;
};

class OperationsWalk {
 public:
  explicit OperationsWalk(const kernel_ir::Kernel& k) : k_(k), lane_(kernel_ir::cpu_schedule_of(k).vector_axis) {}

  Operations run() {
    body(k_.body, {});
    return out_;
  }

 private:
  using Axes = std::set<int>;

  double extent(int axis) const { return static_cast<double>(k_.axes[static_cast<size_t>(axis)].extent.bounds().max); }
  double points(const Axes& axes) const {
    double out = 1;
    for (int a : axes) out *= extent(a);
    return out;
  }
  static Axes joined(Axes axes, const std::vector<int>& more) {
    axes.insert(more.begin(), more.end());
    return axes;
  }
  void add(const Count& c, double points, int lane) {
    out_.in_lanes += points * c.in_lanes, out_.one_by_one += points * c.one_by_one;
    if (lane >= 0) out_.one_by_one += points / extent(lane) * c.once;
  }

  void let(const kernel_ir::Let& let, const Axes& around) {
    if (let.contract) return;
    const std::vector<int>& own = k_.values[static_cast<size_t>(let.value)].axes;
    const Axes results = joined(around, own), all = joined(results, let.reduce);
    int lane = lane_ >= 0 ? lane_ : !let.reduce.empty() ? let.reduce.back() : own.empty() ? -1 : own.back();
    Statement s(k_, lane);
    s.add(let.expr);
    Count c = s.count();
    (lane < 0 ? c.one_by_one : c.in_lanes) += 1;  // the combination, or what is kept
    add(c, points(all), lane);
    if (!let.reduce.empty() && lane == let.reduce.back()) out_.one_by_one += kJoinLanes * points(results);
  }
  void store(const kernel_ir::Store& store, const Axes& around) {
    const Axes all = joined(around, store.axes);
    int lane = lane_ >= 0 ? lane_ : store.axes.empty() ? -1 : store.axes.back();
    Statement s(k_, lane);
    s.add(store.expr), s.add(store.guard);
    Count c = s.count();
    (lane < 0 ? c.one_by_one : c.in_lanes) += 1;
    add(c, points(all), lane);
  }
  void body(const kernel_ir::Body& statements, const Axes& around) {
    for (const kernel_ir::Stmt& s : statements) {
      if (const auto* l = std::get_if<kernel_ir::Let>(&s.node)) {
        let(*l, around);
      } else if (const auto* st = std::get_if<kernel_ir::Store>(&s.node)) {
        store(*st, around);
      } else if (const auto* all = std::get_if<kernel_ir::For>(&s.node)) {
        body(all->body, joined(around, all->axes));
      } else {
        const auto& loop = std::get<kernel_ir::Loop>(s.node);
        const Axes inside = joined(around, {loop.axis});
        for (size_t i = 0; i < loop.state.size(); ++i) {
          Statement next(k_, lane_);
          next.add(loop.next[i]);
          add(next.count(), points(joined(inside, k_.values[static_cast<size_t>(loop.state[i])].axes)), lane_);
        }
        body(loop.body, inside);
      }
    }
  }

  const kernel_ir::Kernel& k_;
  int lane_;
  Operations out_;
};

}  // namespace

Operations operations_of(const kernel_ir::Kernel& kernel) {
  if (!kernel.procedure) return OperationsWalk(kernel).run();
  const kernel_ir::Procedure& p = *kernel.procedure;
  if (p.user) return {};
  return {0, std::max(p.def->work(p.most()), 1.0) * static_cast<double>(p.rows().bounds().max) * kInstructionsOfProcedures};
}

}  // namespace nabla::ir
