#include "tests/cuda/traffic_model.h"

#include <algorithm>
#include <map>

namespace nabla::emulator {
namespace {

using namespace kernel_ir;  // NOLINT: walks kernel_ir

class Walk {
 public:
  explicit Walk(const Kernel& k) : k_(k) {}

  std::optional<int64_t> run() {
    if (k_.procedure) return std::nullopt;
    for (const Stmt& s : k_.body) {
      const For* f = std::get_if<For>(&s.node);
      if (f) {
        nest(f->axes, f->body);
      } else if (const Store* store = std::get_if<Store>(&s.node)) {
        nest({}, {{*store}});
      } else {
        return std::nullopt;
      }
    }
    int64_t total = 0;
    for (size_t b = 0; b < k_.buffers.size(); ++b) {
      known_ &= uses_[static_cast<int>(b)] == 1;
      total += elements(static_cast<int>(b)) * bytes_of(k_.buffers[b].dtype);
    }
    return known_ ? std::optional(total) : std::nullopt;
  }

 private:
  int64_t elements(int buffer) const {
    int64_t n = 1;
    for (const ir::Dim& d : k_.buffers[buffer].shape) n *= d.value();
    return n;
  }
  int64_t points(const std::vector<int>& axes, const std::vector<int>& own, const std::vector<int>& reduce) const {
    int64_t n = 1;
    for (const std::vector<int>* list : {&axes, &own, &reduce})
      for (int a : *list) n *= k_.axes[a].extent.value();
    return n;
  }
  // A number that every thread of a team computes is read by all of them.
  void nest(const std::vector<int>& axes, const Body& body) {
    bool team = false;
    for (const Stmt& s : body) {
      const Let* let = std::get_if<Let>(&s.node);
      const Store* store = std::get_if<Store>(&s.node);
      known_ &= let || store;
      if (let) team |= !let->reduce.empty() || !k_.values[let->value].axes.empty();
      if (store) team |= !store->axes.empty() && body.size() > 1;
    }
    for (const Stmt& s : body) {
      if (const Let* let = std::get_if<Let>(&s.node)) {
        const std::vector<int>& own = k_.values[let->value].axes;
        bool number = own.empty() && let->reduce.empty();
        loads(let->expr, points(axes, own, let->reduce), team && number);
      }
      if (const Store* store = std::get_if<Store>(&s.node)) {
        known_ &= !store->guard && store->combiner == Combiner::kNone;
        int64_t n = points(axes, store->axes, {});
        loads(store->expr, n, team && store->axes.empty());
        known_ &= n == elements(store->buffer);
        ++uses_[store->buffer];
      }
    }
  }
  void loads(const Expr& e, int64_t points, bool repeated) {
    std::vector<Expr> seen;  // one expression takes an element once
    visit(e, [&](const Expr& x) {
      if (x->kind != ExprKind::kLoad || std::find(seen.begin(), seen.end(), x) != seen.end()) return;
      seen.push_back(x);
      known_ &= !x->guard && !repeated && points == elements(x->ref);
      for (const Expr& i : x->args) known_ &= as_affine(i).has_value();
      ++uses_[x->ref];
    });
  }

  const Kernel& k_;
  bool known_ = true;
  std::map<int, int> uses_;
};

}  // namespace

std::optional<int64_t> known_traffic(const Kernel& kernel) { return Walk(kernel).run(); }

}  // namespace nabla::emulator
