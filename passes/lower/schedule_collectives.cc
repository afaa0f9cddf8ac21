#include "passes/lower/schedule_collectives.h"

#include <algorithm>

#include "ir/cost/exchange.h"
#include "ir/cost/least_work.h"
#include "ir/cost/time.h"
#include "passes/lower/plan_memory.h"
#include "passes/rewrite.h"

namespace nabla::passes {
namespace {

using ir::Function;
using ir::Node;
using ir::ValueId;

constexpr int kRounds = 4;                                    // of plans that turn out too large
constexpr double kCpuBytesPerUs = 1e4, kCpuFlopsPerUs = 5e4;  // of one rank, about

/// Does it go on beside kernels: a collective, or a copy of state that lives in the host's memory?
bool goes_on(const Node& n) { return n.op->lower == ir::Lowering::kCollective || n.op->lower == ir::Lowering::kTransfer; }
bool is_free(const Node& n) { return n.op->lower == ir::Lowering::kView || n.op->lower == ir::Lowering::kConstant; }

/// The nodes of a function, of which collectives and copies move to the front.
class Order {
 public:
  Order(const ir::Module& m, const Function& f, const ir::Target& target)
      : m_(m), f_(f), target_(target), root_(f.values.size()), producer_(ir::producers(f)) {
    for (size_t v = 0; v < root_.size(); ++v) root_[v] = static_cast<int>(v);
    for (const Node& n : f.nodes)
      if (n.op->lower == ir::Lowering::kView) root_[n.results[0]] = root_[n.operands[0]];
    for (const Node& n : f.nodes) us_.push_back(time_of(n));
    find_live();
  }
  int64_t peak() const { return live_.empty() ? 0 : *std::max_element(live_.begin(), live_.end()); }

  /// Moves what gains by it, with at most so many bytes alive. How many nodes moved.
  int move_up(int64_t most) {
    std::vector<int64_t> live = live_;
    before_.assign(f_.nodes.size(), {});
    int moved = 0;
    for (size_t i = 0; i < f_.nodes.size(); ++i) {
      const Node& n = f_.nodes[i];
      if (!goes_on(n)) continue;
      int64_t more = 0;
      for (ValueId id : n.results) more += bytes(id);
      double left = us_[i];
      size_t to = i;
      for (int first = ready(n) + 1; left > 0 && static_cast<int>(to) > first; --to) {
        if (live[to - 1] + more > most) break;
        left -= goes_on(f_.nodes[to - 1]) ? 0 : us_[to - 1];
      }
      // Before nodes that take no time it gains nothing.
      while (to < i && (is_free(f_.nodes[to]) || goes_on(f_.nodes[to]))) ++to;
      if (to == i) continue;
      for (size_t k = to; k < i; ++k) live[k] += more;
      before_[to].push_back(i);
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
      if (!axes || !m_.mesh()) return 0;
      return ir::exchange_us(n.op->name, *m_.mesh(), std::get<ir::Axes>(*axes), static_cast<double>(bytes(n.operands[0])));
    }
    if (n.results.empty()) return 0;
    ir::Work work{ir::operand_bytes(f_, n), ir::node_flops(f_, n), f_.type(n.results[0]).dtype};
    if (const ir::Attr* name = n.attrs.find("kernel"))
      for (const kernel_ir::KernelPtr& k : m_.kernels)
        if (k->name == std::get<std::string>(*name)) work = ir::kernel_work(*k);
    if (target_.is_cuda()) return ir::least_us(work, target_);
    return std::max(static_cast<double>(work.bytes.bounds().max) / kCpuBytesPerUs,
                    static_cast<double>(work.flops.bounds().max) / kCpuFlopsPerUs);
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
  std::vector<int> root_, producer_;
  std::vector<double> us_;                   // by node
  std::vector<int64_t> live_;                // by node
  std::vector<std::vector<size_t>> before_;  // by node: what has moved there
};

}  // namespace

Result<ir::Module> schedule_collectives(const ir::Module& module, PassContext& context) {
  auto wanted = context.options.find("overlap");
  if (wanted != context.options.end() && wanted->second != "true" && wanted->second != "false")
    return error(Code::kBadOption, "schedule-collectives: overlap is true or false, not `{}`", wanted->second);
  if (wanted != context.options.end() && wanted->second == "false") return module;
  int64_t more = NABLA_TRY(bytes_option(context, "overlap-bytes")).value_or(0);
  using Plan = std::shared_ptr<const ir::MemoryPlan>;
  auto planned = [&](const ir::Module& m) -> Result<Plan> {
    PassContext plain{context.ops, context.target};
    return Plan(NABLA_TRY(plan_memory(m, plain)).plan);
  };
  Plan plan;  // of `out`
  ir::Module out = module;
  for (const ir::FunctionPtr& f : module.functions) {
    if (std::none_of(f->nodes.begin(), f->nodes.end(), goes_on)) continue;
    Order order(module, *f, context.target);
    if (!plan) plan = NABLA_TRY(planned(out));
    int64_t before = plan->functions.at(f->name).temporary_bytes, most = order.peak() + more;
    for (int round = 0; round < kRounds; ++round) {
      int moved = order.move_up(most);
      if (moved == 0) break;
      ir::Module next = out;
      next.set(std::make_shared<const Function>(order.function()));
      Plan after = NABLA_TRY(planned(next));
      int64_t now = after->functions.at(f->name).temporary_bytes;
      if (now <= before + more) {
        out = std::move(next), plan = std::move(after);
        std::string cost = now == before ? "" : fmt::format(", temporaries {} bytes instead of {}", now, before);
        bool copies = std::any_of(f->nodes.begin(), f->nodes.end(), [](const Node& n) { return n.op->lower == ir::Lowering::kTransfer; });
        context.remarks.push_back(fmt::format("@{}: {} {}{} earlier{}", f->name, moved,
                                              copies ? moved == 1 ? "copy" : "copies" : moved == 1 ? "collective" : "collectives",
                                              moved == 1 ? " starts" : " start", cost));
        break;
      }
      most -= now - before - more;
    }
  }
  return out;
}

}  // namespace nabla::passes
