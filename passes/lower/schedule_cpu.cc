// How the work of a kernel is cut into units for the threads of a CPU.
#include <algorithm>
#include <cmath>

#include "ir/cost/time.h"
#include "ir/kernel_ir/contract.h"
#include "passes/lower/lane_axis.h"
#include "passes/lower/row_units.h"
#include "passes/lower/schedule_kernels.h"

namespace nabla::passes {

using namespace kernel_ir;  // NOLINT: this file schedules kernel_ir

namespace {

constexpr int kLetAccesses = 2, kStoreAccesses = 3;  // reads and writes of a statement, about

class CpuScheduler {
 public:
  CpuScheduler(const Kernel& k, const ir::Target& target) : k_(k), target_(target), lanes_(lanes_of(k, target)) {}

  CpuSchedule run() {
    choose();
    return s_;
  }

 private:
  void choose() {
    if (auto c = find_contraction(k_)) return contraction(*c);
    const For* loop = independent_loop(k_);
    if (!loop) {
      // Several phases, or stores that meet: one unit does all, in order.
      s_.unit = longest_loop();
      return;
    }
    s_.vector_axis = lane_axis(k_, target_);
    cut(*loop);
  }

  // What is decided here follows from the upper bounds of sizes; how often a unit runs from the sizes themselves.
  const ir::Dim& size(int axis) const { return k_.axes[axis].extent; }
  int64_t extent(int axis) const { return size(axis).bounds().max; }

  void contraction(const Contraction& c) {
    int64_t m = extent(c.m), n = extent(c.n);
    ir::Dim batch = 1;
    for (int b : c.batch) batch = batch * size(b);
    int lanes = vector_elements(k_, target_.vector_bytes);
    ContractPlan plan = plan_contraction(size(c.m), size(c.n), lanes, target_.vector_registers);
    s_.unit = plan.block;
    s_.units = plan.blocks * batch;
    double flops = 2.0 * m * n * extent(c.k) * batch.bounds().max;
    s_.max_threads = threads_for(ir::products_us(flops, 0, lanes, {}) * 1e3);
  }
  int threads_for(double ns) const {
    double threads =
        std::min<double>(ns / target_.thread_grain_ns, static_cast<double>(s_.units.bounds().max));
    return static_cast<int>(std::clamp<double>(threads, 1, target_.threads));
  }

  int64_t longest_loop() const {
    int64_t longest = 1;
    for (const Stmt& s : k_.body)
      if (const For* f = std::get_if<For>(&s.node)) longest = std::max(longest, static_cast<int64_t>(points(f->axes)));
    return longest;
  }

  // ---- Units and threads
  double iteration_ns(const Body& body) const {
    double ns = 0;
    for (const Stmt& s : body) {
      if (const Let* let = std::get_if<Let>(&s.node)) {
        double n = points(k_.values[let->value].axes) * points(let->reduce);
        ns += ir::thread_ns(n, ir::arithmetic(let->expr), kLetAccesses, lanes_);
      } else if (const Store* store = std::get_if<Store>(&s.node)) {
        ns += ir::thread_ns(points(store->axes), ir::arithmetic(store->expr), kStoreAccesses, lanes_);
      }
    }
    return ns;
  }
  double points(const std::vector<int>& axes) const {
    double n = 1;
    for (int a : axes) n *= static_cast<double>(extent(a));
    return n;
  }
  void cut(const For& f) {
    std::vector<int> serial = f.axes;
    int lane = s_.vector_axis;
    bool flat = f.axes.size() == 1 && lane == f.axes[0];
    if (lane >= 0 && !flat) std::erase(serial, lane);
    double total = points(serial);
    double iteration = iteration_ns(f.body) * (lane >= 0 && !flat ? static_cast<double>(extent(lane)) : 1);
    // A unit is worth about a microsecond, and there are at most 1024 of them.
    double unit = std::max({1.0, 1000 / std::max(iteration, 1e-3), total / 1024});
    if (flat) unit = std::ceil(unit / (4 * lanes_)) * 4 * lanes_;
    s_.unit = static_cast<int64_t>(std::clamp(std::ceil(unit), 1.0, std::max(total, 1.0)));
    if (flat && s_.unit >= total) s_.unit = static_cast<int64_t>(std::max(total, 1.0));
    ir::Dim iterations = 1;
    for (int a : serial) iterations = iterations * size(a);
    s_.units = ir::Dim::ceildiv(iterations, s_.unit);
    s_.max_threads = threads_for(iteration * total);
  }

  const Kernel& k_;
  const ir::Target& target_;
  int lanes_;
  CpuSchedule s_;
};

// A procedure's rows; the workspaces of its template are added.
CpuSchedule schedule_rows(Kernel& k, const ir::Target& target) {
  const Procedure& procedure = *k.procedure;
  const ProcedureTemplate& how = template_of(procedure, {});
  RowUnits rows = units_of_rows(procedure, scratch_of_unit(procedure, how) > 0 ? kMostScratchUnits : kMostUnits);
  CpuSchedule s{rows.unit, rows.units};
  double threads = std::min(row_work(procedure) * static_cast<double>(procedure.rows().bounds().max) /
                                static_cast<double>(target.thread_grain_ns),
                            static_cast<double>(s.units.bounds().max));
  s.max_threads = static_cast<int>(std::clamp<double>(threads, 1, target.threads));
  add_workspaces(k, how, s.units);
  return s;
}

}  // namespace

void schedule_cpu(Kernel& kernel, const ir::Target& target) {
  kernel.schedule = kernel.procedure ? schedule_rows(kernel, target) : CpuScheduler(kernel, target).run();
}

}  // namespace nabla::passes
