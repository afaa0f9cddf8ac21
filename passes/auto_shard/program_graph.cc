#include "passes/auto_shard/program_graph.h"

#include <algorithm>
#include <numeric>
#include <tuple>

#include "ir/control_ties.h"
#include "ir/linearity.h"
#include "ir/typed.h"
#include "passes/auto_shard/auto_shard.h"
#include "passes/rewrite.h"
#include "passes/shard/layout.h"
#include "passes/shard/rules/rules.h"

namespace nabla::passes {
namespace {

using ir::Factors;
using ir::Function;
using ir::Node;
using ir::ValueId;

constexpr double kTripsOfWhile = 8;  // nobody knows them

bool is_shard(const Node& n) { return n.op->layout_role == ir::LayoutRole::kShard; }
bool follows(const Node& n, const Factors& factors) {
  return !is_product(n) && std::all_of(factors.factors.begin(), factors.factors.end(),
                                       [](const Factors::Factor& f) { return f.kind == Factors::Kind::kPass; });
}

using Values = SpotsOfValues;

class Builder {
 public:
  explicit Builder(const ir::Module& m) : m_(m) {}

  Result<ProgramGraph> run() {
    std::vector<ir::FunctionPtr> order = NABLA_TRY(bottom_up(m_));
    for (const ir::StateLeaf& leaf : m_.state) {
      Spot spot = out_.ties.add(leaf.type);
      out_.stored.push_back({spot, leaf.sharding, static_cast<int>(out_.stored.size())});
    }
    for (const ir::Entry& e : m_.entries) times_[e.function] += weight_of(m_, e);
    for (auto f = order.rbegin(); f != order.rend(); ++f) count_callees(**f);
    for (auto f = order.rbegin(); f != order.rend(); ++f)
      if (times_[(*f)->name] > 0) number(**f);
    for (auto f = order.rbegin(); f != order.rend(); ++f)
      if (times_[(*f)->name] > 0)
        for (const Node& n : (*f)->nodes) visit(**f, n);
    for (const ir::Entry& e : m_.entries) {
      const Function& f = *m_.find(e.function);
      for (size_t w = 0; w < e.writes.size(); ++w) link(f, nullptr, use(f, f.results[w]), static_cast<Spot>(e.writes[w]));
      keep_at_fullest(f);
    }
    return std::move(out_);
  }

 private:
  void count_callees(const Function& f) {
    for (const Node& n : f.nodes) {
      if (n.op->lower != ir::Lowering::kControl) continue;
      ir::ControlFlow c = ir::control_of(f, n);
      double trips = c.kind == ir::ControlFlow::Kind::kWhile ? kTripsOfWhile : 1;
      if (c.kind == ir::ControlFlow::Kind::kLoop) trips = static_cast<double>(std::max<int64_t>(1, c.trips.bounds().max));
      for (const std::string& name : c.functions) times_[name] += times_[f.name] * trips;
      if (!c.unasked.empty()) times_[c.unasked] += 0;
    }
  }

  // ---- Tensors of values.
  void number(const Function& f) {
    Values& v = out_.values[&f];
    v.said.resize(f.values.size(), -1), v.settled.resize(f.values.size(), -1);
    v.free = made_of_scalars(f);
    for (const ir::Value& value : f.values) v.spot.push_back(out_.ties.add(value.type));
    const ir::Entry* entry = m_.entry_of(f.name);
    for (size_t p = 0; entry && p < f.params.size(); ++p) {
      auto id = static_cast<size_t>(f.params[p]);
      bool reads = p < entry->reads.size();
      v.said[id] = reads ? static_cast<Spot>(entry->reads[p]) : store(f.values[id].type, f.values[id].sharding);
      StoredSpot& stored = reads ? out_.stored[static_cast<size_t>(entry->reads[p])] : out_.stored.back();
      if (reads && !stored.said) stored.said = f.values[id].sharding;
      if (!reads) stored.entry = static_cast<int>(entry - m_.entries.data()), stored.input = p - entry->reads.size();
    }
    for (size_t id = 0; id < f.values.size(); ++id)
      if (f.values[id].sharding && v.said[id] < 0) {
        v.said[id] = store(f.values[id].type, f.values[id].sharding);
        link(f, nullptr, v.spot[id], v.said[id]);
      }
    v.maker.resize(f.values.size(), nullptr);
    for (const Node& n : f.nodes)
      for (ValueId id : n.results) v.maker[static_cast<size_t>(id)] = &n;
    v.group = groups_of_sums(f);
  }
  Spot store(const ir::Type& type, ir::ShardingRef said) {
    Spot spot = out_.ties.add(type);
    out_.stored.push_back({spot, std::move(said)});
    return spot;
  }
  void link(const Function& f, const Node* n, Spot from, Spot to) {
    if (from != to && out_.ties.type(to).rank() > 0) out_.links.push_back({from, to, times_[f.name], &f, n});
  }

  // The tensor that a reader of the value sees. What lies by a choice of its own is not tied to its readers.
  Spot use(const Function& f, ValueId id) {
    Values& v = out_.values.at(&f);
    auto at = static_cast<size_t>(id);
    if (v.said[at] >= 0) return v.said[at];
    if (v.free[at]) return out_.ties.add(f.type(id));
    if (v.group[at] < 0) return v.spot[at];
    if (v.settled[at] < 0) {
      v.settled[at] = out_.ties.add(f.type(id));
      link(f, v.maker[at], v.spot[at], v.settled[at]);
    }
    return v.settled[at];
  }
  Spot tied_use(const Function& f, const Node& n, ValueId id, bool in_group = false) {
    Spot spot = use(f, id);
    if (!in_group && out_.values.at(&f).said[static_cast<size_t>(id)] < 0) return spot;
    Spot own = out_.ties.add(f.type(id));
    link(f, &n, spot, own);
    return own;
  }
  // What control flow takes or gives lies as the functions are tied, whatever the value itself does. `n`: null at the end of a function.
  Spot handed_on(const Function& f, const Node* n, ValueId id) {
    const Values& v = out_.values.at(&f);
    auto at = static_cast<size_t>(id);
    if (v.said[at] < 0 && !v.free[at] && v.group[at] < 0) return v.spot[at];
    auto [known, fresh] = handed_on_.try_emplace({&f, n, id}, 0);
    if (!fresh) return known->second;
    known->second = out_.ties.add(f.type(id));
    if (!v.free[at] || v.said[at] >= 0) link(f, n, use(f, id), known->second);
    out_.handed_on.push_back({&f, n, id, known->second});
    return known->second;
  }

  // ---- Sums that are joined before they are exchanged.
  std::vector<int> groups_of_sums(const Function& f) const {
    std::vector<int> parent(f.values.size()), uses = ir::use_counts(f), makers(f.values.size(), 0);
    std::iota(parent.begin(), parent.end(), 0);
    auto find = [&](int v) {
      while (parent[static_cast<size_t>(v)] != v) v = parent[static_cast<size_t>(v)];
      return v;
    };
    std::vector<char> sum(f.values.size(), false);
    for (const Node& n : f.nodes) {
      if (n.results.size() != 1 || !n.op->factors.exists() || n.op->lower == ir::Lowering::kControl || n.op->traits.side_effect) continue;
      auto result = static_cast<size_t>(n.results[0]);
      Factors factors = n.op->factors(ir::typed(f, n));
      if (!follows(n, factors)) {
        sum[result] = makers[result] = makes_sum(factors) && is_float(f.type(n.results[0]).dtype);
        continue;
      }
      for (ValueId id : joined_operands(f, n, sum, uses)) {
        parent[static_cast<size_t>(find(id))] = find(n.results[0]);
        sum[result] = true;
      }
    }
    for (size_t v = 0; v < parent.size(); ++v)
      if (int root = find(static_cast<int>(v)); root != static_cast<int>(v)) makers[static_cast<size_t>(root)] += makers[v];
    std::vector<int> out;
    for (size_t v = 0; v < parent.size(); ++v) {
      int root = find(static_cast<int>(v));
      out.push_back(sum[v] && makers[static_cast<size_t>(root)] > 1 ? root : -1);
    }
    return out;
  }
  static bool makes_sum(const Factors& factors) {
    for (size_t k = 0; k < factors.factors.size(); ++k)
      if (factors.factors[k].kind == Factors::Kind::kReduce && factors.factors[k].combiner == kernel_ir::Combiner::kSum &&
          !has_factor(factors.results[0], static_cast<int>(k)))
        return true;
    return false;
  }
  // The operands that may be sums if the result may: those of a claim that are, and that nobody else reads.
  static std::vector<ValueId> joined_operands(const Function& f, const Node& n, const std::vector<char>& sum,
                                              const std::vector<int>& uses) {
    for (const ir::Linearity::Claim& c : n.op->linearity.claims) {
      if (c.combiner != kernel_ir::Combiner::kSum || !is_float(f.type(n.results[0]).dtype)) continue;
      std::vector<ValueId> named, sums;
      for (int i : ir::operands_of(*n.op, c, n.operands.size())) named.push_back(n.operands[static_cast<size_t>(i)]);
      for (ValueId id : named)
        if (sum[static_cast<size_t>(id)] && uses[static_cast<size_t>(id)] == 1) sums.push_back(id);
      bool all = c.kind == ir::Linearity::Kind::kJointly && sums.size() == named.size();
      if (!sums.empty() && (all || (c.kind == ir::Linearity::Kind::kEach && sums.size() == 1))) return sums;
    }
    return {};
  }

  // ---- Nodes.
  void visit(const Function& f, const Node& n) {
    Values& v = out_.values.at(&f);
    if (n.op->lower == ir::Lowering::kControl) return tie_control(f, n);
    if (n.op->manual) return border(f, n);
    if (is_shard(n) || n.op->layout_role == ir::LayoutRole::kBarrier) {
      auto result = static_cast<size_t>(n.results[0]);
      if (is_shard(n) && v.said[result] < 0)
        v.said[result] = store(f.type(n.results[0]), std::make_shared<const ir::Sharding>(n.attrs.get_sharding("sharding")));
      return link(f, &n, use(f, n.operands[0]), v.said[result] >= 0 ? v.said[result] : v.spot[result]);
    }
    if (n.op->layout_role == ir::LayoutRole::kShardAs) return alike(f, n);
    if (n.op->layout_role == ir::LayoutRole::kByRule) return by_rule(f, n);
    if (!n.results.empty() && v.free[static_cast<size_t>(n.results[0])]) return;
    ir::TypedOp op = ir::typed(f, n);
    bool known = n.op->factors.exists() && !n.op->traits.side_effect;
    Factors factors = known ? n.op->factors(op) : Factors();
    if (known && follows(n, factors)) return tie(f, n, factors);
    if (auto by_rows = factors_by_rows(f, n)) factors = std::move(*by_rows);
    SplitNode node{&f, &n, std::move(factors), {}, {}, times_[f.name]};
    for (ValueId id : n.operands) node.operands.push_back(use(f, id));
    for (ValueId id : n.results) node.results.push_back(v.spot[static_cast<size_t>(id)]);
    out_.nodes.push_back(std::move(node));
  }

  void tie(const Function& f, const Node& n, const Factors& factors) {
    const Values& v = out_.values.at(&f);
    int group = v.group[static_cast<size_t>(n.results[0])];
    std::vector<std::vector<std::pair<Spot, int>>> places(factors.factors.size());
    std::vector<char> strided(factors.factors.size(), false);  // lies within another factor in some tensor
    auto add = [&](Spot spot, const Factors::Tensor& dims) {
      for (size_t d = 0; d < dims.size(); ++d) {
        if (!dims[d].empty()) places[static_cast<size_t>(dims[d][0])].push_back({spot, static_cast<int>(d)});
        for (size_t k = 1; k < dims[d].size(); ++k) strided[static_cast<size_t>(dims[d][k])] = true;
      }
    };
    for (size_t i = 0; i < n.operands.size(); ++i) {
      ValueId id = n.operands[i];
      if (f.type(id).rank() == 0) continue;
      bool joins = group >= 0 && v.group[static_cast<size_t>(id)] == group;
      add(joins ? v.spot[static_cast<size_t>(id)] : tied_use(f, n, id, group >= 0), factors.operands[i]);
    }
    for (size_t r = 0; r < n.results.size(); ++r) {
      Spot spot = v.spot[static_cast<size_t>(n.results[r])];
      add(spot, factors.results[r]);
      if (group >= 0) out_.sums.insert(spot);
    }
    for (size_t k = 0; k < places.size(); ++k) {
      out_.ties.tie(places[k]);
      if (strided[k])
        for (auto [spot, dim] : places[k]) out_.ties.block(spot, dim);
    }
  }

  void alike(const Function& f, const Node& n) {
    const Values& v = out_.values.at(&f);
    for (size_t i = 0; i < n.operands.size(); ++i)
      for (int d = 0; d < f.type(n.operands[i]).rank(); ++d)
        out_.ties.tie({{v.spot[static_cast<size_t>(n.results[0])], d}, {v.spot[static_cast<size_t>(n.results[i])], d}});
    for (size_t i = 0; i < n.operands.size(); ++i) link(f, &n, use(f, n.operands[i]), v.spot[static_cast<size_t>(n.results[i])]);
  }

  // The result lies as the operands do, whatever the value of which it is made.
  void by_rule(const Function& f, const Node& n) {
    const Values& v = out_.values.at(&f);
    Factors factors = n.op->factors(ir::typed(f, n));
    std::vector<std::vector<std::pair<Spot, int>>> places(factors.factors.size());
    auto add = [&](Spot spot, const Factors::Tensor& dims) {
      for (size_t d = 0; d < dims.size(); ++d)
        if (dims[d].size() == 1) places[static_cast<size_t>(dims[d][0])].push_back({spot, static_cast<int>(d)});
    };
    Spot result = v.spot[static_cast<size_t>(n.results[0])];
    add(result, factors.results[0]);
    for (size_t i = 1; i < n.operands.size(); ++i) add(tied_use(f, n, n.operands[i]), factors.operands[i]);
    for (const auto& of_factor : places) out_.ties.tie(of_factor);
    link(f, &n, use(f, n.operands[0]), result);
  }

  // A manual region takes and gives what its layouts say.
  void border(const Function& f, const Node& n) {
    ir::ManualRegion region = n.op->manual(n.attrs);
    for (size_t i = 0; i < n.operands.size(); ++i)
      link(f, &n, use(f, n.operands[i]), store(f.type(n.operands[i]), std::make_shared<const ir::Sharding>(region.in[i])));
    Values& v = out_.values.at(&f);
    for (size_t r = 0; r < n.results.size(); ++r)
      v.said[static_cast<size_t>(n.results[r])] = store(f.type(n.results[r]), std::make_shared<const ir::Sharding>(region.out[r]));
  }

  void tie_control(const Function& f, const Node& n) {
    auto side = [&](const ir::TiedValue& t) {
      const Values& v = out_.values.at(t.function);
      bool made = t.function == &f ? std::find(n.results.begin(), n.results.end(), t.value) != n.results.end()
                                   : std::find(t.function->params.begin(), t.function->params.end(), t.value) != t.function->params.end();
      return made ? v.spot[static_cast<size_t>(t.value)] : handed_on(*t.function, t.function == &f ? &n : nullptr, t.value);
    };
    for (const auto& [a, b] : ir::control_ties(m_, f, n)) {
      if (!out_.values.count(b.function) || !out_.values.count(a.function)) continue;
      Spot x = side(a), y = side(b);
      if (a.skip > 0) out_.ties.block(x, 0);
      if (b.skip > 0) out_.ties.block(y, 0);
      for (int d = 0; d + b.skip < out_.ties.type(y).rank(); ++d) out_.ties.tie({{x, d + a.skip}, {y, d + b.skip}});
    }
  }

  // Of what nodes make; what is free is made where it is read.
  void keep_at_fullest(const Function& f) {
    const Values& v = out_.values.at(&f);
    std::vector<size_t> last(f.values.size(), 0);
    for (size_t n = 0; n < f.nodes.size(); ++n)
      for (ValueId id : f.nodes[n].operands) last[static_cast<size_t>(id)] = n;
    double live = 0;
    std::set<ValueId> now, most;
    auto bytes = [&](ValueId id) { return static_cast<double>(f.type(id).bytes().bounds().max); };
    for (size_t n = 0; n < f.nodes.size(); ++n) {
      for (ValueId id : f.nodes[n].results)
        if (!v.free[static_cast<size_t>(id)] && last[static_cast<size_t>(id)] > n && now.insert(id).second) live += bytes(id);
      if (live > fullest_) fullest_ = live, most = now;
      for (ValueId id : f.nodes[n].operands)
        if (last[static_cast<size_t>(id)] == n && now.erase(id) > 0) live -= bytes(id);
    }
    if (most.empty()) return;
    out_.kept.clear();
    for (ValueId id : most) out_.kept.push_back(v.spot[static_cast<size_t>(id)]);
  }

  const ir::Module& m_;
  ProgramGraph out_;
  double fullest_ = 0;  // bytes of out_.kept
  std::map<std::string, double> times_;  // that a function runs, by name
  std::map<std::tuple<const Function*, const Node*, ValueId>, Spot> handed_on_;
};

}  // namespace

Result<ProgramGraph> graph_of(const ir::Module& module) { return Builder(module).run(); }

}  // namespace nabla::passes
