#include "passes/lower/build_kernel.h"

#include <algorithm>
#include <map>
#include <set>

#include "ir/kernel_ir/contract.h"

namespace nabla::passes {

using namespace kernel_ir;  // NOLINT: this file builds kernel_ir

namespace {

class KernelBuilder {
 public:
  KernelBuilder(const FusionPlan& plan, int group) : plan_(plan), g_(plan.groups[group]), group_(group) {}

  BuiltKernel run() {
    Kernel& k = out_.kernel;
    k.name = name();
    static constexpr const char* kOuter[] = {"i", "j", "k", "l0", "l1", "l2", "l3", "l4"};
    for (size_t o = 0; o < g_.outer.size(); ++o)
      outer_.push_back(add_axis(o < std::size(kOuter) ? kOuter[o] : "o" + std::to_string(o), g_.outer[o]));
    Body inner;
    for (const auto& m : g_.members) member(m, g_.contraction ? k.body : inner);
    Body& last = g_.contraction ? k.body : inner;
    last.insert(last.end(), std::make_move_iterator(stores_.begin()), std::make_move_iterator(stores_.end()));
    if (!g_.contraction) {
      k.body.insert(k.body.begin(), std::make_move_iterator(heads_.begin()), std::make_move_iterator(heads_.end()));
      if (outer_.empty())
        k.body.insert(k.body.end(), std::make_move_iterator(inner.begin()), std::make_move_iterator(inner.end()));
      else
        k.body.push_back({For{outer_, std::move(inner)}});
    } else {
      k.body.insert(k.body.begin(), std::make_move_iterator(heads_.begin()), std::make_move_iterator(heads_.end()));
    }
    finish_buffers();
    return std::move(out_);
  }

 private:
  const Tensor& tensor(int t) const { return plan_.graph.tensors[t]; }
  // The name, or with "_", "__", "_3", "_4"... after it: where it was left off, as a chain of scalars asks often.
  std::string unique(const std::string& name) {
    std::string out = name;
    for (int& n = repeats_[name]; !names_.insert(out).second;)
      out = ++n < 3 ? name + std::string(n, '_') : fmt::format("{}_{}", name, n);
    return out;
  }
  int add_axis(const std::string& name, const ir::Dim& extent) {
    out_.kernel.axes.push_back({unique(name), extent});
    return static_cast<int>(out_.kernel.axes.size()) - 1;
  }
  int add_value(const std::string& name, DType dtype, std::vector<int> axes) {
    out_.kernel.values.push_back({unique(name), dtype, std::move(axes)});
    return static_cast<int>(out_.kernel.values.size()) - 1;
  }

  // Named after its members, shortened: "dot_general_add_maximum".
  std::string name() const {
    std::string out;
    std::set<std::string> seen;
    for (const auto& m : g_.members) {
      const std::string& n = tensor(m.tensor).name;
      if (!seen.insert(n).second || out.size() + n.size() > 40) continue;
      out += (out.empty() ? "" : "_") + n;
    }
    return out;
  }

  // Inner axes are shared between members: the p-th one of an extent is always the same axis.
  int inner_axis(const ir::Dim& extent, std::map<std::string, int>& used) {
    int nth = used[extent.str()]++;
    auto key = std::make_pair(extent.str(), nth);
    if (auto it = inner_.find(key); it != inner_.end()) return it->second;
    std::string name = "r" + std::to_string(inner_.size());
    return inner_[key] = add_axis(name, extent);
  }

  int buffer_of(int t, BufferRole role) {
    if (auto it = buffers_.find(t); it != buffers_.end()) return it->second;
    const Tensor& x = tensor(t);
    std::string name = x.name.empty() ? "x" : x.name;
    for (char& c : name)
      if (!isalnum(static_cast<unsigned char>(c))) c = '_';
    if (isdigit(static_cast<unsigned char>(name[0]))) name = "x" + name;
    while (!names_.insert(name).second) name += std::to_string(buffers_.size());
    out_.kernel.buffers.push_back({name, x.dtype, x.shape, role});
    (role == BufferRole::kIn ? operand_buffers_ : result_buffers_)
        .push_back({t, static_cast<int>(out_.kernel.buffers.size()) - 1});
    return buffers_[t] = static_cast<int>(out_.kernel.buffers.size()) - 1;
  }

  // A tensor that other members read while the kernel runs.
  bool read_inside(int t) const {
    for (const auto& m : g_.members)
      for (int u : loads_of(tensor(m.tensor).formula))
        if (u == t && m.tensor != t) return true;
    return false;
  }

  void member(const FusionGroup::Member& m, Body& body) {
    const Tensor& x = tensor(m.tensor);
    const Formula& f = x.formula;
    std::vector<int> axis_of(f.extents.size(), -1);  // kernel axis of each of the formula's axes
    for (size_t o = 0; o < outer_.size(); ++o) axis_of[m.outer_axes[o]] = outer_[o];
    std::map<std::string, int> used;
    std::vector<int> own, reduce;
    for (size_t a = 0; a < f.extents.size(); ++a) {
      if (axis_of[a] >= 0) continue;
      if (f.scatter && a < static_cast<size_t>(f.rank)) continue;
      axis_of[a] = inner_axis(f.extents[a], used);
      (a < static_cast<size_t>(f.rank) ? own : reduce).push_back(axis_of[a]);
    }
    member_outer_[m.tensor] = m.outer_axes;
    if (f.scatter) return scatter(m, axis_of, body);
    Expr value = translate(f.value, axis_of);
    bool external = plan_.external[m.tensor];
    // Stores come last, so that a result may take over the memory of an operand that another member still reads.
    bool as_let =
        read_inside(m.tensor) || f.combiner != Combiner::kNone || (external && own.empty() && several_stores());
    if (as_let) {
      int v = add_value(x.name, x.dtype, g_.contraction ? outer_ : own);
      values_[m.tensor] = v;
      body.push_back({Let{v, f.combiner, reduce, value, g_.contraction && x.contraction}});
      value = kernel_ir::value(x.dtype, v, axes_as_indices(out_.kernel.values[v].axes));
    }
    if (!external) return;
    std::vector<Expr> at;
    for (int a = 0; a < f.rank; ++a) at.push_back(axis(axis_of[a]));
    Store store{buffer_of(m.tensor, BufferRole::kOut),
                std::move(at),
                g_.contraction ? outer_ : own,
                Combiner::kNone,
                value,
                Expr()};
    stores_.push_back({std::move(store)});
  }
  bool several_stores() const {
    return std::count_if(g_.members.begin(), g_.members.end(),
                         [&](const auto& m) { return plan_.external[m.tensor]; }) > 1;
  }

  // The initial value over all of the tensor, then the updates one after the other.
  void scatter(const FusionGroup::Member& m, std::vector<int> axis_of, Body&) {
    const Formula& f = tensor(m.tensor).formula;
    std::vector<int> all, updates;
    for (int a = 0; a < f.rank; ++a)
      axis_of[a] = add_axis("s" + std::to_string(a), f.extents[a]), all.push_back(axis_of[a]);
    for (size_t a = f.rank; a < f.extents.size(); ++a) updates.push_back(axis_of[a]);
    // The kernel is the scatter alone: its outer axes stay unused.
    outer_.clear();
    int target = buffer_of(m.tensor, BufferRole::kOut);
    out_.kernel.buffers[target].role = BufferRole::kInOut;  // combining starts from the stored value
    Store start{target, axes_as_indices(all), {}, Combiner::kNone, translate(f.value, axis_of), Expr()};
    Store add{target, {}, {}, f.combiner, translate(f.update, axis_of), Expr()};
    for (size_t d = 0; d < f.indices.size(); ++d) {
      Expr i = translate(f.indices[d], axis_of);
      add.indices.push_back(i);
      std::optional<Affine> affine = as_affine(i);
      bool inside = affine && affine->constant.is(0) && affine->coefficients.size() == 1 &&
                    affine->coefficients.begin()->second.is(1) &&
                    ir::Dim::less_equal(out_.kernel.axes[affine->coefficients.begin()->first].extent, f.extents[d])
                        .value_or(false);
      if (inside) continue;
      Expr ok = both(ge(i, kernel_ir::index(0)), lt(i, kernel_ir::dim(f.extents[d])));
      add.guard = add.guard ? both(add.guard, ok) : ok;
    }
    Body first, second;
    first.push_back({std::move(start)});
    // Neighbouring columns of an update may go to lanes: the innermost update axis, where it is plain.
    int lane =
        !updates.empty() && !add.indices.empty() && add.indices.back() == axis(updates.back()) ? updates.back() : -1;
    if (lane >= 0) add.axes = {lane}, updates.pop_back();
    second.push_back({std::move(add)});
    if (!all.empty()) std::get<Store>(first[0].node).axes = {all.back()}, all.pop_back();
    if (all.empty())
      out_.kernel.body.push_back(std::move(first[0]));
    else
      out_.kernel.body.push_back({For{all, std::move(first)}});
    if (updates.empty())
      out_.kernel.body.push_back(std::move(second[0]));
    else
      out_.kernel.body.push_back({For{updates, std::move(second)}});
  }

  // Formula axes become kernel axes; loads become buffers, values of members, or scalars at the kernel's head.
  Expr translate(const Expr& e, const std::vector<int>& axis_of) {
    std::function<Expr(const Expr&)> change = [&](const Expr& x) -> Expr {
      if (x->kind == ExprKind::kAxis) return axis(axis_of[x->ref]);
      if (x->kind != ExprKind::kLoad) return Expr();
      std::vector<Expr> at;
      for (const Expr& i : x->args) at.push_back(rewrite(i, change));
      Expr guard = x->guard ? rewrite(x->guard, change) : Expr(), fill = x->fill ? rewrite(x->fill, change) : Expr();
      return read(x, at, guard, fill);
    };
    return rewrite(e, change);
  }
  Expr read(const Expr& x, const std::vector<Expr>& at, const Expr& guard, const Expr& fill) {
    int t = x->ref, s = storage_of(plan_.graph, t);
    if (values_.count(t)) {
      std::vector<Expr> own;
      const std::vector<int>& outer_axes = member_outer_.at(t);
      for (size_t d = 0; d < at.size(); ++d) {
        bool is_outer = std::find(outer_axes.begin(), outer_axes.end(), static_cast<int>(d)) != outer_axes.end();
        if (!is_outer || g_.contraction) own.push_back(at[d]);
      }
      Expr v = kernel_ir::value(x->dtype, values_.at(t), own);
      return guard ? select(guard, clamp_row(v), fill) : v;
    }
    if (plan_.scalar[s] && plan_.group_of[s] != group_) {
      Expr v = scalar(s);
      return guard ? select(guard, v, fill) : v;
    }
    int b = buffer_of(t, BufferRole::kIn);
    return guard ? guarded_load(x->dtype, b, at, guard, fill) : load(x->dtype, b, at);
  }
  // A guarded read of a row stays inside the row where the guard is false.
  Expr clamp_row(const Expr& v) {
    std::vector<Expr> at;
    const ValueInfo& info = out_.kernel.values[v->ref];
    for (size_t d = 0; d < v->args.size(); ++d) {
      ir::Dim last = out_.kernel.axes[info.axes[d]].extent - 1;
      at.push_back(call("minimum", {call("maximum", {v->args[d], kernel_ir::index(0)}), kernel_ir::dim(last)}));
    }
    return kernel_ir::value(v->dtype, v->ref, at);
  }
  Expr scalar(int s) {
    const Tensor& x = tensor(s);
    if (x.kind != TensorKind::kDefinition) return load(x.dtype, buffer_of(s, BufferRole::kIn), {});
    if (auto it = scalars_.find(s); it != scalars_.end()) return it->second;
    Expr e = translate(x.formula.value, {});
    int v = add_value(x.name, x.dtype, {});
    heads_.push_back({Let{v, Combiner::kNone, {}, e, false}});
    return scalars_[s] = kernel_ir::value(x.dtype, v, {});
  }

  // Operands first, then results, as launches pass them.
  void finish_buffers() {
    Kernel& k = out_.kernel;
    std::vector<int> place(k.buffers.size());
    std::vector<Buffer> sorted;
    for (auto* list : {&operand_buffers_, &result_buffers_})
      for (auto [t, b] : *list) {
        place[b] = static_cast<int>(sorted.size());
        sorted.push_back(k.buffers[b]);
        (list == &operand_buffers_ ? out_.operands : out_.results).push_back(t);
      }
    k.buffers = std::move(sorted);
    auto change = [&](const Expr& e) {
      std::function<Expr(const Expr&)> f = [&](const Expr& x) -> Expr {
        if (x->kind != ExprKind::kLoad) return Expr();
        std::vector<Expr> at;
        for (const Expr& i : x->args) at.push_back(rewrite(i, f));
        if (!x->guard) return load(x->dtype, place[x->ref], at);
        return guarded_load(x->dtype, place[x->ref], at, rewrite(x->guard, f), rewrite(x->fill, f));
      };
      return e ? rewrite(e, f) : e;
    };
    std::function<void(Body&)> walk = [&](Body& body) {
      for (Stmt& s : body) {
        if (Let* let = std::get_if<Let>(&s.node)) let->expr = change(let->expr);
        if (For* loop = std::get_if<For>(&s.node)) walk(loop->body);
        if (Store* store = std::get_if<Store>(&s.node)) {
          store->buffer = place[store->buffer];
          store->expr = change(store->expr);
          store->guard = change(store->guard);
          for (Expr& i : store->indices) i = change(i);
        }
      }
    };
    walk(k.body);
  }

  const FusionPlan& plan_;
  const FusionGroup& g_;
  int group_;
  BuiltKernel out_;
  Body heads_;
  std::vector<int> outer_;
  std::set<std::string> names_;
  std::map<std::string, int> repeats_;  ///< how often unique() had to change a name
  std::map<std::pair<std::string, int>, int> inner_;
  std::map<int, int> buffers_, values_;
  std::map<int, Expr> scalars_;
  Body stores_;
  std::map<int, std::vector<int>> member_outer_;
  std::vector<std::pair<int, int>> operand_buffers_, result_buffers_;
};

}  // namespace

BuiltKernel build_kernel(const FusionPlan& plan, int group) { return KernelBuilder(plan, group).run(); }

}  // namespace nabla::passes
