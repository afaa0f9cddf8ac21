#include "passes/lower/recompute.h"

#include <algorithm>
#include <map>
#include <set>

#include "ir/cost/least_work.h"
#include "ir/kernel_ir/contract.h"
#include "ir/kernel_ir/kernel.h"
#include "ir/plan.h"
#include "ir/library/gemm.h"
#include "passes/lower/plan_memory.h"
#include "passes/rewrite.h"
#include "runtime/base/option_name.h"

namespace nabla::passes {
namespace {

using ir::Node;
using ir::ValueId;

constexpr double kFlopsPerByte = 16;  // of a CPU core: 150 GFLOP/s beside 10 GB/s
constexpr size_t kLongestChain = 24;  // nodes that run again for one value
constexpr int kRecomputeRounds = 8;

// A function as a list of nodes to run, in which a node may stand several times: readers see what ran last.
class Schedule {
 public:
  Schedule(const ir::Module& m, const ir::Function& f) : m_(m), f_(f), root_(f.values.size()) {
    for (size_t v = 0; v < root_.size(); ++v) root_[v] = static_cast<int>(v);
    for (const Node& n : f.nodes)
      if (n.op->lower == ir::Lowering::kView) root_[n.results[0]] = root_[n.operands[0]];
    producer_ = ir::producers(f);
    stays_.assign(f.values.size(), false);
    for (size_t v = 0; v < stays_.size(); ++v) stays_[v] = producer_[v] < 0;
    for (const Node& n : f.nodes)
      if (n.op->lower == ir::Lowering::kConstant) stays_[n.results[0]] = true;
    for (ValueId id : f.results) stays_[root_[id]] = true;
    for (size_t n = 0; n < f.nodes.size(); ++n)
      if (f.nodes[n].op->lower != ir::Lowering::kView) order_.push_back(static_cast<int>(n));
    for (const Node& n : f.nodes) work_.push_back(work(n));
    once_ = static_cast<int>(order_.size());
    find_overwritten();
    measure();
  }

  int64_t peak() const { return *std::max_element(live_.begin(), live_.end()); }
  int again() const { return static_cast<int>(order_.size()) - once_; }

  // Lowers what is alive to `target` as far as it goes; false when it stays above.
  bool lower_to(int64_t target) {
    std::set<std::pair<ValueId, int>> hopeless;  // value, node before which it would run again
    while (peak() > target) {
      std::optional<Move> best = best_move(target, hopeless);
      if (!best) return false;
      double before = excess(target);
      std::vector<int> order = order_;
      order_.insert(order_.begin() + best->before, best->chain.begin(), best->chain.end());
      measure();
      if (excess(target) < before) continue;
      hopeless.insert({best->value, order[best->before]});
      order_ = std::move(order);
      measure();
    }
    drop_needless(target);
    return true;
  }

  ir::Function emit(const ir::OpTable& ops) const {
    ir::FunctionBuilder b(f_.name, ops, &m_);
    std::vector<ir::Val> now(f_.values.size());
    for (ValueId id : f_.params) now[id] = b.param(f_.values[id].name, f_.type(id));
    std::map<ValueId, std::pair<ir::Val, ir::Val>> views;  // value: what it looks at, the view
    auto value = [&](ValueId id, const auto& self) -> ir::Val {
      if (root_[id] == id) return now[id];
      const Node& view = f_.nodes[producer_[id]];
      ir::Val base = self(view.operands[0], self);
      auto [it, fresh] = views.try_emplace(id);
      if (fresh || !(it->second.first == base)) it->second = {base, b.clone(view, {base})[0]};
      return it->second.second;
    };
    std::vector<bool> ran(f_.nodes.size(), false);
    for (int n : order_) {
      const Node& node = f_.nodes[n];
      if (node.location) b.set_location(node.location);
      std::vector<ir::Val> operands;
      for (ValueId id : node.operands) operands.push_back(value(id, value));
      std::vector<ir::Val> results = b.clone(node, f_, operands);
      for (size_t i = 0; i < results.size(); ++i) {
        now[node.results[i]] = results[i];
        const std::string& name = f_.values[node.results[i]].name;
        if (!name.empty()) b.name_value(results[i], ran[n] ? name + ".again" : name);
      }
      ran[n] = true;
    }
    std::vector<ir::Val> results;
    for (ValueId id : f_.results) results.push_back(value(id, value));
    ir::Function out = b.finish(results);
    out.location = f_.location;
    return out;
  }

 private:
  // From one definition of a value to its last use before the next one.
  struct Life {
    ValueId value;
    int first, last;
    std::vector<int> uses;
  };
  struct Move {
    ValueId value;
    int before;              // position in the order
    std::vector<int> chain;  // nodes that run there
    double score;
  };

  // State that the entry overwrites can be read only before.
  void find_overwritten() {
    const ir::Entry* e = m_.entry_of(f_.name);
    for (size_t w = 0; e && w < e->writes.size(); ++w)
      for (size_t r = 0; r < e->reads.size(); ++r)
        if (e->reads[r] == e->writes[w]) writer_[f_.params[r]] = producer_[root_[f_.results[w]]];
  }

  int64_t bytes(ValueId id) const { return f_.type(id).bytes().bounds().max; }

  void measure() {
    int end = static_cast<int>(order_.size());
    lives_.clear();
    lives_of_.assign(f_.values.size(), {});
    position_.assign(f_.nodes.size(), 0);
    live_.assign(order_.size() + 1, 0);
    for (int i = 0; i < end; ++i) {
      const Node& n = f_.nodes[order_[i]];
      position_[order_[i]] = i;
      for (ValueId id : n.operands)
        if (const std::vector<int>& lives = lives_of_[root_[id]]; !lives.empty())
          lives_[lives.back()].uses.push_back(i), lives_[lives.back()].last = i;
      for (ValueId id : n.results) {
        if (stays_[id]) continue;
        lives_of_[id].push_back(static_cast<int>(lives_.size()));
        lives_.push_back({id, i, i, {}});
      }
      live_[i] += ir::library_workspace_bytes(n, f_);
    }
    std::vector<int64_t> change(order_.size() + 1, 0);
    for (const Life& l : lives_) change[l.first] += bytes(l.value), change[l.last + 1] -= bytes(l.value);
    int64_t alive = 0;
    for (int i = 0; i < end; ++i) live_[i] += alive += change[i];
  }

  double excess(int64_t target) const {
    double out = 0;
    for (int64_t bytes : live_) out += static_cast<double>(std::max<int64_t>(bytes - target, 0));
    return out;
  }

  // What one move runs again may serve the readers of another's: a second time is needless where there is room to wait.
  void drop_needless(int64_t target) {
    std::vector<bool> ran(f_.nodes.size(), false);
    for (size_t i = 0; i < order_.size(); ++i) {
      int n = order_[i];
      if (!ran[n]) {
        ran[n] = true;
        continue;
      }
      order_.erase(order_.begin() + static_cast<std::ptrdiff_t>(i));
      measure();
      if (peak() <= target)
        --i;
      else
        order_.insert(order_.begin() + static_cast<std::ptrdiff_t>(i), n);
    }
    measure();
  }

  // The life of a value that covers position i.
  const Life* life_at(ValueId id, int i) const {
    for (int l : lives_of_[id])
      if (lives_[l].first < i && i <= lives_[l].last) return &lives_[l];
    return nullptr;
  }
  bool readable(ValueId root, int before) const {
    auto writer = writer_.find(root);
    return writer == writer_.end() || writer->second < 0 || position_[writer->second] >= before;
  }

  // What has to run before position `before` to have the value there; false where that is impossible or too much. A
  // value that is alive at the peak may as well live until then.
  bool collect(ValueId root, int peak, int before, std::vector<int>& chain) const {
    int n = producer_[root];
    if (n < 0 || chain.size() >= kLongestChain) return false;
    const Node& node = f_.nodes[n];
    if (node.op->lower == ir::Lowering::kControl || node.op->traits.side_effect) return false;
    for (ValueId id : node.operands) {
      ValueId r = root_[id];
      if (producer_[r] >= 0 && std::find(chain.begin(), chain.end(), producer_[r]) != chain.end()) continue;
      if (stays_[r] ? readable(r, before) && (producer_[r] < 0 || position_of_first(r) < before)
                    : life_at(r, before) || life_at(r, peak))
        continue;
      if (stays_[r] || !collect(r, peak, before, chain)) return false;
    }
    chain.push_back(n);
    return chain.size() <= kLongestChain;
  }
  int position_of_first(ValueId id) const {
    if (f_.nodes[producer_[id]].op->lower == ir::Lowering::kConstant) return -1;
    return position_[producer_[id]];
  }

  double work(const Node& node) const {
    if (node.op->lower == ir::Lowering::kView) return 0;
    double out = 0;
    for (ValueId id : node.operands) out += static_cast<double>(bytes(id));
    for (ValueId id : node.results) out += static_cast<double>(bytes(id));
    double flops = static_cast<double>(ir::node_flops(f_, node).bounds().max);
    if (const ir::Attr* name = node.attrs.find("kernel"))
      for (const auto& k : m_.kernels)
        if (k->name == std::get<std::string>(*name) && kernel_ir::find_contraction(*k)) {
          flops = 2;
          for (const kernel_ir::Axis& axis : k->axes) flops *= static_cast<double>(axis.extent.bounds().max);
        }
    return out + flops / kFlopsPerByte;
  }

  // The move that frees the most above the target, over time, for the work that it costs.
  std::optional<Move> best_move(int64_t target, const std::set<std::pair<ValueId, int>>& hopeless) const {
    int peak = static_cast<int>(std::max_element(live_.begin(), live_.end()) - live_.begin());
    std::vector<int> above(live_.size() + 1, 0);  // positions above the target before each
    for (size_t i = 0; i < live_.size(); ++i) above[i + 1] = above[i] + (live_[i] > target);
    std::optional<Move> best;
    for (const Life& l : lives_) {
      if (l.first >= peak || l.last <= peak || bytes(l.value) == 0) continue;
      auto next = std::upper_bound(l.uses.begin(), l.uses.end(), peak);
      int from = next == l.uses.begin() ? l.first : *(next - 1);
      if (next == l.uses.end() || from == peak || hopeless.count({l.value, order_[*next]})) continue;
      Move move{l.value, *next, {}, 0};
      if (!collect(l.value, peak, *next, move.chain)) continue;
      double cost = 1;
      for (int n : move.chain) cost += work_[n];
      move.score = static_cast<double>(bytes(l.value)) * (above[*next] - above[from + 1]) / cost;
      if (!best || move.score > best->score) best = std::move(move);
    }
    return best;
  }

  const ir::Module& m_;
  const ir::Function& f_;
  std::vector<int> root_, producer_;
  std::vector<bool> stays_;        // by root: parameters, constants and results have memory of their own
  std::map<ValueId, int> writer_;  // a parameter's state leaf: the node that overwrites it
  std::vector<int> order_;         // nodes but views
  std::vector<Life> lives_;
  std::vector<std::vector<int>> lives_of_;  // by value
  std::vector<double> work_;                // by node, in bytes moved
  std::vector<int> position_;               // of a node: where it runs last
  std::vector<int64_t> live_;               // bytes of temporaries at each position
  int once_ = 0;                            // nodes to run when nothing runs again
};

// One function within `limit` bytes of temporaries as plan_memory counts them; it has `before`.
Result<ir::Module> shrink(const ir::Module& module, const std::string& name, int64_t before, int64_t limit,
                          PassContext& context, int64_t& least) {
  auto temporaries = [&](const ir::Module& m) -> Result<int64_t> {
    PassContext plain{context.ops, context.target};
    ir::Module planned = NABLA_TRY(plan_memory(m, plain));
    return planned.plan->functions.at(name).temporary_bytes;
  };
  int64_t now = before;
  if (before <= limit) return module;
  Schedule schedule(module, *module.find(name));
  // The planner lets results take over operands, which the schedule does not see: its bytes are scaled.
  double scale = static_cast<double>(schedule.peak()) / static_cast<double>(before);
  auto target = static_cast<int64_t>(static_cast<double>(limit) * scale);
  ir::Module out = module;
  for (int round = 0; round < kRecomputeRounds && now > limit; ++round) {
    bool reached = schedule.lower_to(target);
    out.set(std::make_shared<ir::Function>(schedule.emit(context.ops)));
    now = NABLA_TRY(temporaries(out));
    least = std::min(least, now);
    if (!reached) break;
    target -= std::max<int64_t>(static_cast<int64_t>(static_cast<double>(now - limit) * scale), 64);
  }
  context.remarks.push_back({ir::RemarkKind::kRecompute, name,
                             fmt::format("@{}: {} kernels run again, temporaries {} instead of {} bytes", name, schedule.again(), now,
                                         before),
                             before});
  return out;
}

}  // namespace

Result<ir::Module> recompute(const ir::Module& module, PassContext& context) {
  if (!context.options.recompute.remat_bytes) return module;
  const int64_t allowed = context.options.recompute.remat_bytes->count;
  PassContext plain{context.ops, context.target};
  std::shared_ptr<const ir::MemoryPlan> plan = NABLA_TRY(plan_memory(module, plain)).plan;
  int64_t state = plan->state_bytes;
  ir::Module out = module;
  for (const ir::Entry& e : module.entries) {
    int64_t least = INT64_MAX;
    int64_t before = plan->functions.at(e.function).temporary_bytes;
    out = NABLA_TRY(shrink(out, e.function, before, allowed - state, context, least));
    if (least != INT64_MAX && least > allowed - state) {
      Diagnostic d = error(Code::kOverBudget,
                           "entry `{}` needs {} bytes ({} of state, {} of temporaries; least found) even where values "
                           "are computed again, {} are allowed",
                           e.name, state + least, state, least, allowed);
      d.help = fmt::format(
          "the search for this budget found nothing smaller, which is no proof that there is nothing; allow more with {}, or shrink "
          "the program",
          OptionName{"remat-bytes"});
      return d;
    }
  }
  return out;
}

}  // namespace nabla::passes
