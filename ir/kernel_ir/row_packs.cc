#include "ir/kernel_ir/row_packs.h"

#include <algorithm>

#include "ir/kernel_ir/fragment.h"
#include "ir/kernel_ir/packs.h"
#include "ir/kernel_ir/stores.h"
#include "ir/kernel_ir/team_rows.h"

namespace nabla::kernel_ir {
namespace {

// Of a thread's registers: half of those that its code leaves; a thread of 1,024 has 64 in all.
constexpr int64_t kMostKeptBytes = 128, kMostKeptOfLarge = 48, kLargeTeam = 1024;
constexpr int64_t kMostKeptElements = 64;  // The code of so many stands beside each other.
constexpr int64_t kLeastTogether = 4;

int64_t most(const Kernel& k, const std::vector<int>& axes) {
  int64_t n = 1;
  for (int a : axes) n *= k.axes[a].extent.bounds().max;
  return n;
}

// What a statement reads and stores while its axes are shared out.
struct Shared {
  std::vector<int> axes;
  Expr read;
  const Store* store = nullptr;
  const Let* row = nullptr;
};

class Finder {
 public:
  Finder(const Kernel& k, const Body& body, int team) : k_(k), team_(team) {
    for (const Stmt& s : body) {
      if (const Let* let = std::get_if<Let>(&s.node)) {
        bool row = !k.values[let->value].axes.empty(), together = row && computed_together(k, *let, team);
        // Elements that are sums of their own would be read in strides.
        plain_ &= !row || together || let->combiner == Combiner::kNone;
        shared_.push_back({shared_axes(k, *let, team), let->expr, nullptr, row && !together ? let : nullptr});
      } else if (const Store* store = std::get_if<Store>(&s.node)) {
        shared_.push_back({shared_axes(k, *store), store->expr, store});
      } else {
        plain_ = false;
      }
    }
  }

  RowPacks run() const {
    int widest = 1;
    for (const Shared& s : shared_)
      for_each_moving(s, [&](int buffer, const Affine&) {
        if (buffer >= 0) widest = std::max(widest, bytes_of(k_.buffers[buffer].dtype));
      });
    RowPacks out;
    for (out.width = plain_ ? 16 / widest : 1; out.width > 1; out.width /= 2)
      if (fits(out.width)) break;
    if (out.width <= 1) return {};
    for (const Shared& s : shared_) {
      if (!by_packs(k_, s.axes, team_, out.width)) continue;
      for_each_moving(s, [&](int buffer, const Affine&) {
        if (buffer >= 0 && std::ranges::find(out.buffers, buffer) == out.buffers.end()) out.buffers.push_back(buffer);
      });
    }
    if (out.buffers.empty()) return {};
    keep(out);
    return out;
  }

 private:
  // Accesses that walk the last axis element by element; rows of the team have no buffer.
  template <class F>
  void for_each_moving(const Shared& s, F&& f) const {
    if (s.axes.empty()) return;
    auto access = [&](const std::vector<Expr>& at, const ir::Shape& shape, int buffer) {
      std::optional<Affine> flat = flat_offset(at, shape);
      if (flat && walks(*flat, s.axes.back())) f(buffer, *flat);
    };
    visit(s.read, [&](const Expr& x) {
      if (x->kind == ExprKind::kLoad && !x->guard) access(x->args, k_.buffers[x->ref].shape, x->ref);
      if (x->kind == ExprKind::kValue && !x->args.empty()) access(x->args, row_shape(k_, k_.values[x->ref]), -1);
    });
    if (s.store && !s.store->guard && !may_meet(*s.store)) access(s.store->indices, k_.buffers[s.store->buffer].shape, s.store->buffer);
    if (s.row) access(axes_as_indices(k_.values[s.row->value].axes), row_shape(k_, k_.values[s.row->value]), -1);
  }
  bool fits(int width) const {
    bool divide = true, shares = true, any = false;
    for (const Shared& s : shared_) {
      if (s.axes.empty()) continue;
      const bool packs = by_packs(k_, s.axes, team_, width);
      bool moves = false;
      for_each_moving(s, [&](int buffer, const Affine& flat) {
        moves |= buffer >= 0;
        divide &= !packs || packs_divide(flat, s.axes.back(), width);
      });
      // Narrower packs, where wide ones would leave threads without work.
      shares &= !moves || most(k_, s.axes) < 2 * team_ || packs;
      any |= moves && packs;
    }
    return divide && shares && any;
  }

  // What is read again is kept, as far as registers go.
  void keep(RowPacks& out) const {
    int64_t bytes = 0;
    for (size_t i = 0; i < shared_.size(); ++i) {
      const std::vector<int>& axes = shared_[i].axes;
      bool known = std::ranges::all_of(axes, [&](int a) { return k_.axes[a].extent.is_static(); });
      if (!known || !by_packs(k_, axes, team_, out.width)) continue;
      int64_t trips = (most(k_, axes) / out.width + team_ - 1) / team_;
      visit(shared_[i].read, [&](const Expr& x) {
        if (x->kind != ExprKind::kLoad || x->guard || is_kept(out, x, axes)) return;
        std::optional<Affine> flat = flat_offset(x->args, k_.buffers[x->ref].shape);
        bool again = std::any_of(shared_.begin() + static_cast<int64_t>(i) + 1, shared_.end(),
                                 [&](const Shared& s) { return s.axes == axes && reads(s.read, x); });
        int64_t more = trips * out.width * bytes_of(x->dtype);
        bool room = trips * out.width <= kMostKeptElements && bytes + more <= (team_ < kLargeTeam ? kMostKeptBytes : kMostKeptOfLarge);
        bool unchanged = k_.buffers[x->ref].role == BufferRole::kIn;
        if (!flat || !walks(*flat, axes.back()) || !again || !room || !unchanged) return;
        bytes += more;
        out.kept.push_back({x, axes, static_cast<int>(trips)});
      });
    }
  }
  static bool is_kept(const RowPacks& packs, const Expr& load, const std::vector<int>& axes) {
    return std::ranges::any_of(packs.kept, [&](const KeptLoad& l) { return l.load == load && l.axes == axes; });
  }

  const Kernel& k_;
  int team_;
  bool plain_ = true;
  std::vector<Shared> shared_;
};

}  // namespace

bool reads(const Expr& e, const Expr& load) {
  bool found = false;
  visit(e, [&](const Expr& x) { found |= x == load; });
  return found;
}
bool computed_together(const Kernel& k, const Let& row, int team) {
  return row.combiner != Combiner::kNone && most(k, k.values[row.value].axes) * 4 <= team && most(k, row.reduce) > kLeastTogether;
}
std::vector<int> shared_axes(const Kernel& k, const Let& let, int team) {
  const std::vector<int>& own = k.values[let.value].axes;
  if (!own.empty()) return computed_together(k, let, team) ? let.reduce : own;
  bool together = let.combiner != Combiner::kNone && most(k, let.reduce) >= kLeastTogether;
  return together ? let.reduce : std::vector<int>();
}
std::vector<int> shared_axes(const Kernel& k, const Store& store) {
  std::vector<int> apart;
  for (int a : store.axes)
    if (!meets_along(k, store, a)) apart.push_back(a);
  return apart;
}

bool by_packs(const Kernel& k, const std::vector<int>& axes, int team, int width) {
  if (axes.empty() || width <= 1 || team <= 1) return false;
  const ir::Dim& last = k.axes[axes.back()].extent;
  return last.is_static() && last.value() % width == 0 && most(k, axes) >= int64_t{team} * width && most(k, axes) < 1 << 30;
}

RowPacks find_row_packs(const Kernel& kernel, const Body& body, int team) { return Finder(kernel, body, team).run(); }

}  // namespace nabla::kernel_ir
