#include "passes/collective/keep_gathers.h"

#include <algorithm>
#include <map>

#include "passes/collective/parameters.h"
#include "passes/rewrite.h"

namespace nabla::passes {
namespace {

using ir::Function;
using ir::FunctionPtr;
using ir::Node;
using ir::Val;
using ir::ValueId;

Origins named_params(const Function& f) {
  Origins out;
  for (ValueId id : f.params) out.push_back(Origin{ir::value_name(f, id), {}});
  return out;
}

// A function in which gathers of equal values are one.
FunctionPtr merged(const FunctionPtr& f, const ir::Module& module, PassContext& context) {
  const Origins of = origins_of(*f, named_params(*f), module);
  std::vector<std::pair<Origin, ValueId>> made;
  FunctionCopy copy(*f, context.ops, &module);
  bool changed = false;
  for (const Node& n : f->nodes) {
    if (std::optional<Origin> gathered = gathered_origin(n, of)) {
      auto first = std::find_if(made.begin(), made.end(), [&](const auto& m) { return m.first == *gathered; });
      if (first != made.end()) {
        copy.set(n.results[0], copy.at(first->second));
        context.remarks.push_back({ir::RemarkKind::kKeptGather, gathered->root,
                                   fmt::format("reshard-after-forward=false: @{} keeps what it gathers of {} for what it computes again",
                                               f->name, gathered->root)});
        changed = true;
        continue;
      }
      made.emplace_back(std::move(*gathered), n.results[0]);
    }
    copy.copy(n);
  }
  return changed ? copy.finish() : f;
}

/// Loops of one function, the earlier of which keep what the later ones would gather again.
class Keeping {
 public:
  Keeping(const Function& f, ir::Module& module, PassContext& context) : f_(f), module_(module), context_(context) { find(); }

  bool any() const { return !reads_.empty(); }

  FunctionPtr run() {
    FunctionCopy copy(f_, context_.ops, &module_);
    for (size_t k = 0; k < f_.nodes.size(); ++k) {
      if (keeps_.count(k) || reads_.count(k))
        loop(k, copy);
      else
        copy.copy(f_.nodes[k]);
    }
    return copy.finish();
  }

 private:
  /// A gather in the body of a loop: nodes of the function and of the body.
  struct Place {
    size_t loop, gather;
  };

  const Function& body(size_t loop) const { return *module_.find(ir::control_of(f_, f_.nodes[loop]).functions.back()); }

  void find() {
    const Origins around = origins_of(f_, named_params(f_), module_);
    std::vector<std::pair<Origin, Place>> made;
    for (size_t k = 0; k < f_.nodes.size(); ++k) {
      if (!is_loop(f_, f_.nodes[k])) continue;
      Origins params = origins_inside(f_, f_.nodes[k], around);
      const auto consts = static_cast<size_t>(ir::control_of(f_, f_.nodes[k]).consts);
      std::fill_n(params.begin(), consts, std::nullopt);  // the same in every trip: hoist-collectives
      const Function& b = body(k);
      const Origins of = origins_of(b, std::move(params), module_);
      for (size_t i = 0; i < b.nodes.size(); ++i) {
        std::optional<Origin> gathered = gathered_origin(b.nodes[i], of);
        if (!gathered) continue;
        auto first = std::find_if(made.begin(), made.end(), [&](const auto& m) { return m.first == *gathered; });
        if (first == made.end()) {
          made.emplace_back(std::move(*gathered), Place{k, i});
        } else if (first->second.loop != k) {
          reads_[k][i] = first->second;
          keeps_[first->second.loop].insert({first->second.gather, Val()});
          say(*gathered, first->second, k);
        }
      }
    }
  }
  void say(const Origin& of, const Place& keeper, size_t reader) {
    const ir::ControlFlow flow = ir::control_of(f_, f_.nodes[keeper.loop]);
    const Function& b = body(keeper.loop);
    const int64_t bytes = b.type(b.nodes[keeper.gather].results[0]).bytes().bounds().max * flow.trips.bounds().max;
    context_.remarks.push_back(
        {ir::RemarkKind::kKeptGatherOfLoop, of.root,
         fmt::format("reshard-after-forward=false: what @{} gathers of {} is kept for @{}, {} bytes of all {} trips", b.name, of.root,
                     body(reader).name, bytes, flow.trips.str()),
         bytes});
  }

  // The loop, which stacks what it keeps, and slices what others have kept, after all that it has stacked and sliced.
  void loop(size_t k, FunctionCopy& copy) {
    const Node& n = f_.nodes[k];
    ir::ControlFlow flow = ir::control_of(f_, n);
    std::map<size_t, Val>& kept = keeps_[k];
    const std::map<size_t, Place>& read = reads_[k];
    flow.functions.back() = define(body(k), kept, read);
    std::vector<Val> operands = copy.at(n.operands);
    for (const auto& [gather, from] : read) operands.push_back(keeps_.at(from.loop).at(from.gather));
    copy.builder().set_location(n.location);
    std::vector<Val> results = copy.builder().add(n.op->name, operands, n.op->with_control(n.attrs, flow));
    size_t next = n.results.size();
    for (auto& [gather, value] : kept) value = results[next++];
    results.resize(n.results.size());
    copy.set(n.results, results);
  }
  int64_t references(const std::string& name) const {
    int64_t out = 0;
    for (const FunctionPtr& f : module_.functions)
      for (const Node& n : f->nodes)
        for (const std::string& other : ir::functions_of(n.attrs)) out += other == name;
    return out;
  }
  std::string define(const Function& b, const std::map<size_t, Val>& kept, const std::map<size_t, Place>& read) {
    Function wider = b;
    if (references(b.name) > 1) wider.name = fresh_name(module_, b.name);
    for (const auto& [gather, value] : kept) wider.results.push_back(b.nodes[gather].results[0]);
    FunctionCopy copy(wider, context_.ops, &module_);
    std::map<size_t, Val> given;
    for (const auto& [gather, from] : read) given[gather] = copy.builder().param("", b.type(b.nodes[gather].results[0]));
    for (size_t i = 0; i < b.nodes.size(); ++i) {
      if (auto value = given.find(i); value != given.end())
        copy.set(b.nodes[i].results[0], value->second);
      else
        copy.copy(b.nodes[i]);
    }
    module_.set(copy.finish());
    return wider.name;
  }

  const Function& f_;
  ir::Module& module_;
  PassContext& context_;
  std::map<size_t, std::map<size_t, Val>> keeps_;    // by loop and gather: what stacks it
  std::map<size_t, std::map<size_t, Place>> reads_;  // by loop and gather: where it is kept
};

/// What is gathered in an entry: the parameter's value, and the functions that do it.
using Sites = std::vector<std::pair<Origin, std::vector<std::string>>>;

void add(Sites& to, const Origin& of, const std::vector<std::string>& functions) {
  auto at = std::find_if(to.begin(), to.end(), [&](const auto& s) { return s.first == of; });
  if (at == to.end()) at = to.insert(to.end(), {of, {}});
  at->second.insert(at->second.end(), functions.begin(), functions.end());
}

Sites sites(const Function& f, const Origins& params, const ir::Module& module) {
  const Origins of = origins_of(f, params, module);
  Sites out;
  for (const Node& n : f.nodes) {
    if (std::optional<Origin> gathered = gathered_origin(n, of)) add(out, *gathered, {f.name});
    if (n.op->lower != ir::Lowering::kControl) continue;
    const ir::ControlFlow flow = ir::control_of(f, n);
    const bool one_of = flow.kind == ir::ControlFlow::Kind::kBranch;
    Sites most;
    for (const std::string& name : flow.functions) {
      for (auto& [origin, functions] : sites(*module.find(name), origins_inside(f, n, of), module)) {
        auto known = std::find_if(most.begin(), most.end(), [&, &origin = origin](const auto& s) { return s.first == origin; });
        if (!one_of || known == most.end())
          add(most, origin, functions);
        else if (functions.size() > known->second.size())
          known->second = functions;
      }
    }
    for (const auto& [origin, functions] : most) add(out, origin, functions);
  }
  return out;
}

// What is gathered more than once all the same.
void say_what_is_not_kept(const ir::Module& module, PassContext& context) {
  for (const ir::Entry& entry : module.entries) {
    const Function& f = *module.find(entry.function);
    for (const auto& [origin, functions] : sites(f, named_params(f), module)) {
      if (functions.size() < 2) continue;
      std::string where;
      for (const std::string& name : functions) where += (where.empty() ? "@" : " and in @") + name;
      context.remarks.push_back({ir::RemarkKind::kRepeatedGather, origin.root,
                                 fmt::format("reshard-after-forward=false: {} is gathered in {} all the same: what loops within a loop, or "
                                             "branches, gather is kept for nothing outside of them", origin.root, where)});
    }
  }
}

}  // namespace

Result<ir::Module> with_kept_gathers(const ir::Module& module, PassContext& context) {
  ir::Module out = module;
  for (const FunctionPtr& f : module.functions) out.set(merged(f, module, context));
  for (const FunctionPtr& f : NABLA_TRY(bottom_up(out))) {
    Keeping keeping(*f, out, context);
    if (keeping.any()) out.set(keeping.run());
  }
  drop_unreached(out);
  say_what_is_not_kept(out, context);
  return out;
}

}  // namespace nabla::passes
