#include "passes/lower/lane_axis.h"

#include <algorithm>

#include "ir/cost/time.h"
#include "ir/kernel_ir/contract.h"

namespace nabla::passes {

using namespace kernel_ir;  // NOLINT: this file schedules kernel_ir

namespace {

bool combines(const Body& b) {
  return std::any_of(b.begin(), b.end(), [](const Stmt& s) {
    if (const Store* store = std::get_if<Store>(&s.node)) return store->combiner != Combiner::kNone || store->guard;
    if (const For* f = std::get_if<For>(&s.node)) return combines(f->body);
    return std::holds_alternative<Loop>(s.node);
  });
}

class LaneChooser {
 public:
  LaneChooser(const Kernel& k, const ir::Target& target) : k_(k), target_(target), lanes_(lanes_of(k, target)) {}

  int choose(const For& f) const {
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

 private:
  int64_t extent(int axis) const { return k_.axes[axis].extent.bounds().max; }

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
  double work(const Body& body) const {
    double n = 0;
    for (const Stmt& s : body) {
      if (const Let* let = std::get_if<Let>(&s.node)) n += choice_points(k_.values[let->value].axes) * choice_points(let->reduce);
      if (const Store* store = std::get_if<Store>(&s.node)) n += choice_points(store->axes);
    }
    return n;
  }

  const Kernel& k_;
  const ir::Target& target_;
  int lanes_;
};

}  // namespace

int lanes_of(const Kernel& k, const ir::Target& target) {
  bool wide = std::any_of(k.buffers.begin(), k.buffers.end(), [](const Buffer& b) { return bytes_of(b.dtype) == 8; });
  return target.vector_bytes / (wide ? 8 : 4);
}

const For* independent_loop(const Kernel& k) {
  const For* loop = nullptr;
  int loops = 0;
  for (const Stmt& s : k.body)
    if (const For* f = std::get_if<For>(&s.node)) loop = f, ++loops;
  return loops == 1 && !combines(k.body) ? loop : nullptr;
}

int lane_axis(const Kernel& k, const ir::Target& target) {
  const For* loop = find_contraction(k) ? nullptr : independent_loop(k);
  return loop ? LaneChooser(k, target).choose(*loop) : -1;
}

int lane_axis(const Kernel& k, const For& loop, const ir::Target& target) {
  return combines(loop.body) ? -1 : LaneChooser(k, target).choose(loop);
}

}  // namespace nabla::passes
