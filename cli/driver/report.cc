#include "cli/driver/report.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "cli/driver/report_bill.h"
#include "cli/driver/report_graph.h"
#include "cli/driver/report_mesh.h"
#include "ir/bill/names.h"
#include "ir/cost/time.h"
#include "ir/gpus.h"
#include "ir/plan.h"
#include "ir/symbols.h"

namespace nabla::driver {
namespace {

using Json = nlohmann::ordered_json;

class Reporter {
 public:
  Reporter(const ir::Bill& bill, const ReportSource& source)
      : bill_(bill),
        flat_(source.flat),
        planned_(source.planned),
        target_(source.target),
        buckets_(source.buckets),
        context_(source.context) {}

  Json run() {
    Json out;
    out["report_version"] = kReportVersion;
    out["target"] = target_.name;
    out["machine"] = machine();
    if (!bill_.remarks.empty()) out["notes"] = ir::notes_of(bill_.remarks), out["remarks"] = ir::texts_of(bill_.remarks);
    add_state(out);
    if (context_.set) add_mesh(*context_.set, context_.of_class, out);
    for (const ir::SymbolRef& s : ir::without_coordinates(flat_.symbols)) {
      out["symbols"].push_back({{"name", s->name}, {"min", s->min}, {"max", s->max}, {"multiple", s->multiple}});
      if (auto bounds = buckets_.find(s->name); bounds != buckets_.end())
        out["symbols"].back()["buckets"] = bounds->second;
    }
    for (size_t i = 0; i < flat_.entries.size(); ++i) out["entries"].push_back(entry(flat_.entries[i], bill_.entries[i]));
    for (size_t i = 0; i < planned_.kernels.size(); ++i)
      out["kernels"].push_back(kernel_json(bill_.kernels[i], *planned_.kernels[i], target_));
    for (const ir::LibraryBill& call : bill_.library_calls) out["library_calls"].push_back(library_json(call));
    add_graph(flat_, planned_, target_, bill_.library_calls, out);
    return out;
  }

 private:
  static constexpr double kLargeProduct = 1e9;  // of the products whose rate is that of the ridge
  static constexpr const char* kRoles[] = {"other", "parameter", "optimizer"};  // by LeafRole::Kind

  void add_state(Json& out) const {
    int64_t elements = 0;
    for (size_t i = 0; i < flat_.state.size(); ++i) {
      const ir::StateLeaf& l = flat_.state[i];
      out["state"].push_back({{"name", l.name},
                              {"type", l.type.str()},
                              {"bytes", l.type.bytes().value()},
                              {"offset", planned_.plan->leaves[i].offset},
                              {"source", ir::place_of(l.location)}});
      if (context_.roles) out["state"].back()["role"] = kRoles[static_cast<int>(context_.roles->leaves[i].kind)];
      if (planned_.plan->leaves[i].base == ir::Base::kHost) out["state"].back()["memory"] = "host";
      elements += l.type.count().value();
    }
    out["state_elements"] = elements;
    out["state_bytes"] = bill_.state_bytes;
    out["arena_bytes"] = bill_.arena_bytes;
    if (bill_.host_bytes > 0) out["host_bytes"] = bill_.host_bytes;
    out["constants_bytes"] = bill_.constants_bytes;
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

  Json entry(const ir::Entry& e, const ir::EntryBill& bill) const {
    const ir::Function& f = *flat_.find(e.function);
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
    out["flops"] = bill.flops.bounds().max;
    out["model_flops"] = bill.model_flops.bounds().max;
    if (bill.at_least) out["at_least"] = true;
    for (const auto& [op, count] : ops) out["ops"][op] = count;
    add_entry(bill, target_, context_.several(), out);
    if (target_.is_cuda()) add_prediction(bill, out);
    return out;
  }

  const ir::Bill& bill_;
  const ir::Module &flat_, &planned_;
  const ir::Target& target_;
  const SizeLists& buckets_;
  const ir::BillContext& context_;
};

}  // namespace

std::string report_json(const ir::Bill& bill, const ReportSource& source) {
  return Reporter(bill, source).run().dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace nabla::driver
