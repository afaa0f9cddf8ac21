#include "cli/driver/report_graph.h"

#include <algorithm>
#include <map>
#include <set>

#include "ir/cost/least_work.h"
#include "ir/plan.h"
#include "ir/text.h"
#include "passes/rewrite.h"

namespace nabla::driver {

using Json = nlohmann::ordered_json;

Json formula(const ir::Dim& size) {
  static constexpr const char* kNames[] = {"", "", "+", "*", "floordiv", "mod", "min", "max"};  // by SizeStep::Op
  std::string postfix;
  for (const ir::SizeStep& step : size.steps())
    postfix += (postfix.empty() ? "" : " ") + (step.op == ir::SizeStep::Op::kConstant ? std::to_string(step.value)
                                               : step.symbol                          ? step.symbol->name
                                                             : kNames[static_cast<int>(step.op)]);
  return {{"text", size.str()}, {"postfix", postfix}};
}

std::string place_of(const LocationRef& at) {
  return at && !at->file.empty() ? fmt::format("{}:{}", at->file, at->line) : "";
}

bool is_instruction(const ir::Node& n) {
  return n.op->lower != ir::Lowering::kView && n.op->lower != ir::Lowering::kConstant;
}

std::string made_by(const ir::Node& n) {
  const ir::Attr* kernel = n.attrs.find("kernel");
  return kernel ? std::get<std::string>(*kernel) : n.op->name;
}

namespace {

// What functions cost by themselves and by what they run, each function once: shared bodies would be walked once for
// every way to them.
template <class Total>
class Totals {
 public:
  explicit Totals(const ir::Module& m) : m_(m) {}
  virtual ~Totals() = default;
  const Total& of(const ir::Function& f) {
    auto known = done_.find(f.name);
    return known != done_.end() ? known->second : done_.emplace(f.name, sum(f)).first->second;
  }

 protected:
  virtual Total sum(const ir::Function& f) = 0;
  const ir::Module& m_;

 private:
  std::map<std::string, Total> done_;
};

// Of a loop all trips, of a branch the costlier side, of a while one round.
template <class SizeOf>
ir::Dim inside(const ir::ControlFlow& c, const SizeOf& size_of) {
  ir::Dim out = 0;
  for (const std::string& name : c.functions) {
    ir::Dim callee = size_of(name);
    out = c.kind == ir::ControlFlow::Kind::kBranch ? ir::Dim::max(out, callee) : out + callee;
  }
  return c.kind == ir::ControlFlow::Kind::kLoop ? out * c.trips : out;
}

class WorkTotals : public Totals<Work> {
  using Totals::Totals;
  Work sum(const ir::Function& f) override {
    Work out;
    for (const ir::Node& n : f.nodes) {
      out.flops = out.flops + ir::node_flops(f, n);
      if (n.op->lower != ir::Lowering::kControl) continue;
      ir::ControlFlow c = passes::control_of(f, n);
      out.at_least |= c.kind == ir::ControlFlow::Kind::kWhile;
      out.flops = out.flops + inside(c, [&](const std::string& name) {
                    const Work& callee = of(*m_.find(name));
                    out.at_least |= callee.at_least;
                    return callee.flops;
                  });
    }
    out.at_least |= out.flops.bounds().max == INT64_MAX;  // sums saturate there
    return out;
  }
};

class MovedTotals : public Totals<ir::Dim> {
 public:
  explicit MovedTotals(const ir::Module& planned) : Totals(planned), bytes_(planned) {}

 private:
  ir::Dim sum(const ir::Function& f) override {
    ir::Dim moved = 0;
    for (const ir::Node& n : f.nodes) {
      if (!is_instruction(n)) continue;
      if (n.op->lower == ir::Lowering::kControl) {
        moved = moved + inside(passes::control_of(f, n), [&](const std::string& name) { return of(*m_.find(name)); });
        continue;
      }
      moved = moved + bytes_.of(f, n);
    }
    return moved;
  }
  const ir::MovedBytes bytes_;
};

class AgainTotals : public Totals<ir::Dim> {
 public:
  AgainTotals(const ir::Module& planned, const ir::Module& flat) : Totals(planned), flat_(flat) {
    for (const kernel_ir::KernelPtr& k : planned.kernels) kernels_[k->name] = k.get();
  }

 private:
  ir::Dim sum(const ir::Function& f) override {
    ir::Dim again = 0;
    std::set<std::pair<std::string, std::vector<int>>> seen;  // kernels, and the nodes that they compute
    for (const ir::Node& n : f.nodes) {
      if (!is_instruction(n)) continue;
      if (n.op->lower == ir::Lowering::kControl)
        again = again + inside(passes::control_of(f, n), [&](const std::string& name) { return of(*m_.find(name)); });
      if (n.computes.empty() || seen.emplace(made_by(n), n.computes).second) continue;
      auto kernel = kernels_.find(made_by(n));
      again = again + ir::launch_flops(n, flat_.find(f.name), kernel == kernels_.end() ? nullptr : kernel->second);
    }
    return again;
  }
  const ir::Module& flat_;
  std::map<std::string, const kernel_ir::Kernel*> kernels_;
};

}  // namespace

ir::Dim flops_again(const ir::Function& f, const ir::Module& planned, const ir::Module& flat) {
  return AgainTotals(planned, flat).of(f);
}
Work work_of(const ir::Function& f, const ir::Module& m) { return WorkTotals(m).of(f); }
ir::Dim moved_by(const ir::Function& f, const ir::Module& planned) { return MovedTotals(planned).of(f); }

namespace {

class Graph {
 public:
  Graph(const ir::Module& flat, const ir::Module& planned, const std::map<const ir::Node*, int>& calls, Json& report)
      : flat_(flat), planned_(planned), calls_(calls), report_(report) {
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
    Json &values = out["values"] = Json::array(), &nodes = out["nodes"] = Json::array(),
         &calls = out["calls"] = Json::array();
    for (const ir::Value& v : f.values) values.push_back({type(v.type), v.name});
    for (const ir::Node& n : f.nodes) {
      ir::Cost cost = n.op->cost(passes::typed(f, n));
      if (n.op->lower == ir::Lowering::kControl) calls.push_back(call(passes::control_of(f, n), nodes.size()));
      nodes.push_back({n.op->name, place(n.location), n.operands, n.results, ir::print_attrs(n), size(cost.flops),
                       size(cost.bytes)});
    }
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
      if (!is_instruction(n)) continue;
      ir::Dim bytes = 0;
      for (const std::vector<ir::ValueId>* ids : {&n.operands, &n.results})
        for (ir::ValueId id : *ids)
          if (plan.values[id].bytes > 0) bytes = bytes + p.type(id).bytes();
      const char* kind = n.op->lower == ir::Lowering::kCall      ? "kernel"
                         : n.op->lower == ir::Lowering::kControl ? "control"
                         : n.op->lower == ir::Lowering::kHost    ? "host"
                         : n.op->lower == ir::Lowering::kTransfer ? "transfer"
                                                                 : "library";
      auto call = calls_.find(&n);
      instructions.push_back(
          {made_by(n), kind, place(n.location), n.computes, size(bytes), call == calls_.end() ? -1 : call->second});
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
    return static_cast<int>(std::count_if(p.nodes.begin(), p.nodes.begin() + node, is_instruction));
  }

  // Values in the arena after the state, with the instructions from and to which they live. One that takes over the
  // memory of an operand lives from there, and the operand up to the instruction before.
  std::vector<Buffer> temporaries(const ir::Function& p, const ir::FunctionPlan& plan, const std::vector<int>& makers) {
    std::vector<Buffer> out;
    std::vector<int> of(p.values.size(), -1);  // buffer of a value, through views
    int now = 0;
    for (const ir::Node& n : p.nodes) {
      if (!is_instruction(n)) {
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
  const std::map<const ir::Node*, int>& calls_;
  Json& report_;
  Json sizes_ = Json::array(), types_ = Json::array(), places_ = Json::array();
  std::map<std::string, int> index_, size_of_, type_of_;
  std::map<std::tuple<std::string, int, std::string, std::string>, int> place_of_;
  std::map<const Location*, int> place_of_ref_;
};

}  // namespace

void add_graph(const ir::Module& flat, const ir::Module& planned, const std::map<const ir::Node*, int>& calls,
               Json& report) {
  Graph(flat, planned, calls, report).run();
}

}  // namespace nabla::driver
