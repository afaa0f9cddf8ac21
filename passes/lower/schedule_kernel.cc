// How the work of a kernel is cut into units, and which axis goes to vector lanes.
#include <algorithm>
#include <cmath>

#include "ir/cost/time.h"
#include "ir/kernel_ir/contract.h"
#include "passes/lower/schedule_kernels.h"

namespace nabla::passes {

using namespace kernel_ir;  // NOLINT: this file schedules kernel_ir

namespace {

constexpr int kLetAccesses = 2, kStoreAccesses = 3;  // reads and writes of a statement, about

class Scheduler {
 public:
  Scheduler(const Kernel& k, const ir::Target& target) : k_(k), target_(target) {
    wide_ = std::any_of(k.buffers.begin(), k.buffers.end(), [](const Buffer& b) { return bytes_of(b.dtype) == 8; });
    lanes_ = target.vector_bytes / (wide_ ? 8 : 4);
  }

  Schedule run() {
    choose();
    return s_;
  }

 private:
  void choose() {
    if (auto c = find_contraction(k_)) return contraction(*c);
    const For* loop = nullptr;
    int loops = 0;
    for (const Stmt& s : k_.body)
      if (const For* f = std::get_if<For>(&s.node)) loop = f, ++loops;
    if (loops != 1 || combines(k_.body)) {
      // Several phases, or stores that meet: one unit does all, in order.
      s_.unit = longest_loop();
      return;
    }
    s_.vector_axis = lane_axis(*loop);
    cut(*loop);
  }

  // What is decided here follows from the upper bounds of sizes; how often a unit runs from the sizes themselves.
  const ir::Dim& size(int axis) const { return k_.axes[axis].extent; }
  int64_t extent(int axis) const { return size(axis).bounds().max; }

  void contraction(const Contraction& c) {
    int64_t m = extent(c.m), n = extent(c.n);
    ir::Dim batch = 1;
    for (int b : c.batch) batch = batch * size(b);
    int lanes = target_.vector_bytes / (bytes_of(c.dtype) == 8 ? 8 : 4);
    ContractPlan plan = plan_contraction(size(c.m), size(c.n), lanes, target_.vector_registers);
    s_.unit = plan.block;
    s_.units = plan.blocks * batch;
    double flops = 2.0 * m * n * extent(c.k) * batch.bounds().max;
    s_.max_threads = threads_for(ir::thread_ns_of_products(flops, lanes));
  }
  int threads_for(double ns) const {
    double threads =
        std::min<double>(ns / target_.thread_grain_ns, static_cast<double>(s_.units.bounds().max));
    return static_cast<int>(std::clamp<double>(threads, 1, target_.threads));
  }

  static bool combines(const Body& b) {
    return std::any_of(b.begin(), b.end(), [](const Stmt& s) {
      if (const Store* store = std::get_if<Store>(&s.node)) return store->combiner != Combiner::kNone || store->guard;
      if (const For* f = std::get_if<For>(&s.node)) return combines(f->body);
      return std::holds_alternative<Loop>(s.node);
    });
  }
  int64_t longest_loop() const {
    int64_t longest = 1;
    for (const Stmt& s : k_.body)
      if (const For* f = std::get_if<For>(&s.node)) longest = std::max(longest, static_cast<int64_t>(points(f->axes)));
    return longest;
  }

  // ---- Lanes along an outer axis, or along each statement's own innermost axis?
  struct Score {
    double bad = 0;
    bool any = false;
  };
  void access(const std::vector<Expr>& at, const ir::Shape& shape, int axis, double weight, Score& score) const {
    ir::Dim stride = 1, total = 0;
    for (int d = static_cast<int>(at.size()) - 1; d >= 0; --d) {
      if (uses_axis(at[d], axis)) {
        std::optional<Affine> affine = as_affine(at[d]);
        if (!affine) return void(score.bad += weight);
        total = total + stride * affine->of(axis);
      }
      stride = stride * shape[d];
    }
    score.any |= total.is(1);
    if (!total.is(0) && !total.is(1)) score.bad += weight;
  }
  void loads(const Expr& e, int axis, double weight, Score& score) const {
    visit(e, [&](const Expr& x) {
      if (x->kind != ExprKind::kLoad) return;
      access(x->args, k_.buffers[x->ref].shape, axis, weight, score);
      if (x->guard && uses_axis(x->guard, axis)) score.bad += weight;
    });
  }
  // The price of putting `axis` into lanes for the whole body.
  Score score_outer(const Body& body, int axis, double weight) const {
    Score score;
    for (const Stmt& s : body) {
      if (const Let* let = std::get_if<Let>(&s.node)) {
        double w = weight * choice_points(k_.values[let->value].axes) * choice_points(let->reduce);
        loads(let->expr, axis, w, score);
      } else if (const Store* store = std::get_if<Store>(&s.node)) {
        double w = weight * choice_points(store->axes);
        loads(store->expr, axis, w, score);
        access(store->indices, k_.buffers[store->buffer].shape, axis, w, score);
      }
    }
    return score;
  }
  // The price of lanes along own axes: statements without any run as scalars.
  double score_inner(const Body& body) const {
    double bad = 0;
    auto best = [&](std::vector<int> axes, const Expr& e, const Store* store, double weight) {
      double price = weight * (2 + static_cast<double>(ir::arithmetic(e)) / 2);  // scalars: all lanes idle but one
      for (int a : axes) {
        Score s;
        loads(e, a, weight, s);
        if (store) access(store->indices, k_.buffers[store->buffer].shape, a, weight, s);
        double idle = size_of_choice(a) < lanes_ ? weight * (1 - static_cast<double>(size_of_choice(a)) / lanes_) : 0;
        price = std::min(price, s.bad + idle);
      }
      bad += price;
    };
    for (const Stmt& s : body) {
      if (const Let* let = std::get_if<Let>(&s.node)) {
        std::vector<int> axes = k_.values[let->value].axes;
        axes.insert(axes.end(), let->reduce.begin(), let->reduce.end());
        best(axes, let->expr, nullptr, choice_points(axes));
      } else if (const Store* store = std::get_if<Store>(&s.node)) {
        best(store->axes, store->expr, store, choice_points(store->axes));
      }
    }
    return bad;
  }
  // With the lanes changes the order of a sum: no size counts where bits must not depend on it.
  int64_t size_of_choice(int axis) const { return target_.deterministic ? ir::kAnySize : extent(axis); }
  double choice_points(const std::vector<int>& axes) const {
    double n = 1;
    for (int a : axes) n *= static_cast<double>(size_of_choice(a));
    return n;
  }
  int lane_axis(const For& f) const {
    double inner = score_inner(f.body), best = inner;
    int lane = -1;
    for (int a : f.axes) {
      Score s = score_outer(f.body, a, 1);
      double idle = size_of_choice(a) < lanes_ ? work(f.body) * (1 - static_cast<double>(size_of_choice(a)) / lanes_) : 0;
      if (s.bad + idle < best || (s.bad + idle <= best && lane >= 0 && size_of_choice(a) >= size_of_choice(lane)))
        best = s.bad + idle, lane = a;
    }
    return lane;
  }
  double work(const Body& body) const {
    double n = 0;
    for (const Stmt& s : body) {
      if (const Let* let = std::get_if<Let>(&s.node)) n += choice_points(k_.values[let->value].axes) * choice_points(let->reduce);
      if (const Store* store = std::get_if<Store>(&s.node)) n += choice_points(store->axes);
    }
    return n;
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
  bool wide_;
  int lanes_;
  Schedule s_;
};

}  // namespace

void schedule_kernel(Kernel& kernel, const ir::Target& target) { kernel.schedule = Scheduler(kernel, target).run(); }

}  // namespace nabla::passes
