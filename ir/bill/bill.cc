#include "ir/bill/bill.h"

#include <algorithm>
#include <map>

#include "ir/bill/names.h"
#include "ir/bill/totals.h"
#include "ir/cost/time.h"
#include "ir/op_def.h"
#include "ir/plan.h"
#include "ir/typed.h"

namespace nabla::ir {
namespace {

class Biller {
 public:
  Biller(const Module& flat, const Module& planned, const Target& target, const BillContext& context)
      : flat_(flat), planned_(planned), target_(target), context_(context) {
    if (target.is_cuda()) times_.emplace(flat, planned, target);
    node_time_ = target.is_cuda() ? NodeTime([this](const Function& f, const Node& n) { return gpu_us(f, n); })
                                  : cpu_times(planned, target);
    if (context.several()) padding_.emplace(*context.set, context.of_class);
  }

  Bill run() {
    const MemoryPlan& plan = *planned_.plan;
    Bill out{context_.remarks, plan.state_bytes, plan.arena_bytes, plan.host_bytes, plan.constants_bytes};
    for (const Entry& e : flat_.entries) out.entries.push_back(entry(e));
    for (const FunctionPtr& f : planned_.functions)
      for (const Node& n : f->nodes)
        if (n.op->lower == Lowering::kCall) ++launches_[n.attrs.get_string("kernel")];
    for (const auto& k : planned_.kernels) out.kernels.push_back(kernel(*k));
    if (!times_) return out;
    out.library_calls = library_calls(planned_, target_, *times_);
    const std::map<std::string, Runs> runs = runs_of(planned_, target_, out.library_calls, *times_);
    for (EntryBill& e : out.entries) e.runs = runs.at(e.function);
    return out;
  }

 private:
  double gpu_us(const Function& f, const Node& n) const {
    if (n.op->lower == Lowering::kLibrary) return times_->call(n, f).us;
    return n.op->lower == Lowering::kCall ? times_->kernel(n.attrs.get_string("kernel")).us : 0;
  }

  EntryBill entry(const Entry& e) {
    const Function &f = *flat_.find(e.function), &p = *planned_.find(e.function);
    const FunctionWork work = work_of(f, flat_);
    EntryBill out{.name = e.name,
                  .function = e.function,
                  .flops = work.flops + flops_again(p, planned_, flat_),
                  .model_flops = work.flops,
                  .at_least = work.at_least,
                  .bytes_moved = moved_by(p, planned_)};
    add_peak(p, out);
    out.memory = memory_by_use(flat_, planned_, e, context_.roles);
    if (target_.is_cuda()) {
      out.to_device = transfers_of(planned_, e, target_, false);
      out.to_host = transfers_of(planned_, e, target_, true);
      out.least = times_->function(p.name);
    }
    out.timeline = timeline_of(p, planned_, target_, node_time_, context_.overlap);
    out.exchanges = exchanges_of(f, flat_, target_, padding_ ? &*padding_ : nullptr);
    return out;
  }

  void add_peak(const Function& p, EntryBill& out) {
    constexpr size_t kMostBuffers = 8;
    const FunctionPlan& plan = planned_.plan->functions.at(p.name);
    out.instructions = std::count_if(p.nodes.begin(), p.nodes.end(), is_instruction);
    out.temporary_bytes = plan.temporary_bytes;
    out.peak_bytes = planned_.plan->state_bytes + plan.temporary_bytes;
    out.live_bytes = live_bytes(p);
    const std::vector<int> makers = producers(p);
    std::vector<LiveBuffer>& buffers = out.largest_buffers;
    for (const auto& live : plan.at_peak) {
      const Node& n = p.nodes[makers[live.value]];
      buffers.push_back({value_name(p, live.value), p.type(live.value).str(), live.bytes, made_by(n), n.location});
    }
    if (auto scratch = plan.workspaces.find(plan.peak_node); scratch != plan.workspaces.end()) {
      const Node& n = p.nodes[plan.peak_node];
      const bool control = n.op->lower == Lowering::kControl;
      buffers.push_back({"", control ? "what it runs" : "scratch memory", scratch->second.bytes, made_by(n), n.location});
    }
    std::stable_sort(buffers.begin(), buffers.end(), [](const LiveBuffer& a, const LiveBuffer& b) { return a.bytes > b.bytes; });
    if (buffers.size() > kMostBuffers) buffers.resize(kMostBuffers);
  }

  // The values at the peak, and the memory that the node of the peak needs by itself or for the functions that it runs.
  Dim live_bytes(const Function& p) {
    if (auto known = live_.find(p.name); known != live_.end()) return known->second;
    const FunctionPlan& plan = planned_.plan->functions.at(p.name);
    Dim out = 0, inside = 0;
    for (const auto& live : plan.at_peak) out = out + p.type(live.value).bytes();
    if (auto scratch = plan.workspaces.find(plan.peak_node); scratch != plan.workspaces.end()) {
      const Node& n = p.nodes[plan.peak_node];
      if (n.op->lower != Lowering::kControl) inside = scratch->second.bytes;
      if (n.op->lower == Lowering::kControl)
        for (const std::string& name : control_of(p, n).functions) inside = Dim::max(inside, live_bytes(*planned_.find(name)));
    }
    return live_[p.name] = out + inside;
  }

  KernelBill kernel(const kernel_ir::Kernel& k) {
    KernelBill out{.name = k.name, .launches = launches_[k.name]};
    for (const auto& b : k.buffers) out.buffer_bytes += Type(b.dtype, b.shape).bytes().bounds().max;
    out.bytes_moved = std::min(out.buffer_bytes, kernel_work(k).bytes.bounds().max);
    if (times_) {
      out.least = times_->kernel(k.name), out.moved_us = times_->moved_us(k.name);
    } else {
      out.units = cpu_schedule_of(k).units.bounds().max;
      out.threads = cpu_schedule_of(k).max_threads;
    }
    return out;
  }

  const Module &flat_, &planned_;
  const Target& target_;
  const BillContext& context_;
  std::optional<LeastTimes> times_;  // of GPUs
  NodeTime node_time_;
  std::optional<Padding> padding_;  // of several ranks
  std::map<std::string, int64_t> launches_;
  std::map<std::string, Dim> live_;  // of functions
};

// The grids of a kernel run one after the other. Its arrays travel to memory and back once.
void predict_kernel(KernelBill& kernel) {
  double us = 0;
  kernel.warp_instructions = kernel.sectors = 0;
  for (const GridPrediction& grid : kernel.expected) {
    us += std::max(grid.code_us, grid.sectors_us);
    kernel.warp_instructions += grid.instructions, kernel.sectors += grid.sectors;
  }
  kernel.predicted_us = std::max(us, kernel.moved_us) + kLaunchUs * static_cast<double>(kernel.expected.size());
}

}  // namespace

const EntryBill* Bill::find(const std::string& entry) const {
  auto found = std::find_if(entries.begin(), entries.end(), [&](const EntryBill& e) { return e.name == entry; });
  return found == entries.end() ? nullptr : &*found;
}

Bill bill_of(const Module& flat, const Module& planned, const Target& target, const BillContext& context) {
  return Biller(flat, planned, target, context).run();
}

void predict(Bill& bill) {
  std::map<std::string, const KernelBill*> kernels;
  for (KernelBill& k : bill.kernels) predict_kernel(k), kernels[k.name] = &k;
  for (EntryBill& e : bill.entries) {
    Prediction out;
    for (const auto& [name, runs] : e.runs.kernels) {
      const KernelBill& k = *kernels.at(name);
      out.us += runs * k.predicted_us, out.launches += runs * static_cast<double>(k.expected.size());
      out.warp_instructions += runs * k.warp_instructions, out.sectors += runs * k.sectors;
      for (const GridPrediction& grid : k.expected) out.counted &= grid.counted;
    }
    for (const auto& [row, runs] : e.runs.library_calls) {
      const LibraryBill& call = bill.library_calls[row];
      out.library_us += runs * call.predicted_us, out.launches += runs;
      out.sectors += runs * static_cast<double>(call.buffer_bytes) / kSectorBytes;
    }
    out.us += out.library_us;
    e.predicted = out;
  }
}

}  // namespace nabla::ir
