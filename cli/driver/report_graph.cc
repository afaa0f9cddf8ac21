#include "cli/driver/report_graph.h"

#include <algorithm>
#include <map>

#include "cli/driver/report_bill.h"
#include "ir/bill/names.h"
#include "ir/plan.h"
#include "ir/text.h"
#include "ir/typed.h"

namespace nabla::driver {

using Json = nlohmann::ordered_json;

namespace {

class Graph {
 public:
  Graph(const ir::Module& flat, const ir::Module& planned, const ir::Target& target,
        const std::vector<ir::LibraryBill>& calls, Json& report)
      : flat_(flat), planned_(planned), target_(target), calls_(calls), report_(report) {
    places_.push_back({{"file", ""}, {"line", 0}, {"function", ""}, {"text", ""}});
  }

  void run() {
    // Functions that say what a user's kernel means are not run.
    std::vector<ir::FunctionPtr> all = flat_.functions;
    std::erase_if(all, [&](const ir::FunctionPtr& f) { return !planned_.find(f->name); });
    for (size_t i = 0; i < all.size(); ++i) index_[all[i]->name] = static_cast<int>(i);
    Json functions = Json::array();
    for (const ir::FunctionPtr& f : all) functions.push_back(function(*f));
    report_["sizes"] = std::move(sizes_);
    report_["types"] = std::move(types_);
    report_["places"] = std::move(places_);
    report_["functions"] = std::move(functions);
  }

 private:
  // ---- Tables that the others refer to by number
  Json size(const ir::Dim& d) {
    if (d.is_static()) return d.value();
    auto [it, fresh] = size_of_.try_emplace(d.str(), static_cast<int>(sizes_.size()));
    if (fresh) {
      sizes_.push_back(formula(d));
      sizes_.back()["max"] = d.bounds().max;
    }
    return -1 - it->second;
  }
  int type(const ir::Type& t) {
    auto [it, fresh] = type_of_.try_emplace(t.str(), static_cast<int>(types_.size()));
    if (fresh) types_.push_back({{"text", t.str()}, {"bytes", size(t.bytes())}});
    return it->second;
  }
  int place(const LocationRef& at) {
    if (!at || at->file.empty()) return 0;
    if (auto known = place_of_ref_.find(at.get()); known != place_of_ref_.end()) return known->second;
    auto [it, fresh] = place_of_.try_emplace({at->file, at->line, at->function, at->text}, places_.size());
    if (fresh)
      places_.push_back({{"file", at->file}, {"line", at->line}, {"function", at->function}, {"text", at->text}});
    return place_of_ref_[at.get()] = it->second;
  }

  Json function(const ir::Function& f) {
    Json out = {{"name", f.name}, {"place", place(f.location)}, {"params", f.params}, {"results", f.results}};
    Json values = Json::array(), nodes = Json::array(), calls = Json::array();
    for (const ir::Value& v : f.values) values.push_back({type(v.type), v.name});
    for (const ir::Node& n : f.nodes) {
      ir::Cost cost = n.op->cost(ir::typed(f, n));
      if (n.op->lower == ir::Lowering::kControl) calls.push_back(call(ir::control_of(f, n), nodes.size()));
      nodes.push_back({n.op->name, place(n.location), n.operands, n.results, ir::print_attrs(n), size(cost.flops),
                       size(cost.bytes)});
    }
    out["values"] = std::move(values), out["nodes"] = std::move(nodes), out["calls"] = std::move(calls);
    add_plan(*planned_.find(f.name), out);
    return out;
  }

  Json call(const ir::ControlFlow& c, size_t node) {
    static constexpr const char* kKinds[] = {"branch", "loop", "while"};  // by ControlFlow::Kind
    Json functions = Json::array();
    for (const std::string& name : c.functions) functions.push_back(index_.at(name));
    bool loop = c.kind == ir::ControlFlow::Kind::kLoop;
    return {{"node", node},
            {"kind", kKinds[static_cast<int>(c.kind)]},
            {"functions", functions},
            {"trips", loop ? size(c.trips) : Json(1)}};
  }

  // ---- What the function became
  struct Buffer {
    ir::ValueId value;
    int first, last;
  };

  void add_plan(const ir::Function& p, Json& out) {
    const ir::FunctionPlan& plan = planned_.plan->functions.at(p.name);
    Json& instructions = out["instructions"] = Json::array();
    for (const ir::Node& n : p.nodes) {
      if (!ir::is_instruction(n)) continue;
      ir::Dim bytes = 0;
      for (const std::vector<ir::ValueId>* ids : {&n.operands, &n.results})
        for (ir::ValueId id : *ids)
          if (plan.values[id].bytes > 0) bytes = bytes + p.type(id).bytes();
      const char* kind = n.op->lower == ir::Lowering::kCall      ? "kernel"
                         : n.op->lower == ir::Lowering::kControl ? "control"
                         : n.op->lower == ir::Lowering::kHost    ? "host"
                         : n.op->lower == ir::Lowering::kTransfer ? "transfer"
                                                                 : "library";
      const bool billed = n.op->lower == ir::Lowering::kLibrary && !calls_.empty();  // those of CPUs are not
      const size_t row = billed ? row_of(calls_, ir::library_call(n, p, target_)) : calls_.size();
      instructions.push_back({ir::made_by(n), kind, place(n.location), n.computes, size(bytes),
                              row < calls_.size() ? static_cast<int>(row) : -1});
    }
    Json& buffers = out["buffers"] = Json::array();
    std::vector<int> makers = ir::producers(p);
    for (const Buffer& b : temporaries(p, plan, makers)) {
      const ir::Placement& at = plan.values[b.value];
      const ir::Node& maker = p.nodes[makers[b.value]];
      buffers.push_back({p.values[b.value].name, type(p.type(b.value)), at.offset - planned_.plan->state_bytes,
                         at.bytes, b.first, b.last, place(maker.location)});
    }
    for (const auto& [node, at] : plan.workspaces) {
      int when = position(p, node);
      buffers.push_back(
          {"", -1, at.offset - planned_.plan->state_bytes, at.bytes, when, when, place(p.nodes[node].location)});
    }
    out["temporary_bytes"] = plan.temporary_bytes;
  }

  // Instructions before a node.
  static int position(const ir::Function& p, int node) {
    return static_cast<int>(std::count_if(p.nodes.begin(), p.nodes.begin() + node, ir::is_instruction));
  }

  // Values in the arena after the state, with the instructions from and to which they live. One that takes over the
  // memory of an operand lives from there, and the operand up to the instruction before.
  std::vector<Buffer> temporaries(const ir::Function& p, const ir::FunctionPlan& plan, const std::vector<int>& makers) {
    std::vector<Buffer> out;
    std::vector<int> of(p.values.size(), -1);  // buffer of a value, through views
    int now = 0;
    for (const ir::Node& n : p.nodes) {
      if (!ir::is_instruction(n)) {
        if (n.op->lower == ir::Lowering::kView) of[n.results[0]] = of[n.operands[0]];
        continue;
      }
      for (ir::ValueId id : n.operands)
        if (of[id] >= 0) out[of[id]].last = now;
      for (ir::ValueId id : n.results) {
        const ir::Placement& at = plan.values[id];
        if (at.base != ir::Base::kArena || at.offset < planned_.plan->state_bytes || at.bytes == 0) continue;
        for (ir::ValueId old : n.operands) {
          bool taken = of[old] >= 0 && plan.values[out[of[old]].value].offset == at.offset;
          if (taken) out[of[old]].last = std::max(out[of[old]].first, now - 1);
        }
        of[id] = static_cast<int>(out.size());
        out.push_back({id, now, now});
      }
      ++now;
    }
    for (const auto& staged : plan.staged_writes)
      if (of[staged.value] >= 0) out[of[staged.value]].last = now;
    return out;
  }

  const ir::Module &flat_, &planned_;
  const ir::Target& target_;
  const std::vector<ir::LibraryBill>& calls_;
  Json& report_;
  Json sizes_ = Json::array(), types_ = Json::array(), places_ = Json::array();
  std::map<std::string, int> index_, size_of_, type_of_;
  std::map<std::tuple<std::string, int, std::string, std::string>, int> place_of_;
  std::map<const Location*, int> place_of_ref_;
};

}  // namespace

void add_graph(const ir::Module& flat, const ir::Module& planned, const ir::Target& target,
               const std::vector<ir::LibraryBill>& calls, Json& report) {
  Graph(flat, planned, target, calls, report).run();
}

}  // namespace nabla::driver
