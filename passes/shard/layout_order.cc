#include "passes/shard/layout_order.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <tuple>

#include "ir/control_ties.h"
#include "ir/cost/exchange.h"
#include "ir/cost/least_work.h"
#include "ir/cost/time.h"
#include "ir/typed.h"
#include "passes/rewrite.h"
#include "passes/shard/layout.h"

namespace nabla::passes {
namespace {

using ir::Function;
using ir::Node;
using ir::ValueId;

constexpr size_t kMostOrders = 3;  // to compare: partition runs once for each

/// A dimension that the program shards over the axis.
struct Seed {
  LateAxis late;
  int kind;
};

/// Dimensions of all values, joined to kinds.
class Kinds {
 public:
  explicit Kinds(const ir::Module& m) : m_(m) {
    for (const ir::FunctionPtr& f : m.functions) {
      free_[f->name] = made_of_scalars(*f);
      std::vector<int>& first = first_[f->name];
      for (const ir::Value& v : f->values) first.push_back(count_), count_ += v.type.rank();
    }
    parent_.resize(static_cast<size_t>(count_));
    std::iota(parent_.begin(), parent_.end(), 0);
    for (const ir::FunctionPtr& f : m.functions)
      for (const Node& n : f->nodes) tie(*f, n);
    for (const ir::Entry& e : m.entries)
      for (size_t r = 0; r < e.writes.size(); ++r)
        if (auto read = std::find(e.reads.begin(), e.reads.end(), e.writes[r]); read != e.reads.end()) {
          const Function& f = *m.find(e.function);
          join(f, f.params[static_cast<size_t>(read - e.reads.begin())], f, f.results[r]);
        }
  }

  int of(const Function& f, ValueId v, int dim) const { return find(first_.at(f.name)[static_cast<size_t>(v)] + dim); }

 private:
  int& parent(int i) const { return parent_[static_cast<size_t>(i)]; }
  int find(int i) const {
    while (parent(i) != i) i = parent(i) = parent(parent(i));
    return i;
  }
  void join(int a, int b) { parent(find(a)) = find(b); }
  void join(const Function& f, ValueId a, const Function& g, ValueId b, int skip_a = 0, int skip_b = 0) {
    for (int d = 0; d + skip_a < f.type(a).rank() && d + skip_b < g.type(b).rank(); ++d)
      join(of(f, a, d + skip_a), of(g, b, d + skip_b));
  }
  void tie(const Function& f, const Node& n) {
    if (n.op->lower == ir::Lowering::kControl) {
      for (const auto& [a, b] : ir::control_ties(m_, f, n)) join(*a.function, a.value, *b.function, b.value, a.skip, b.skip);
    } else if (n.op->factors.exists()) {
      const ir::Factors factors = n.op->factors(ir::typed(f, n));
      std::vector<int> of_factor(factors.factors.size(), -1);
      const std::vector<char>& free = free_.at(f.name);
      auto add = [&](ValueId v, const ir::Factors::Tensor& dims) {
        if (free[static_cast<size_t>(v)]) return;  // hands on no axes
        for (size_t d = 0; d < dims.size(); ++d) {
          if (dims[d].empty()) continue;
          int& known = of_factor[static_cast<size_t>(dims[d][0])];  // axes fill the major factor first
          const int dim = of(f, v, static_cast<int>(d));
          if (known < 0) known = dim;
          join(known, dim);
        }
      };
      for (size_t i = 0; i < n.operands.size(); ++i) add(n.operands[i], factors.operands[i]);
      for (size_t r = 0; r < n.results.size(); ++r) add(n.results[r], factors.results[r]);
    } else if (n.operands.size() == 1 && n.results.size() == 1) {
      join(f, n.operands[0], f, n.results[0]);  // `shard`, and borders of regions
    }
  }

  const ir::Module& m_;
  std::map<std::string, std::vector<int>> first_;  // by function and value: its dimension 0
  std::map<std::string, std::vector<char>> free_;  // by function and value: is it made of scalars alone?
  int count_ = 0;
  mutable std::vector<int> parent_;  // union-find
};

bool has_axis(const ir::DimSharding& dim, const std::string& axis) { return dim.priority == 0 && names(dim.axes, axis); }

class Orders {
 public:
  Orders(const ir::Module& m, const std::string& axis) : m_(m), axis_(axis), kinds_(m) {}

  std::vector<LateAxes> run() {
    if (!find_seeds()) return {};
    std::set<int> seeded;
    for (const Seed& s : seeds_) seeded.insert(s.kind);
    seeded.insert(fixed_.begin(), fixed_.end());
    if (seeded.size() < 2 || !measure(seeded)) return {};
    // Activations are most of what there is: the kinds of dimensions that most bytes have.
    std::vector<int> first(seeded.begin(), seeded.end());
    std::stable_sort(first.begin(), first.end(), [&](int a, int b) { return bytes_[a] > bytes_[b]; });
    first.resize(std::min(first.size(), kMostOrders));
    std::vector<LateAxes> out;
    for (int kind : first) {
      LateAxes late;
      for (const Seed& s : seeds_)
        if (s.kind != kind) late.push_back(s.late);
      if (!late.empty() && late.size() < seeds_.size() + fixed_.size()) out.push_back(std::move(late));
    }
    return out;
  }

 private:
  // False if values between arguments and results have layouts along the axis already, as auto-shard gives them.
  bool find_seeds() {
    for (const ir::FunctionPtr& f : m_.functions) {
      std::set<ValueId> ends(f->params.begin(), f->params.end());
      ends.insert(f->results.begin(), f->results.end());
      for (size_t v = 0; v < f->values.size(); ++v)
        if (f->values[v].sharding && !ends.contains(static_cast<ValueId>(v)) && names(ir::axes_of(*f->values[v].sharding), axis_))
          return false;
      for (size_t i = 0; i < f->params.size(); ++i) add(*f, f->params[i], f->values[f->params[i]].sharding, false, i);
      for (size_t i = 0; i < f->results.size(); ++i) add(*f, f->results[i], f->values[f->results[i]].sharding, true, i);
      for (const Node& n : f->nodes)
        if (const ir::Attr* s = n.attrs.find("sharding"); s && n.op->layout_role == ir::LayoutRole::kShard) {
          const ir::Sharding& wish = std::get<ir::Sharding>(*s);
          for (size_t d = 0; d < wish.dims.size(); ++d)
            if (has_axis(wish.dims[d], axis_)) fixed_.insert(kinds_.of(*f, n.results[0], static_cast<int>(d)));
        }
    }
    for (const ir::Entry& e : m_.entries)
      for (size_t i = 0; i < e.reads.size(); ++i) {
        const Function& f = *m_.find(e.function);
        add(f, f.params[i], m_.state[static_cast<size_t>(e.reads[i])].sharding, false, i);
      }
    return true;
  }
  void add(const Function& f, ValueId v, const ir::ShardingRef& s, bool is_result, size_t index) {
    for (size_t d = 0; s && d < s->dims.size(); ++d)
      if (has_axis(s->dims[d], axis_))
        seeds_.push_back({{f.name, is_result, index, static_cast<int>(d), axis_}, kinds_.of(f, v, static_cast<int>(d))});
  }
  // Counts the bytes of the values that have a dimension of each kind. False if no value has dimensions of two kinds.
  bool measure(const std::set<int>& seeded) {
    bool compete = false;
    for (const ir::FunctionPtr& f : m_.functions)
      for (size_t v = 0; v < f->values.size(); ++v) {
        const ir::Type& type = f->values[v].type;
        std::set<int> here;
        for (int d = 0; d < type.rank(); ++d)
          if (int kind = kinds_.of(*f, static_cast<ValueId>(v), d); seeded.contains(kind)) here.insert(kind);
        for (int kind : here) bytes_[kind] += static_cast<double>(type.bytes().bounds().max);
        compete |= here.size() > 1;
      }
    return compete;
  }

  const ir::Module& m_;
  const std::string& axis_;
  Kinds kinds_;
  std::vector<Seed> seeds_;
  std::set<int> fixed_;  // kinds of dimensions that `shard` nodes shard
  std::map<int, double> bytes_;
};

class Costs {
 public:
  Costs(const ir::Module& m, const ir::Target& target) : m_(m), mesh_(*m.mesh()), target_(target) {}

  RunCost of(const Function& f) {
    if (auto known = known_.find(f.name); known != known_.end()) return known->second;
    RunCost out;
    const std::vector<int> makers = ir::producers(f);
    std::set<std::tuple<std::string, std::string, int64_t, ValueId>> exchanged;
    for (const Node& n : f.nodes) {
      if (n.op->collective) {
        // Equal collectives are merged later, but parameters are gathered again for the backward pass.
        const ir::Attr* dim = n.attrs.find("dim");
        const ir::Axes& axes = n.attrs.get_axes("axes");
        const bool fresh = exchanged.insert({n.op->name, ir::str(axes), dim ? std::get<int64_t>(*dim) : -1, n.operands[0]}).second;
        const bool parameter = makers[static_cast<size_t>(n.operands[0])] < 0;
        if (fresh || parameter) out.exchange_us += exchange(f, n, axes, parameter);
      } else if (n.op->lower == ir::Lowering::kControl) {
        add_control(f, n, out);
      } else if (is_product(n)) {
        out.product_us += product(f, n);
      }
    }
    return known_[f.name] = out;
  }

 private:
  // Messages of sums and of gathers of parameters do not count: buckets join them later. All others are for one value alone.
  double exchange(const Function& f, const Node& n, const ir::Axes& axes, bool parameter) const {
    const auto part = static_cast<double>(f.type(n.operands[0]).bytes().bounds().max);
    const bool joined = parameter || ir::combines_ranks(n);
    if (!joined) return ir::exchange_us(n.op->collective->kind, mesh_, axes, part);
    return ir::sent_bytes(n.op->collective->kind, ir::shards(mesh_, axes), part) / ir::link_along(mesh_, axes).bytes_per_us;
  }
  double product(const Function& f, const Node& n) const {
    const auto flops = static_cast<double>(ir::node_flops(f, n).bounds().max);
    if (target_.is_cuda()) return flops / ir::product_rate(f.type(n.operands[0]).dtype, target_).flops_per_us;
    return ir::products_us(flops, 0, target_.lanes(DType::kF32), target_.rates);
  }
  void add_control(const Function& f, const Node& n, RunCost& out) {
    const ir::ControlFlow c = ir::control_of(f, n);
    const bool branch = c.kind == ir::ControlFlow::Kind::kBranch;
    const double times = c.kind == ir::ControlFlow::Kind::kLoop ? static_cast<double>(c.trips.bounds().max) : 1;
    RunCost inside;
    for (const std::string& name : c.functions) {
      const RunCost one = of(*m_.find(name));
      inside.exchange_us = branch ? std::max(inside.exchange_us, one.exchange_us) : inside.exchange_us + one.exchange_us;
      inside.product_us = branch ? std::max(inside.product_us, one.product_us) : inside.product_us + one.product_us;
    }
    out.exchange_us += times * inside.exchange_us, out.product_us += times * inside.product_us;
  }

  const ir::Module& m_;
  const ir::Mesh& mesh_;
  const ir::Target& target_;
  std::map<std::string, RunCost> known_;  // by function
};

}  // namespace

std::vector<LateAxes> layout_orders(const ir::Module& flat, const std::string& axis) { return Orders(flat, axis).run(); }

RunCost run_cost(const ir::Module& local, const ir::Target& target) {
  Costs costs(local, target);
  RunCost out;
  auto add = [&](const Function& f) {
    const RunCost one = costs.of(f);
    out.exchange_us += one.exchange_us, out.product_us += one.product_us;
  };
  for (const ir::Entry& e : local.entries) add(*local.find(e.function));
  if (local.entries.empty())
    for (const ir::FunctionPtr& f : local.functions) add(*f);
  return out;
}

}  // namespace nabla::passes
