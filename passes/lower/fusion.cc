#include "passes/lower/fusion.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "passes/lower/group_order.h"
#include "passes/lower/inline_maps.h"
#include "passes/lower/sibling_groups.h"

namespace nabla::passes {

using kernel_ir::Expr;
using kernel_ir::ExprKind;

int storage_of(const TensorGraph& graph, int tensor) {
  while (graph.tensors[tensor].kind == TensorKind::kView) tensor = graph.tensors[tensor].base;
  return tensor;
}

namespace {

constexpr size_t kLargestGroup = 16;
constexpr size_t kLargestKernel = 600;  // nodes of all members' formulas: up to here the host compiler's time is linear

// Whether the micro-kernel can still read the operands once maps were taken into the formula: a load each, at places
// that are affine, one of which moves with the rows and the other with the columns.
bool reads_as_product(const Formula& f) {
  const Expr& e = f.value;
  if (e->kind != ExprKind::kCall || e->fn->name != "mul") return false;
  bool rows[2], columns[2];
  for (int i : {0, 1}) {
    Expr x = kernel_ir::without_converts(e->args[i]);
    if (x->kind != ExprKind::kLoad || x->guard) return false;
    rows[i] = columns[i] = false;
    for (const Expr& at : x->args) {
      if (!kernel_ir::as_affine(at)) return false;
      rows[i] |= kernel_ir::uses_axis(at, f.rank - 2);
      columns[i] |= kernel_ir::uses_axis(at, f.rank - 1);
    }
  }
  return rows[0] != rows[1] && columns[0] == rows[1] && columns[1] == rows[0];
}

class Fuser {
 public:
  Fuser(TensorGraph graph, const ir::Function& f, const std::vector<ir::ValueId>& needed, const FusionLimits& limits,
        const std::vector<Donated>& donated)
      : f_(f), limits_(limits) {
    std::vector<bool> stored(graph.tensors.size(), false);
    for (ir::ValueId id : needed) stored[storage_of(graph, graph.of_value[id])] = true;
    InlineResult r = inline_maps(std::move(graph), stored, limits.by_sizes, limits.again_cost);
    // A view that became a formula of its own may itself be needed.
    stored.assign(stored.size(), false);
    for (ir::ValueId id : needed) stored[storage_of(r.graph, r.graph.of_value[id])] = true;
    plan_.graph = std::move(r.graph);
    for (Tensor& t : plan_.graph.tensors) t.contraction = t.contraction && reads_as_product(t.formula);
    plan_.scalar = std::move(r.scalar);
    plan_.external = stored;
    plan_.group_of.assign(stored.size(), -1);
    loads_.resize(stored.size());
    nodes_.resize(stored.size(), 0);
    for (size_t t = 0; t < loads_.size(); ++t) {
      if (tensor(static_cast<int>(t)).kind != TensorKind::kDefinition) continue;
      const Formula& f = tensor(static_cast<int>(t)).formula;
      loads_[t] = loads_of(f);
      kernel_ir::visit(f.scatter ? f.update : f.value, [&](const Expr&) { ++nodes_[t]; });
    }
    find_kept();
    find_behind();
    find_readers(donated);
  }

  FusionPlan run() {
    for (size_t t = 0; t < plan_.graph.tensors.size(); ++t)
      if (kept_[t] && plan_.graph.tensors[t].kind == TensorKind::kDefinition) place(static_cast<int>(t));
    if (limits_.fuse) unite_siblings(plan_, order_, results(), {kLargestGroup, kLargestKernel});
    mark_external();
    sort_groups();
    return std::move(plan_);
  }

 private:
  const Tensor& tensor(int t) const { return plan_.graph.tensors[t]; }
  const std::vector<int>& loads(int t) const { return loads_[t]; }
  int group_of_storage(int t) const { return plan_.group_of[storage_of(plan_.graph, t)]; }

  // By tensor: it holds a result of the function.
  std::vector<bool> results() const {
    std::vector<bool> out(plan_.graph.tensors.size(), false);
    for (ir::ValueId id : f_.results) out[storage_of(plan_.graph, plan_.graph.of_value[id])] = true;
    return out;
  }

  // Tensors that must be computed by a kernel: needed ones, and what kept formulas load. A scalar is part of its
  // readers unless it is needed itself.
  void find_kept() {
    kept_.assign(plan_.external.size(), false);
    std::vector<int> work;
    auto keep = [&](int t) {
      t = storage_of(plan_.graph, t);
      if (!visited_.insert(t).second) return;
      work.push_back(t);
    };
    for (size_t t = 0; t < plan_.external.size(); ++t)
      if (plan_.external[t]) kept_[t] = true, keep(static_cast<int>(t));
    while (!work.empty()) {
      int t = work.back();
      work.pop_back();
      if (tensor(t).kind != TensorKind::kDefinition) continue;
      if (!plan_.scalar[t]) kept_[t] = true;
      for (int u : loads(t)) keep(u);
    }
  }

  // ---- Which groups must run before which
  // By tensor: the kept tensors that it needs first. Of a kept tensor itself; of a scalar or of an opaque node's result
  // those of its inputs. Tensors are in dependency order, so each is found from earlier ones.
  void find_behind() {
    behind_.resize(plan_.graph.tensors.size());
    for (size_t t = 0; t < behind_.size(); ++t) {
      const Tensor& x = tensor(static_cast<int>(t));
      if (x.kind == TensorKind::kDefinition && kept_[t])
        behind_[t] = {static_cast<int>(t)};
      else if (x.kind == TensorKind::kDefinition)
        behind_[t] = union_behind(loads(static_cast<int>(t)));
      else if (x.kind == TensorKind::kGiven && x.node >= 0)
        behind_[t] = union_behind(passes::inputs_of(plan_.graph, f_, x.node));
    }
  }
  std::vector<int> union_behind(const std::vector<int>& tensors) const {
    std::vector<int> out;
    for (int u : tensors) {
      const std::vector<int>& of = behind_[storage_of(plan_.graph, u)];
      out.insert(out.end(), of.begin(), of.end());
    }
    std::sort(out.begin(), out.end());
    out.erase(std::unique(out.begin(), out.end()), out.end());
    return out;
  }
  // Groups that the formula reads, through scalars and opaque nodes.
  std::set<int> inputs_of(int t) const { return groups_behind(loads(t)); }
  std::set<int> groups_behind(const std::vector<int>& tensors) const {
    std::set<int> out;
    for (int s : union_behind(tensors))
      if (plan_.group_of[s] >= 0) out.insert(plan_.group_of[s]);
    return out;
  }
  // ---- Memory that results take over
  void find_readers(const std::vector<Donated>& donated) {
    for (const Donated& d : donated) {
      int old = storage_of(plan_.graph, plan_.graph.of_value[d.old]);
      int fresh = storage_of(plan_.graph, plan_.graph.of_value[d.fresh]);
      if (old != fresh) taken_by_[fresh] = old, readers_[old];
    }
    if (readers_.empty()) return;
    for (size_t t = 0; t < loads_.size(); ++t)
      if (kept_[t]) note_reads(static_cast<int>(t));
    for (int n : plan_.graph.opaque_nodes)
      for (ir::ValueId id : f_.nodes[n].operands) {
        auto r = readers_.find(storage_of(plan_.graph, plan_.graph.of_value[id]));
        if (r != readers_.end()) r->second.calls.push_back(n);
      }
  }
  // Records the donated memory that `reader` reads, itself or through scalars, which are part of their readers.
  void note_reads(int reader) {
    std::set<int> scalars;
    std::vector<int> work = {reader};
    while (!work.empty()) {
      int t = work.back();
      work.pop_back();
      for (int u : loads(t)) {
        int s = storage_of(plan_.graph, u);
        if (auto r = readers_.find(s); r != readers_.end()) r->second.tensors.push_back(reader);
        if (tensor(s).kind == TensorKind::kDefinition && plan_.scalar[s] && !kept_[s] && scalars.insert(s).second)
          work.push_back(s);
      }
    }
  }
  // Readers of the memory that t takes over come before it, as if it read what they make. Those that are placed later
  // stand later in the program, too, where a reader of an old value is rare: plan-memory refuses what cannot be.
  void add_readers(int t, std::set<int>& inputs) const {
    auto takes = taken_by_.find(t);
    if (takes == taken_by_.end()) return;
    const Readers& readers = readers_.at(takes->second);
    for (int r : readers.tensors)
      if (plan_.group_of[r] >= 0) inputs.insert(plan_.group_of[r]);
    for (int n : readers.calls) inputs.merge(groups_behind(passes::inputs_of(plan_.graph, f_, n)));
  }
  void place(int t) {
    std::set<int> inputs = inputs_of(t);
    add_readers(t, inputs);
    std::vector<int> candidates;
    for (int u : loads(t)) {
      int g = group_of_storage(u);
      if (g >= 0 && std::find(candidates.begin(), candidates.end(), g) == candidates.end()) candidates.push_back(g);
    }
    std::sort(candidates.rbegin(), candidates.rend());
    if (!tensor(t).formula.scatter && !tensor(t).contraction && !tensor(t).fence)
      for (int g : candidates) {
        // No other input of t may need g: the kernel would wait for itself.
        bool cycle = waits_for(t, g);
        for (int other : inputs) cycle |= other != g && order_.reaches(g, other);
        if (!cycle && join(t, g)) {
          inputs.erase(g);
          order_.add_inputs(g, inputs);
          for (int other : candidates)
            if (other != g) merge(t, g, other);
          return;
        }
      }
    FusionGroup group;
    const Tensor& x = tensor(t);
    group.contraction = x.contraction;
    FusionGroup::Member m{t, {}};
    for (int d = 0; d < x.formula.rank; ++d) {
      m.outer_axes.push_back(d);
      group.outer.push_back(x.shape[d]);
    }
    group.members.push_back(std::move(m));
    plan_.group_of[t] = static_cast<int>(plan_.groups.size());
    plan_.groups.push_back(std::move(group));
    order_.add(std::move(inputs));
  }

  // True when t reads what group g computes not as a member's element but through a scalar, which is computed at the
  // kernel's head, or through an opaque node, which runs after the kernel.
  bool waits_for(int t, int g) const {
    for (int u : loads(t)) {
      int s = storage_of(plan_.graph, u);
      const Tensor& x = tensor(s);
      bool definition = x.kind == TensorKind::kDefinition;
      if (plan_.group_of[s] == g || (definition && !plan_.scalar[s])) continue;
      std::vector<int> sources;
      if (definition)
        sources = loads(s);
      else if (x.node >= 0)
        sources = passes::inputs_of(plan_.graph, f_, x.node);
      for (int other : groups_behind(sources))
        if (order_.reaches(g, other)) return true;
    }
    return false;
  }

  // For each outer axis of the group, the axis of t that runs along it at every load of a member; -1: none does.
  std::optional<std::vector<int>> align(int t, const FusionGroup& g) const {
    std::vector<int> along(g.outer.size(), -2);  // -2: not seen yet
    bool reads_view = false;
    auto load_site = [&](const Expr& x) {
      int s = storage_of(plan_.graph, x->ref);
      auto m = std::find_if(g.members.begin(), g.members.end(), [&](const auto& member) { return member.tensor == s; });
      if (m == g.members.end()) return;
      if (s != x->ref) return void(reads_view = true);
      for (size_t o = 0; o < g.outer.size(); ++o) {
        const Expr& at = x->args[m->outer_axes[o]];
        int a = at->kind == ExprKind::kAxis && at->ref < tensor(t).formula.rank && !x->guard ? at->ref : -1;
        if (along[o] == -2)
          along[o] = a;
        else if (along[o] != a)
          along[o] = -1;
      }
    };
    auto scan = [&](const Expr& e) {
      if (e)
        kernel_ir::visit(e, [&](const Expr& x) {
          if (x->kind == ExprKind::kLoad) load_site(x);
        });
    };
    scan(tensor(t).formula.value);
    if (reads_view) return std::nullopt;
    for (size_t o = 0; o < along.size(); ++o) {
      if (along[o] < 0)
        along[o] = -1;
      else if (!(tensor(t).shape[along[o]] == g.outer[o]))
        along[o] = -1;
      for (size_t p = 0; p < o; ++p)
        if (along[o] >= 0 && along[p] == along[o]) along[o] = -1;
    }
    return along;
  }

  bool join(int t, int g_index) {
    FusionGroup& g = plan_.groups[g_index];
    if (!limits_.fuse) return false;
    if (g.members.size() >= kLargestGroup || nodes_of(g) + nodes_[t] > kLargestKernel) return false;
    if (tensor(g.members[0].tensor).formula.scatter) return false;
    for (const auto& m : g.members)
      if (tensor(m.tensor).fence) return false;
    std::optional<std::vector<int>> along = align(t, g);
    if (!along) return false;
    std::vector<size_t> keep;
    for (size_t o = 0; o < g.outer.size(); ++o)
      if ((*along)[o] >= 0) keep.push_back(o);
    if (g.contraction && (keep.size() != g.outer.size() || !tensor(t).formula.is_map() ||
                          tensor(t).formula.rank != static_cast<int>(g.outer.size())))
      return false;
    if (g.contraction)  // the epilogue walks tiles as the product lies
      for (size_t o = 0; o < keep.size(); ++o)
        if ((*along)[o] != static_cast<int>(o)) return false;
    if (!worth_joining(t, g, *along, keep)) return false;
    ir::Shape outer;
    for (size_t o : keep) outer.push_back(g.outer[o]);
    for (auto& m : g.members) {
      std::vector<int> axes;
      for (size_t o : keep) axes.push_back(m.outer_axes[o]);
      m.outer_axes = std::move(axes);
    }
    FusionGroup::Member added{t, {}};
    for (size_t o : keep) added.outer_axes.push_back((*along)[o]);
    g.outer = std::move(outer);
    g.members.push_back(std::move(added));
    plan_.group_of[t] = g_index;
    return true;
  }

  // Does m, of another group, read members of g only at its own position? along[o]: m's outer axis of g's outer axis o.
  bool runs_along(const FusionGroup::Member& m, const FusionGroup& g, const std::vector<size_t>& along) const {
    bool reads = false;
    for (int u : loads(m.tensor))
      for (const auto& member : g.members) reads |= member.tensor == storage_of(plan_.graph, u);
    if (!reads) return true;
    std::optional<std::vector<int>> axes = align(m.tensor, g);
    if (!axes) return false;
    for (size_t o = 0; o < along.size(); ++o)
      if ((*axes)[o] != m.outer_axes[along[o]]) return false;
    return true;
  }

  // t, a member of g, also reads group `other`: one kernel for both where they run over the same positions of t and
  // nothing between them must wait.
  void merge(int t, int g, int other) {
    FusionGroup &a = plan_.groups[g], &b = plan_.groups[other];
    if (a.contraction || b.contraction || b.members.empty() || a.members.size() + b.members.size() > kLargestGroup ||
        nodes_of(a) + nodes_of(b) > kLargestKernel)
      return;
    if (tensor(b.members[0].tensor).formula.scatter || a.outer.size() != b.outer.size()) return;
    for (const auto& m : b.members)
      if (tensor(m.tensor).fence) return;
    std::optional<std::vector<int>> along = align(t, b);
    if (!along) return;
    const std::vector<int>& mine = a.members.back().outer_axes;
    std::vector<size_t> place;  // outer axis of b for each outer axis of a
    for (int axis : mine) {
      auto it = std::find(along->begin(), along->end(), axis);
      if (it == along->end()) return;
      place.push_back(it - along->begin());
    }
    for (auto [from, to] : {std::pair(g, other), std::pair(other, g)})
      for (int d : order_.inputs_of(to))
        if (d != from && order_.reaches(from, d)) return;
    std::vector<size_t> back(place.size());
    for (size_t o = 0; o < place.size(); ++o) back[place[o]] = o;
    for (const auto& m : a.members)
      if (waits_for(m.tensor, other) || !runs_along(m, b, back)) return;
    for (const auto& m : b.members)
      if (waits_for(m.tensor, g) || !runs_along(m, a, place)) return;
    int64_t outer = positions(a.outer);
    for (const auto& m : b.members) {
      if (!limits_.by_sizes && !has_no_rows(m.tensor, a)) return;
      if (tensor(m.tensor).size() / std::max<int64_t>(outer, 1) * bytes_of(tensor(m.tensor).dtype) > limits_.row_bytes)
        return;
    }
    for (const auto& m : b.members) {
      FusionGroup::Member moved{m.tensor, {}};
      for (size_t o : place) moved.outer_axes.push_back(m.outer_axes[o]);
      a.members.push_back(std::move(moved));
      plan_.group_of[m.tensor] = g;
    }
    b.members.clear();
    std::sort(a.members.begin(), a.members.end(), [](const auto& x, const auto& y) { return x.tensor < y.tensor; });
    order_.merge(g, other);
  }

  size_t nodes_of(const FusionGroup& g) const {
    size_t n = 0;
    for (const auto& m : g.members) n += nodes_[m.tensor];
    return n;
  }

  static int64_t positions(const ir::Shape& axes) { return most(ir::Type(DType::kF32, axes).count()); }

  // One element of the tensor for each of the group's iterations.
  bool has_no_rows(int t, const FusionGroup& g) const { return tensor(t).formula.rank == static_cast<int>(g.outer.size()); }

  // Would iterations over the outer axes that are kept walk along columns of a member: its last axis is one of them?
  bool walks_columns(const FusionGroup& g, const std::vector<size_t>& keep) const {
    for (const auto& m : g.members)
      for (size_t o : keep)
        if (m.outer_axes[o] == tensor(m.tensor).formula.rank - 1) return true;
    return false;
  }

  // The axes that stop being outer become rows inside the kernel: they must fit, and enough outer work must remain.
  bool worth_joining(int t, const FusionGroup& g, const std::vector<int>& along, const std::vector<size_t>& keep) const {
    if (!limits_.by_sizes) return keep.size() == g.outer.size() && has_no_rows(t, g);
    ir::Shape kept;
    for (size_t o : keep) kept.push_back(g.outer[o]);
    int64_t outer = positions(kept), total = positions(g.outer);
    int64_t points = tensor(t).formula.points();
    for (const auto& m : g.members) points += tensor(m.tensor).formula.points();
    auto row = [&](int u, const std::vector<int>& axis_of) {
      int64_t bytes = tensor(u).size() / std::max<int64_t>(outer, 1) * bytes_of(tensor(u).dtype);
      for (size_t o : keep)
        if (axis_of[o] == tensor(u).formula.rank - 1) bytes *= std::min(limits_.lanes, most(g.outer[o]));
      return bytes;
    };
    for (const auto& m : g.members)
      if (row(m.tensor, m.outer_axes) > limits_.row_bytes) return false;
    bool all_kept = keep.size() == g.outer.size();
    if (!all_kept && limits_.column_points > 0 && total / std::max<int64_t>(outer, 1) > limits_.column_points &&
        walks_columns(g, keep))
      return false;
    if (!all_kept && row(t, along) > limits_.row_bytes) return false;
    if (limits_.iteration_points > 0) {
      // Threads share an iteration; what counts is that there are enough iterations, or that none is long.
      if (outer >= limits_.parallel || points <= limits_.serial_points) return true;
      int64_t added = all_kept ? tensor(t).formula.points() : points;
      return added / std::max<int64_t>(outer, 1) <= limits_.iteration_points;
    }
    return all_kept || points <= limits_.serial_points || outer >= limits_.parallel || outer * 4 >= total;
  }

  void mark_external() {
    std::vector<std::vector<int>> kept_of(plan_.groups.size());
    for (size_t t = 0; t < plan_.graph.tensors.size(); ++t)
      if (kept_[t] && tensor(static_cast<int>(t)).kind == TensorKind::kDefinition)
        kept_of[plan_.group_of[t]].push_back(static_cast<int>(t));
    for (size_t g = 0; g < kept_of.size(); ++g) mark_reads(std::move(kept_of[g]), static_cast<int>(g));
  }
  // A tensor that group `g` reads from another group must be in memory. A kernel computes scalars itself, so the search
  // continues through them. Each is visited once per group.
  void mark_reads(std::vector<int> work, int g) {
    std::set<int> scalars;
    while (!work.empty()) {
      int t = work.back();
      work.pop_back();
      for (int u : loads(t)) {
        int s = storage_of(plan_.graph, u);
        if (tensor(s).kind != TensorKind::kDefinition || plan_.group_of[s] == g) continue;
        if (!plan_.scalar[s])
          plan_.external[s] = true;
        else if (scalars.insert(s).second)
          work.push_back(s);
      }
    }
  }

  void sort_groups() {
    std::vector<int> order;
    std::vector<int> state(plan_.groups.size(), 0);
    std::function<void(int)> visit = [&](int g) {
      if (state[g]) return;
      state[g] = 1;
      for (int d : order_.inputs_of(g)) visit(d);
      order.push_back(g);
    };
    for (size_t g = 0; g < plan_.groups.size(); ++g)
      if (!plan_.groups[g].members.empty()) visit(static_cast<int>(g));
    std::vector<FusionGroup> sorted;
    std::vector<int> place(plan_.groups.size(), -1);
    for (int g : order) {
      place[g] = static_cast<int>(sorted.size());
      sorted.push_back(std::move(plan_.groups[g]));
    }
    plan_.groups = std::move(sorted);
    for (int& g : plan_.group_of)
      if (g >= 0) g = place[g];
  }

  const ir::Function& f_;
  FusionLimits limits_;
  FusionPlan plan_;
  std::vector<std::vector<int>> loads_;  // per definition: the tensors that its formula loads
  std::vector<size_t> nodes_;            // per definition: of its formula
  std::vector<bool> kept_;
  std::vector<std::vector<int>> behind_;  // see find_behind
  std::set<int> visited_;
  GroupOrder order_;
  struct Readers {
    std::vector<int> tensors, calls;  // calls: nodes
  };
  std::map<int, int> taken_by_;     // of a tensor that takes over the memory of a given one: that one
  std::map<int, Readers> readers_;  // by given tensor whose memory is taken over
};

}  // namespace

FusionLimits fusion_limits(const ir::Target& target) {
  FusionLimits limits;
  if (!target.is_cuda()) {  // rows live on the stack of a CPU's thread, in cache
    limits.lanes = target.lanes(DType::kF32);
    limits.by_sizes = !target.deterministic;
    return limits;
  }
  // Rows live in the shared memory of one block; two blocks fill a multiprocessor.
  limits.parallel = 2 * target.cuda.multiprocessors;
  limits.iteration_points = 8 << 10;
  limits.column_points = 16;
  limits.again_cost = 64;  // a GPU computes some hundred times in the time of one access
  return limits;
}

FusionPlan plan_fusion(TensorGraph graph, const ir::Function& function, const std::vector<ir::ValueId>& needed,
                       const FusionLimits& limits, const std::vector<Donated>& donated) {
  return Fuser(std::move(graph), function, needed, limits, donated).run();
}

}  // namespace nabla::passes
