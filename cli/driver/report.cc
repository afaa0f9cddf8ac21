#include "cli/driver/report.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>

#include "cli/driver/report_exchange.h"
#include "cli/driver/report_graph.h"
#include "cli/driver/report_library.h"
#include "cli/driver/report_memory.h"
#include "cli/driver/report_mesh.h"
#include "cli/driver/report_model.h"
#include "cli/driver/report_time.h"
#include "cli/driver/report_timeline.h"
#include "cli/driver/report_transfers.h"
#include "ir/cost/time.h"
#include "ir/gpus.h"
#include "ir/kernel_ir/grid_text.h"
#include "ir/kernel_ir/kernel.h"
#include "ir/plan.h"
#include "ir/symbols.h"
#include "passes/rewrite.h"

namespace nabla::driver {
namespace {

using Json = nlohmann::ordered_json;

class Reporter {
 public:
  Reporter(const ir::Module& flat, const ir::Module& planned, const ir::Target& target, const SizeLists& buckets,
           const ReportContext& context)
      : flat_(flat), planned_(planned), target_(target), buckets_(buckets), context_(context) {
    if (target.is_cuda()) times_.emplace(flat, planned, target);
    node_time_ = target.is_cuda() ? NodeTime([this](const ir::Function& f, const ir::Node& n) { return gpu_us(f, n); })
                                  : cpu_times(planned, target);
    if (context.set && context.set->ranks > 1) padding_.emplace(*context.set, context.of_class);
  }

  Json run() {
    Json out;
    out["report_version"] = kReportVersion;
    out["target"] = target_.name;
    out["machine"] = machine();
    if (!context_.notes.empty()) out["notes"] = context_.notes;
    int64_t state_elements = 0;
    for (size_t i = 0; i < flat_.state.size(); ++i) {
      const ir::StateLeaf& l = flat_.state[i];
      out["state"].push_back({{"name", l.name},
                              {"type", l.type.str()},
                              {"bytes", l.type.bytes().value()},
                              {"offset", planned_.plan->leaves[i].offset},
                              {"source", place_of(l.location)}});
      if (context_.roles) out["state"].back()["role"] = kRoles[static_cast<int>(context_.roles->leaves[i].kind)];
      if (planned_.plan->leaves[i].base == ir::Base::kHost) out["state"].back()["memory"] = "host";
      state_elements += l.type.count().value();
    }
    out["state_elements"] = state_elements;
    out["state_bytes"] = planned_.plan->state_bytes;
    out["arena_bytes"] = planned_.plan->arena_bytes;
    if (planned_.plan->host_bytes > 0) out["host_bytes"] = planned_.plan->host_bytes;
    out["constants_bytes"] = planned_.plan->constants_bytes;
    if (context_.set) add_mesh(*context_.set, context_.of_class, out);
    for (const ir::SymbolRef& s : ir::without_coordinates(flat_.symbols)) {
      out["symbols"].push_back({{"name", s->name}, {"min", s->min}, {"max", s->max}, {"multiple", s->multiple}});
      if (auto bounds = buckets_.find(s->name); bounds != buckets_.end())
        out["symbols"].back()["buckets"] = bounds->second;
    }
    for (const ir::Entry& e : flat_.entries) out["entries"].push_back(entry(e));
    for (const ir::FunctionPtr& f : planned_.functions)
      for (const ir::Node& n : f->nodes)
        if (n.op->lower == ir::Lowering::kCall) ++launches_[n.attrs.get_string("kernel")];
    for (const auto& k : planned_.kernels) out["kernels"].push_back(kernel(*k));
    LibraryCalls calls;
    if (times_) calls = library_calls(planned_, target_, *times_);
    if (!calls.rows.empty()) out["library_calls"] = std::move(calls.rows);
    if (times_) add_runs(planned_, calls.row_of, *times_, out), add_predictions(out);
    add_graph(flat_, planned_, calls.row_of, out);
    return out;
  }

 private:
  static constexpr double kLargeProduct = 1e9;  // of the products whose rate is that of the ridge
  static constexpr const char* kRoles[] = {"other", "parameter", "optimizer"};  // by LeafRole::Kind

  double gpu_us(const ir::Function& f, const ir::Node& n) const {
    if (n.op->lower == ir::Lowering::kLibrary) return times_->call(n, f).us;
    return n.op->lower == ir::Lowering::kCall ? times_->kernel(n.attrs.get_string("kernel")).us : 0;
  }

  // The dtype of what the costliest op multiplies.
  DType factors_of_most() const {
    DType out = DType::kF32;
    int64_t most = 0;
    for (const auto& f : flat_.functions)
      for (const ir::Node& n : f->nodes) {
        const int64_t flops = n.operands.empty() ? 0 : ir::node_flops(*f, n).bounds().max;
        if (flops <= most) continue;
        most = flops, out = f->type(n.operands[0]).dtype;
        if (n.operands.size() > 1 && bytes_of(f->type(n.operands[1]).dtype) > bytes_of(out)) out = f->type(n.operands[1]).dtype;
      }
    return out;
  }

  Json machine() const {
    const ir::CudaFacts& gpu = target_.cuda;
    if (target_.is_cuda()) {
      const DType factors = factors_of_most();
      Json out = {{"gpus", gpu.gpus}};
      if (const ir::GpuModel* model = ir::predicted_gpu(target_)) out["gpu"] = model->name;
      out.update({{"multiprocessors", gpu.multiprocessors},
                  {"resident_warps", gpu.resident_threads / 32},
                  {"copy_gbs", gpu.copy_gbs},
                  {"f32_tflops", gpu.f32_tflops},
                  {"tensor_tflops", gpu.tensor_tflops},
                  {"ridge_factors", name_of(factors)},
                  {"ridge", ir::product_rate(factors, target_).flops_per_us / ir::bytes_per_us(target_)}});
      return out;
    }
    const int lanes = target_.lanes(DType::kF32);
    const ir::ThreadWork byte{.bytes = 1}, product{.products = kLargeProduct};
    const double us_of_a_byte = ir::thread_us(byte, lanes, target_.rates) - target_.rates.step_us;
    const double us_of_products = ir::thread_us(product, lanes, target_.rates) - target_.rates.step_us;
    return {{"vector_bytes", target_.vector_bytes},
            {"l1_bytes", target_.l1_bytes},
            {"l2_bytes", target_.l2_bytes},
            {"threads", target_.threads},
            {"ridge", us_of_a_byte / us_of_products * kLargeProduct}};
  }

  static Json tensors(const std::vector<std::string>& names, const std::vector<ir::Type>& types, size_t skip) {
    Json out = Json::array();
    for (size_t i = 0; i < names.size(); ++i) out.push_back({{"name", names[i]}, {"type", types[skip + i].str()}});
    return out;
  }

  Json entry(const ir::Entry& e) {
    const ir::Function &f = *flat_.find(e.function), &p = *planned_.find(e.function);
    Json out;
    out["name"] = e.name;
    out["function"] = e.function;
    out["inputs"] = tensors(e.inputs, f.types(f.params), e.reads.size());
    out["outputs"] = tensors(e.outputs, f.types(f.results), e.writes.size());
    for (const char* which : {"reads", "writes"}) {
      out[which] = Json::array();
      for (int leaf : which[0] == 'r' ? e.reads : e.writes) out[which].push_back(flat_.state[leaf].name);
    }
    std::map<std::string, int> ops;
    for (const ir::Node& n : f.nodes) ++ops[n.op->name];
    Work work = work_of(f, flat_);
    const ir::Dim again = flops_again(p, planned_, flat_), run = work.flops + again;
    out["flops"] = run.bounds().max;
    out["model_flops"] = work.flops.bounds().max;
    if (work.at_least) out["at_least"] = true;
    for (const auto& [op, count] : ops) out["ops"][op] = count;
    ir::Dim live = memory(p, out), moved = moved_by(p, planned_);
    out["memory"] = memory_by_class(flat_, planned_, e, context_.roles);
    out["bytes_moved"] = moved.bounds().max;
    if (target_.is_cuda())
      if (Json copies = transfers_of(planned_, e, target_); !copies.is_null()) out["transfers"] = std::move(copies);
    Json timeline = timeline_of(p, planned_, target_, node_time_, context_.overlap);
    out["compute_us"] = timeline["compute_us"];
    if (context_.set && context_.set->ranks > 1) out["timeline"] = std::move(timeline);
    if (Exchanges all = exchanges_of(f, flat_, target_, padding_ ? &*padding_ : nullptr); !all.rows.empty())
      out["sent_bytes"] = all.sent_bytes, out["exchange_us"] = all.us, out["collectives"] = std::move(all.rows);
    LeastTime time;
    if (times_) time = times_->function(p.name), out["least_us"] = time.us;
    if (!run.is_static() || !moved.is_static() || !live.is_static() || !time.is_static) {
      out["formulas"] = {
          {"flops", formula(run)},
          {"bytes_moved", formula(moved)},
          {"temporary_bytes", live.is_static() ? formula(out["temporary_bytes"].get<int64_t>()) : formula(live)}};
      if (times_ && !time.postfix.empty()) out["formulas"]["least_us"] = {{"postfix", time.postfix}};
    }
    return out;
  }

  // The bytes alive at the peak, which are `temporary_bytes` where sizes are static.
  ir::Dim memory(const ir::Function& p, Json& out) {
    const ir::FunctionPlan& plan = planned_.plan->functions.at(p.name);
    out["instructions"] = std::count_if(p.nodes.begin(), p.nodes.end(), is_instruction);
    out["temporary_bytes"] = plan.temporary_bytes;
    out["peak_bytes"] = planned_.plan->state_bytes + plan.temporary_bytes;
    out["top_buffers"] = Json::array();
    std::vector<int> producer = ir::producers(p);
    std::vector<Json> buffers;
    for (const auto& live : plan.at_peak) {
      const ir::Node& n = p.nodes[producer[live.value]];
      buffers.push_back({{"value", ir::value_name(p, live.value)},
                         {"type", p.type(live.value).str()},
                         {"bytes", live.bytes},
                         {"made_by", made_by(n)},
                         {"source", place_of(n.location)}});
    }
    if (auto scratch = plan.workspaces.find(plan.peak_node); scratch != plan.workspaces.end()) {
      const ir::Node& n = p.nodes[plan.peak_node];
      buffers.push_back({{"value", ""},
                         {"type", n.op->lower == ir::Lowering::kControl ? "what it runs" : "scratch memory"},
                         {"bytes", scratch->second.bytes},
                         {"made_by", made_by(n)},
                         {"source", place_of(n.location)}});
    }
    std::stable_sort(buffers.begin(), buffers.end(),
                     [](const Json& a, const Json& b) { return a["bytes"] > b["bytes"]; });
    for (size_t i = 0; i < buffers.size() && i < 8; ++i) out["top_buffers"].push_back(std::move(buffers[i]));
    return live_bytes(p);
  }

  // At the peak: values, and what the node of the peak needs by itself or for the functions that it runs.
  ir::Dim live_bytes(const ir::Function& p) {
    if (auto known = live_.find(p.name); known != live_.end()) return known->second;
    const ir::FunctionPlan& plan = planned_.plan->functions.at(p.name);
    ir::Dim out = 0, inside = 0;
    for (const auto& live : plan.at_peak) out = out + p.type(live.value).bytes();
    if (auto scratch = plan.workspaces.find(plan.peak_node); scratch != plan.workspaces.end()) {
      const ir::Node& n = p.nodes[plan.peak_node];
      if (n.op->lower != ir::Lowering::kControl) inside = scratch->second.bytes;
      if (n.op->lower == ir::Lowering::kControl)
        for (const std::string& name : passes::control_of(p, n).functions)
          inside = ir::Dim::max(inside, live_bytes(*planned_.find(name)));
    }
    return live_[p.name] = out + inside;
  }

  // How each grid works.
  static Json schedules_of(const kernel_ir::Kernel& k) {
    Json out = Json::array();
    for (const kernel_ir::Grid& g : cuda_schedule_of(k).grids) out.push_back(mapping_text(k, g));
    return out;
  }

  Json kernel(const kernel_ir::Kernel& k) {
    int64_t bytes = 0;
    for (const auto& b : k.buffers) bytes += ir::Type(b.dtype, b.shape).bytes().bounds().max;
    Json out = {{"name", k.name}, {"launches", launches_[k.name]}, {"buffer_bytes", bytes},
                {"bytes_moved", std::min(bytes, ir::kernel_work(k).bytes.bounds().max)}};
    if (times_) {
      add_time(times_->kernel(k.name), out);
      out["moved_us"] = times_->moved_us(k.name), out["expected"] = expected_of(k, target_);
      out["schedule"] = schedules_of(k);
    } else {
      out["units"] = cpu_schedule_of(k).units.bounds().max;
      out["threads"] = cpu_schedule_of(k).max_threads;
    }
    return out;
  }

  const ir::Module &flat_, &planned_;
  const ir::Target& target_;
  const SizeLists& buckets_;
  const ReportContext& context_;
  std::optional<LeastTimes> times_;  // of GPUs
  NodeTime node_time_;
  std::optional<Padding> padding_;  // of several ranks
  std::map<std::string, int64_t> launches_;
  std::map<std::string, ir::Dim> live_;  // of functions
};

}  // namespace

std::string make_report(const ir::Module& flat, const ir::Module& planned, const ir::Target& target,
                        const SizeLists& buckets, const ReportContext& context) {
  return Reporter(flat, planned, target, buckets, context).run().dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string with_note(const std::string& report, const std::string& note) {
  Json out = Json::parse(report);
  out["notes"].push_back(note);
  return out.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace nabla::driver
