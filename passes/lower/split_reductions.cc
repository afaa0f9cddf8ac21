#include "passes/lower/schedule_kernels.h"

#include <algorithm>
#include <map>

#include "passes/lower/named_axis.h"

namespace nabla::passes {

using namespace kernel_ir;  // NOLINT: this file rewrites kernel_ir

namespace {

constexpr int64_t kLeastWork = 32 << 10;  // elements, below which a second grid costs more than it gains
constexpr int64_t kThreadsWanted = 1024;  // of every multiprocessor
constexpr int64_t kWidestTeam = 1024;     // threads that share one sum
constexpr int64_t kMostReductionSlices = 512, kLeastReductionSlice = 4;

class ReductionSplitter {
 public:
  ReductionSplitter(Kernel& k, const ir::Target& target) : k_(k), target_(target) {}

  void run() {
    Body* body = find_body();
    if (!body || !find_reductions(*body)) return;
    Body first;
    for (auto& [axes, lets] : groups_)
      if (int64_t slices = slices_for(axes, *lets[0]); slices > 1) first.push_back(slice(axes, lets, slices));
    if (first.empty()) return;
    if (body == &k_.body) {  // a loop of one iteration, so that each statement is a grid
      int one = add_axis("u", 1);
      For rest{{one}, std::move(k_.body)};
      k_.body.clear();
      k_.body.push_back({std::move(rest)});
    }
    k_.body.insert(k_.body.begin(), std::make_move_iterator(first.begin()), std::make_move_iterator(first.end()));
  }

 private:
  int64_t most(int axis) const { return k_.axes[axis].extent.bounds().max; }
  int64_t points(const std::vector<int>& axes) const {
    int64_t n = 1;
    for (int a : axes) n *= std::max<int64_t>(most(a), 1);
    return n;
  }
  int add_axis(const std::string& name, ir::Dim extent) { return add_named_axis(k_, name, std::move(extent)); }

  // The kernel's only loop, or the kernel itself where there is none.
  Body* find_body() {
    if (k_.procedure) return nullptr;
    if (k_.body.size() == 1)
      if (For* f = std::get_if<For>(&k_.body[0].node)) return outer_ = f->axes, &f->body;
    bool flat = std::all_of(k_.body.begin(), k_.body.end(), [](const Stmt& s) {
      return std::holds_alternative<Let>(s.node) || std::holds_alternative<Store>(s.node);
    });
    return flat ? &k_.body : nullptr;
  }
  // Reductions of what stands in memory alone, by the axes that they run along.
  bool find_reductions(Body& body) {
    for (Stmt& s : body) {
      Let* let = std::get_if<Let>(&s.node);
      if (!let) {
        if (!std::holds_alternative<Store>(s.node)) return false;
        continue;
      }
      if (let->contract || !k_.values[let->value].axes.empty()) return false;
      if (let->reduce.empty()) continue;
      bool reads_values = false;
      visit(let->expr, [&](const Expr& x) { reads_values |= x->kind == ExprKind::kValue; });
      if (reads_values) return false;
      groups_[let->reduce].push_back(let);
    }
    return !groups_.empty();
  }

  // How many threads share a sum unsplit: neighbours in memory are read by neighbouring threads.
  int64_t team(const std::vector<int>& axes, const Let& let) const {
    bool across = false;
    visit(let.expr, [&](const Expr& x) {
      if (x->kind == ExprKind::kLoad && !x->args.empty())
        for (int a : outer_) across |= x->args.back() == axis(a);
    });
    return across ? 1 : std::min(kWidestTeam, points(axes));
  }
  static int longest_of(const Kernel& k, const std::vector<int>& axes) {
    return *std::max_element(axes.begin(), axes.end(), [&](int a, int b) {
      return k.axes[a].extent.bounds().max < k.axes[b].extent.bounds().max;
    });
  }
  int64_t slices_for(const std::vector<int>& axes, const Let& let) const {
    int64_t positions = points(outer_);
    if (positions * points(axes) < kLeastWork) return 1;
    int64_t busy = positions * team(axes, let), wanted = target_.cuda.multiprocessors * kThreadsWanted / busy;
    const ir::Dim& extent = k_.axes[longest_of(k_, axes)].extent;
    wanted = std::min({wanted, kMostReductionSlices, extent.bounds().max / kLeastReductionSlice});
    if (wanted < 2 || !extent.is_static()) return wanted;
    for (int64_t n = wanted; n > wanted / 2; --n)  // slices of one length, where there are any
      if (extent.value() % n == 0) return n;
    return wanted;
  }

  // The statement that reduces slices; the reductions then combine what it leaves.
  Stmt slice(const std::vector<int>& axes, const std::vector<Let*>& lets, int64_t slices) {
    int along = longest_of(k_, axes);
    ir::Dim whole = k_.axes[along].extent, length = ir::Dim::ceildiv(whole, slices);
    int slice = add_axis("slice", slices), part = add_axis("part", length);
    Expr at = axis(slice) * dim(length) + axis(part), inside;
    if (!(length * slices == whole)) inside = lt(at, dim(whole)), at = call("minimum", {at, dim(whole - 1)});
    std::vector<int> reduce = axes;
    std::replace(reduce.begin(), reduce.end(), along, part);
    For out{{slice}, {}};
    out.axes.insert(out.axes.end(), outer_.begin(), outer_.end());
    std::vector<Expr> place;
    ir::Shape shape;
    for (int a : out.axes) place.push_back(axis(a)), shape.push_back(k_.axes[a].extent);
    Body stores;
    for (Let* let : lets) {
      DType dtype = k_.values[let->value].dtype;
      int value = static_cast<int>(k_.values.size()), parts = static_cast<int>(k_.buffers.size());
      k_.values.push_back({k_.values[let->value].name + "_part", dtype, {}});
      k_.buffers.push_back({fmt::format("parts{}", parts), dtype, shape, BufferRole::kWorkspace});
      Expr e = substitute_axes(let->expr, {{along, at}});
      if (inside) e = select(inside, e, identity_of(let->combiner, e->dtype));
      out.body.push_back({Let{value, let->combiner, reduce, e}});
      stores.push_back({Store{parts, place, {}, Combiner::kNone, kernel_ir::value(dtype, value, {}), {}}});
      let->reduce = {slice};
      let->expr = load(dtype, parts, place);
    }
    std::move(stores.begin(), stores.end(), std::back_inserter(out.body));
    return {std::move(out)};
  }

  Kernel& k_;
  const ir::Target& target_;
  std::vector<int> outer_;
  std::map<std::vector<int>, std::vector<Let*>> groups_;
};

}  // namespace

void split_reductions(Kernel& kernel, const ir::Target& target) {
  if (target.is_cuda()) ReductionSplitter(kernel, target).run();
}

}  // namespace nabla::passes
