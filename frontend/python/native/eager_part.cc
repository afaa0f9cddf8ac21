#include "frontend/python/native/eager_part.h"

#include <unistd.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>

#include "cli/driver/compile.h"
#include "frontend/cpp/trace.h"
#include "frontend/python/native/eager_kernels.h"
#include "frontend/python/native/reproducer.h"
#include "frontend/python/native/value.h"
#include "ir/op_def.h"
#include "ir/symbols.h"
#include "ir/target.h"
#include "passes/shard/layout.h"
#include "passes/strategy/state_roles.h"

namespace nabla::python {
namespace {

// Whether there is something that only the compiler's passes can take apart.
bool needs_passes(const ir::Module& m) {
  for (const ir::FunctionPtr& f : m.functions)
    for (const ir::Node& n : f->nodes)
      if (n.op->lower == ir::Lowering::kTransform) return true;
  return false;
}

// The names of all functions that it names, and that these name.
void add_callees(const ir::Module& m, const ir::Function& f, std::set<std::string>& names) {
  for (const ir::Node& n : f.nodes)
    for (const std::string& callee : functions_of(n.attrs))
      if (names.insert(callee).second) add_callees(m, *m.find(callee), names);
}

int64_t bytes_of_result(const ir::Function& f, const ir::Node& n) {
  if (n.results.empty()) return 0;
  const ir::Type& t = f.type(n.results[0]);
  return t.is_static() && !t.is_residual() ? t.bytes().value() : 0;
}

Diagnostic no_memory(const ir::Function& f) {
  const ir::Node* largest = nullptr;
  for (const ir::Node& n : f.nodes)
    if (bytes_of_result(f, n) > (largest ? bytes_of_result(f, *largest) : 0)) largest = &n;
  Diagnostic d = error(Code::kOutOfMemory, "no memory for tensors computed here; the largest is {}, {} bytes",
                       largest ? f.type(largest->results[0]).str() : "an argument",
                       largest ? bytes_of_result(f, *largest) : 0);
  if (largest) d.location = largest->location;
  return d;
}

// A system may promise more memory than it has, and end the process that uses it: what cannot fit is not tried.
void refuse_huge(const ir::Function& f) {
  static const int64_t physical = static_cast<int64_t>(::sysconf(_SC_PHYS_PAGES)) * ::sysconf(_SC_PAGESIZE);
  for (const ir::Node& n : f.nodes)
    if (physical > 0 && bytes_of_result(f, n) > physical) throw Error(no_memory(f));
}

// By value of the function: whether it follows from one with a layout.
std::vector<bool> placed_values(const ir::Module& m, const ir::Function& f) {
  std::vector<bool> out(f.values.size());
  for (ir::ValueId p : f.params) out[p] = f.values[p].sharding != nullptr;
  for (const ir::Node& n : f.nodes) {
    bool placed = n.op->layout_role == ir::LayoutRole::kShard || n.op->manual ||
                  std::any_of(n.operands.begin(), n.operands.end(), [&](int id) { return out[id]; });
    for (const std::string& callee : functions_of(n.attrs)) placed = placed || lays_out(*m.find(callee));
    for (ir::ValueId r : n.results) out[r] = placed || f.values[r].sharding;
  }
  return out;
}

// The layout with these axes, to which none are added. Null: whole. `pads`: also where axes do not divide.
ir::ShardingRef closed(const ir::Type& type, const ir::Sharding* layout, bool pads = false) {
  ir::Sharding out = passes::whole_sharding(type.rank());
  for (size_t d = 0; layout && d < out.dims.size(); ++d) out.dims[d].axes = layout->dims[d].axes;
  if (layout) out.allow_padding = pads || layout->allow_padding;
  return std::make_shared<const ir::Sharding>(std::move(out));
}

// What a result of the sharded program was before its padding was taken off, for which ranks gather it: a tensor keeps its
// layout. Itself where it has none. What pad-shards adds there has no location, other than the user's slices and layouts.
const ir::Value& with_padding(const ir::Function& f, const std::vector<int>& makers, ir::ValueId result) {
  auto made_by = [&](ir::ValueId id, std::string_view op) {
    const ir::Node* n = makers[id] < 0 ? nullptr : &f.nodes[makers[id]];
    return n && n->op->name == op && !n->location ? n : nullptr;
  };
  const ir::Node* slice = made_by(result, "slice");
  const ir::Node* gather = slice ? made_by(slice->operands[0], "shard") : nullptr;
  return f.values[gather ? gather->operands[0] : result];
}

// By the compiler's passes, up to a stage.
ir::Module simplified(const ir::Module& module, ir::Stage to) {
  Result<ir::Target> target = ir::find_target("cpu");
  Reproducer reproducer(module, "nablac opt FILE");
  return reproducer.value_or_throw(driver::simplify_module(module, target.value(), reproducer.manager(), to));
}

}  // namespace

Part part_of(const ir::Function& f, const std::vector<int>& ids, const std::function<bool(int)>& is_given) {
  std::vector<bool> wanted(f.values.size(), false);
  std::vector<const ir::Node*> nodes;
  for (int id : ids) wanted[id] = true;
  for (auto node = f.nodes.rbegin(); node != f.nodes.rend(); ++node) {
    bool used = false;
    for (ir::ValueId r : node->results) used |= wanted[r] && !is_given(r);
    if (!used) continue;
    nodes.push_back(&*node);
    for (ir::ValueId o : node->operands) wanted[o] = true;
  }
  Part out;
  std::vector<int> to(f.values.size(), -1);
  auto add = [&](ir::ValueId id) {
    to[id] = static_cast<int>(out.function.values.size());
    out.function.values.push_back({f.values[id].type, "", f.values[id].sharding});
    return to[id];
  };
  for (size_t id = 0; id < wanted.size(); ++id)
    if (wanted[id] && is_given(static_cast<int>(id)))
      out.function.params.push_back(add(static_cast<int>(id))), out.arguments.push_back(static_cast<int>(id));
  for (auto n = nodes.rbegin(); n != nodes.rend(); ++n) {
    ir::Node node = **n;
    for (ir::ValueId& o : node.operands) o = to[o];
    for (ir::ValueId& r : node.results) {
      int known = to[r];  // a result that has bytes is computed beside the others; nobody uses it
      int made = add(r);
      if (known >= 0) to[r] = known;
      r = made;
    }
    out.function.nodes.push_back(std::move(node));
  }
  for (int id : ids) out.function.results.push_back(to[id]);
  out.function.name = kEagerName;
  return out;
}

ir::Module module_of_part(const ir::Module& context, ir::Function part) {
  ir::Module module = context;
  // Other functions may have symbols of their own: those that a compiler has traced.
  std::set<std::string> callees;
  add_callees(module, part, callees);
  std::erase_if(module.functions, [&](const ir::FunctionPtr& f) { return !callees.contains(f->name); });
  ir::Entry entry{kEagerName, part.name, {}, {}, {}, {}};
  for (size_t i = 0; i < part.params.size(); ++i) entry.inputs.push_back(fmt::format("a{}", i));
  for (size_t i = 0; i < part.results.size(); ++i) entry.outputs.push_back(fmt::format("r{}", i));
  module.entries = {std::move(entry)};
  module.functions.push_back(std::make_shared<const ir::Function>(std::move(part)));
  // Those of a function that is being compiled are declared when it is complete.
  for (const ir::FunctionPtr& f : module.functions)
    for (const ir::SymbolRef& s : ir::symbols_of(*f))
      if (std::none_of(module.symbols.begin(), module.symbols.end(), [&](const auto& t) { return t->name == s->name; }))
        module.symbols.push_back(s);
  auto lays_out_any = [](const ir::FunctionPtr& f) { return lays_out(*f); };
  if (std::none_of(module.functions.begin(), module.functions.end(), lays_out_any)) module.meshes.clear();
  return module;
}

std::vector<Literal> evaluate_part(ir::Module module, std::vector<Literal> arguments) {
  const std::string name = module.entries[0].function;
  if (needs_passes(module))
    module = simplified(module, module.mesh() ? ir::Stage::kFlat : ir::Stage::kLocal);
  else
    module.stage = ir::Stage::kFlat;
  refuse_huge(*module.find(name));
  Result<std::vector<Literal>> results = [&]() -> Result<std::vector<Literal>> {
    try {
      return python::evaluate(module, *module.find(name), std::move(arguments));
    } catch (const std::bad_alloc&) {
      return no_memory(*module.find(name));
    }
  }();
  if (!results.ok()) throw Error(results.errors());
  return std::move(*results);
}

std::optional<ir::ValueId> primal_of(const ir::Function& f, const std::vector<int>& makers, ir::ValueId id) {
  while (makers[id] >= 0 && f.nodes[makers[id]].op->name == "stop_gradient") id = f.nodes[makers[id]].operands[0];
  if (makers[id] < 0) return std::nullopt;
  for (auto [primal, gradient] : passes::gradient_pairs(f, f.nodes[makers[id]], makers))
    if (gradient == id) return primal;
  return std::nullopt;
}

std::vector<ir::ShardingRef> layouts_of_results(const ir::Module& module) {
  ir::Function part = *module.find(module.entries[0].function);
  const size_t wanted = part.results.size();
  std::vector<ir::ShardingRef> out(wanted);
  if (!module.mesh()) return out;
  const std::vector<bool> placed = placed_values(module, part);
  std::map<size_t, size_t> like;  // by result that is a gradient: the result whose gradient it is, added to the others
  const std::vector<int> makers = ir::producers(part);
  ir::Module known = module;
  for (size_t i = 0; i < wanted; ++i) {
    std::optional<ir::ValueId> primal = primal_of(part, makers, part.results[i]);
    if (!primal || !placed[*primal]) continue;
    like[i] = part.results.size();
    known.entries[0].outputs.push_back(fmt::format("primal{}", i));
    part.results.push_back(*primal);
  }
  out.resize(part.results.size());
  for (ir::ValueId p : part.params)
    if (ir::Value& v = part.values[p]; !v.sharding && !v.type.is_residual())
      v.sharding = std::make_shared<const ir::Sharding>(passes::whole_sharding(v.type.rank()));
  const std::vector<ir::ValueId> results = part.results;
  known.set(std::make_shared<const ir::Function>(std::move(part)));
  ir::Module sharded = simplified(known, ir::Stage::kSharded);
  const ir::Function& f = *sharded.find(sharded.entries[0].function);
  const ir::Function& traced = *known.find(known.entries[0].function);
  const std::vector<int> sharded_makers = ir::producers(f);
  for (size_t i = 0; i < out.size(); ++i) {
    if (!placed[results[i]]) continue;
    const ir::Value& v = f.values[f.results[i]];
    const ir::Value& padded = with_padding(f, sharded_makers, f.results[i]);
    out[i] = closed(v.type, padded.sharding.get(), &padded != &v);
    int maker = makers[results[i]];
    if (maker < 0 || traced.nodes[maker].op->layout_role != ir::LayoutRole::kShard) continue;
    const ir::Sharding& said = traced.nodes[maker].attrs.get_sharding("sharding");
    if (said.allow_padding) out[i] = closed(v.type, &said);
    if (said.replicated.empty()) continue;
    ir::Sharding kept = *out[i];
    kept.replicated = said.replicated;
    out[i] = std::make_shared<const ir::Sharding>(std::move(kept));
  }
  for (auto at = like.rbegin(); at != like.rend(); ++at) out[at->first] = out[at->second];
  out.resize(wanted);
  return out;
}

ir::ShardingRef layout_of_value(const Frame& frame, int id) {
  const ir::Function& f = frame.builder.function();
  auto is_parameter = [&](int v) { return std::find(f.params.begin(), f.params.end(), v) != f.params.end(); };
  Part part = part_of(f, {id}, [&](int v) { return is_parameter(v) || f.values[v].sharding; });
  // A parameter that reads a leaf of the state has no layout of its own: it lies as the leaf does.
  for (auto [leaf, value] : frame.reads)
    for (size_t i = 0; i < part.arguments.size(); ++i)
      if (part.arguments[i] == value) part.function.values[part.function.params[i]].sharding = frame.context->module.state[leaf].sharding;
  return layouts_of_results(module_of_part(frame.context->module, std::move(part.function)))[0];
}

}  // namespace nabla::python
