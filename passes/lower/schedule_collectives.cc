#include "passes/lower/schedule_collectives.h"

#include <algorithm>
#include <charconv>
#include <set>

#include "ir/cost/exchange.h"
#include "ir/cost/node_time.h"
#include "passes/lower/plan_memory.h"
#include "passes/lower/prefetch.h"
#include "passes/rewrite.h"
#include "runtime/base/option_error.h"
#include "runtime/base/option_name.h"

namespace nabla::passes {
namespace {

using ir::Function;
using ir::Node;
using ir::ValueId;

constexpr int kRounds = 4;  // of plans that turn out too large

/// Does it go on beside kernels: a collective, or a copy of state that lives in the host's memory?
bool goes_on(const Node& n) { return n.op->lower == ir::Lowering::kCollective || n.op->lower == ir::Lowering::kTransfer; }
bool is_free(const Node& n) { return n.op->lower == ir::Lowering::kView || n.op->lower == ir::Lowering::kConstant; }

/// The nodes of a function, of which collectives and copies move to the front.
class Order {
 public:
  Order(const ir::Module& m, const Function& f, const ir::Target& target, const ir::NodeTimes& times)
      : m_(m), f_(f), target_(target), times_(times), root_(f.values.size()), producer_(ir::producers(f)) {
    for (size_t v = 0; v < root_.size(); ++v) root_[v] = static_cast<int>(v);
    for (const Node& n : f.nodes)
      if (n.op->lower == ir::Lowering::kView) root_[n.results[0]] = root_[n.operands[0]];
    for (const Node& n : f.nodes) us_.push_back(time_of(n));
    find_live();
  }
  /// These collectives stay where they are.
  void keep(std::vector<bool> nodes) { kept_ = std::move(nodes); }
  int64_t peak() const { return live_.empty() ? 0 : *std::max_element(live_.begin(), live_.end()); }

  /// Moves what gains by it, with at most so many bytes alive, and `in_order` none past another one. How many nodes moved.
  int move_up(int64_t most, bool in_order) {
    std::vector<int64_t> live = live_;
    before_.assign(f_.nodes.size(), {});
    int moved = 0, last = 0;  // where the one before starts
    for (size_t i = 0; i < f_.nodes.size(); ++i) {
      const Node& n = f_.nodes[i];
      if (!goes_on(n)) continue;
      const int floor = in_order ? last : 0;
      last = static_cast<int>(i) + 1;
      if (!kept_.empty() && kept_[i]) continue;
      int64_t more = 0;
      for (ValueId id : n.results) more += bytes(id);
      double left = us_[i];
      size_t to = i;
      for (int first = std::max(ready(n) + 1, floor); left > 0 && static_cast<int>(to) > first; --to) {
        if (live[to - 1] + more > most) break;
        left -= goes_on(f_.nodes[to - 1]) ? 0 : us_[to - 1];
      }
      // Before nodes that take no time it gains nothing.
      while (to < i && (is_free(f_.nodes[to]) || goes_on(f_.nodes[to]))) ++to;
      if (to == i) continue;
      for (size_t k = to; k < i; ++k) live[k] += more;
      before_[to].push_back(i);
      last = static_cast<int>(to);
      ++moved;
    }
    return moved;
  }

  Function function() const {
    Function out = f_;
    out.nodes.clear();
    std::vector<char> done(f_.nodes.size(), 0);
    for (size_t i = 0; i < f_.nodes.size(); ++i) {
      for (size_t early : before_[i]) emit(early, done, out.nodes);
      emit(i, done, out.nodes);
    }
    return out;
  }

 private:
  int64_t bytes(ValueId id) const { return f_.type(id).bytes().bounds().max; }

  double time_of(const Node& n) const {
    if (is_free(n)) return 0;
    if (n.op->lower == ir::Lowering::kTransfer) return static_cast<double>(bytes(n.operands[0])) / ir::host_bytes_per_us(target_);
    if (goes_on(n)) {
      const ir::Attr* axes = n.attrs.find("axes");
      if (!n.op->collective || !m_.mesh()) return 0;
      auto part = static_cast<double>(bytes(n.operands[0]));
      return ir::exchange_us(n.op->collective->kind, *m_.mesh(), std::get<ir::Axes>(*axes), part, target_);
    }
    return times_.us(f_, n, 0);
  }

  // The last node that makes something which the node, through views, reads; -1: there is none.
  int ready(const Node& n) const {
    int out = -1;
    for (ValueId id : n.operands) {
      int maker = producer_[root_[id]];
      if (maker >= 0 && !is_free(f_.nodes[maker])) out = std::max(out, maker);
    }
    return out;
  }

  // With the views and constants that it reads first.
  void emit(size_t i, std::vector<char>& done, std::vector<Node>& out) const {
    if (done[i]) return;
    done[i] = 1;
    for (ValueId id : f_.nodes[i].operands)
      if (int maker = producer_[id]; maker >= 0) emit(static_cast<size_t>(maker), done, out);
    out.push_back(f_.nodes[i]);
  }

  // Bytes of temporaries at every node, each from its first value to its last reader.
  void find_live() {
    std::vector<int64_t> change(f_.nodes.size() + 1, 0);
    std::vector<int> last(f_.values.size(), -1);
    for (size_t i = 0; i < f_.nodes.size(); ++i)
      for (const auto* ids : {&f_.nodes[i].results, &f_.nodes[i].operands})
        for (ValueId id : *ids) last[root_[id]] = static_cast<int>(i);
    for (size_t v = 0; v < root_.size(); ++v) {
      bool own = root_[v] == static_cast<int>(v) && producer_[v] >= 0 && !is_free(f_.nodes[producer_[v]]);
      if (own) change[producer_[v]] += bytes(static_cast<ValueId>(v)), change[last[v] + 1] -= bytes(static_cast<ValueId>(v));
    }
    int64_t now = 0;
    for (size_t i = 0; i < f_.nodes.size(); ++i) live_.push_back(now += change[i]);
  }

  const ir::Module& m_;
  const Function& f_;
  const ir::Target& target_;
  const ir::NodeTimes& times_;
  std::vector<int> root_, producer_;
  std::vector<bool> kept_;                   // by node; empty: none
  std::vector<double> us_;                   // by node
  std::vector<int64_t> live_;                // by node
  std::vector<std::vector<size_t>> before_;  // by node: what has moved there
};

std::string cost_of(int64_t before, int64_t now) {
  return now == before ? "" : fmt::format(", temporaries {} bytes instead of {}", now, before);
}

using Plan = std::shared_ptr<const ir::MemoryPlan>;
Result<Plan> planned(const ir::Module& m, const PassContext& context) {
  PassContext plain{context.ops, context.target};
  return Plan(NABLA_TRY(plan_memory(m, plain)).plan);
}

int64_t temporaries(const Plan& plan, const std::string& function) { return plan->functions.at(function).temporary_bytes; }

// Functions that loops run, and what these run.
std::set<std::string> run_by_loops(const ir::Module& m) {
  std::set<std::string> out;
  for (size_t before = SIZE_MAX; before != out.size();) {
    before = out.size();
    for (const ir::FunctionPtr& f : m.functions)
      for (const Node& n : f->nodes) {
        if (n.op->lower != ir::Lowering::kControl) continue;
        const ir::ControlFlow flow = ir::control_of(*f, n);
        if (flow.kind != ir::ControlFlow::Kind::kBranch || out.contains(f->name)) out.insert(flow.functions.begin(), flow.functions.end());
      }
  }
  return out;
}

// Of no more than there are; a loop begins none for its next trip.
std::string ahead_of_use(int64_t gathers, int64_t ahead, bool in_loop) {
  std::string out = fmt::format("{} gather{} of parameters, {} ahead of {} use", gathers, gathers == 1 ? "" : "s", std::min(gathers, ahead),
                                gathers == 1 ? "its" : "their");
  return in_loop ? out + ", none before the trip of the loop that uses it" : out;
}

// Every function with its gathers of parameters so far ahead of their use.
Result<ir::Module> with_prefetch(const ir::Module& module, int64_t ahead, PassContext& context) {
  ir::Module out = module;
  std::map<std::string, int64_t> gathers;
  for (const ir::FunctionPtr& f : module.functions) {
    const std::vector<bool> of = gathers_of_parameters(module, *f);
    int64_t count = std::count(of.begin(), of.end(), true);
    if (count == 0) continue;
    gathers[f->name] = count;
    out.set(std::make_shared<const Function>(prefetched(module, *f, ahead)));
  }
  if (gathers.empty()) {
    context.remarks.push_back({ir::RemarkKind::kNoPrefetch, "prefetch",
                               "prefetch: no parameter is gathered, so that nothing starts earlier or later"});
    return out;
  }
  Plan before = NABLA_TRY(planned(module, context)), after = NABLA_TRY(planned(out, context));
  const std::set<std::string> in_loops = run_by_loops(module);
  for (const auto& [name, count] : gathers) {
    const int64_t were = temporaries(before, name), are = temporaries(after, name);
    context.remarks.push_back(
        {ir::RemarkKind::kPrefetch, name,
         fmt::format("@{}: {}{}", name, ahead_of_use(count, ahead, in_loops.contains(name)), cost_of(were, are)), are - were});
  }
  return out;
}

}  // namespace

Result<ir::Module> schedule_collectives(const ir::Module& given, PassContext& context) {
  const ScheduleCollectivesOptions& options = context.options.schedule_collectives;
  const std::optional<int64_t> ahead = options.prefetch;
  if (!options.overlap && ahead)
    return option_error(fmt::format("leave {} or {} out", OptionName{"prefetch"}, OptionName{"no-overlap"}),
                        "schedule-collectives: prefetch is for collectives that overlap; overlap is false");
  if (!options.overlap) return given;
  const ir::Module module = ahead ? NABLA_TRY(with_prefetch(given, *ahead, context)) : given;
  const int64_t more = options.overlap_bytes.count;
  const bool in_order = context.options.keep_order;
  const ir::NodeTimes times(module, context.target);
  Plan plan;  // of `out`
  ir::Module out = module;
  for (const ir::FunctionPtr& f : module.functions) {
    if (std::none_of(f->nodes.begin(), f->nodes.end(), goes_on)) continue;
    Order order(module, *f, context.target, times);
    if (ahead) order.keep(gathers_of_parameters(module, *f));
    if (!plan) plan = NABLA_TRY(planned(out, context));
    int64_t before = temporaries(plan, f->name), most = order.peak() + more;
    for (int round = 0; round < kRounds; ++round) {
      int moved = order.move_up(most, in_order);
      if (moved == 0) break;
      ir::Module next = out;
      next.set(std::make_shared<const Function>(order.function()));
      Plan after = NABLA_TRY(planned(next, context));
      int64_t now = temporaries(after, f->name);
      if (now <= before + more) {
        out = std::move(next), plan = std::move(after);
        bool copies = std::any_of(f->nodes.begin(), f->nodes.end(), [](const Node& n) { return n.op->lower == ir::Lowering::kTransfer; });
        context.remarks.push_back(
            {ir::RemarkKind::kEarlierCollectives, f->name,
             fmt::format("@{}: {} {}{} earlier{}", f->name, moved,
                         copies ? moved == 1 ? "copy" : "copies" : moved == 1 ? "collective" : "collectives",
                         moved == 1 ? " starts" : " start", cost_of(before, now)),
             now - before});
        break;
      }
      most -= now - before - more;
    }
  }
  return out;
}

}  // namespace nabla::passes
