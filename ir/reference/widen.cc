// The f64 mode of the reference interpreter.
#include <functional>
#include <set>

#include "ir/op_def.h"
#include "ir/ops/all_ops.h"
#include "ir/reference/interpreter.h"

namespace nabla::ir {
namespace {

DType widened(DType dtype) { return is_float(dtype) ? DType::kF64 : dtype; }
Type widened(const Type& type) {
  Type out = type;
  out.dtype = widened(type.dtype);
  return out;
}

Attrs widened(const Attrs& attrs) {
  Attrs out = attrs;
  for (const auto& [name, attr] : attrs) {
    if (const DType* dtype = std::get_if<DType>(&attr)) out.set(name, widened(*dtype));
    if (const Literal* literal = std::get_if<Literal>(&attr)) out.set(name, widen_to_f64(*literal));
  }
  return out;
}

Function widen_function(const Function& f, const Module& module) {
  FunctionBuilder b(f.name, ops::all_ops(), &module);
  std::vector<Val> values(f.values.size());
  for (ValueId id : f.params) values[id] = b.param(f.values[id].name, widened(f.type(id)));
  for (const Node& node : f.nodes) {
    std::vector<Val> operands;
    for (ValueId id : node.operands) operands.push_back(values[id]);
    b.set_location(node.location);
    // What a dtype's random numbers are depends on the dtype, so these are drawn first and widened afterwards.
    bool random = node.op->category == "random";
    std::vector<Val> results = b.add(node.op->name, operands, random ? node.attrs : widened(node.attrs));
    for (size_t i = 0; i < results.size(); ++i)
      values[node.results[i]] = convert(results[i], widened(results[i].dtype()));
  }
  std::vector<Val> results;
  for (ValueId id : f.results) results.push_back(values[id]);
  Function out = b.finish(results);
  out.location = f.location;
  return out;
}

}  // namespace

Literal widen_to_f64(const Literal& literal) { return literal.converted(widened(literal.dtype())); }

Module widen_to_f64(const Module& module) {
  Module out = module;
  for (StateLeaf& leaf : out.state) leaf.type = widened(leaf.type);
  // Callees first: a call's types are those of the widened callee.
  std::set<std::string> done;
  std::function<void(const Function&)> widen = [&](const Function& f) {
    if (!done.insert(f.name).second) return;
    for (const Node& node : f.nodes)
      for (const std::string& name : functions_of(node.attrs))
        if (const Function* callee = module.find(name)) widen(*callee);
    out.set(std::make_shared<const Function>(widen_function(f, out)));
  };
  for (const FunctionPtr& f : module.functions) widen(*f);
  return out;
}

}  // namespace nabla::ir
