#include "passes/transform/autocast.h"

#include <algorithm>
#include <memory>
#include <vector>

#include "passes/rewrite.h"

namespace nabla::passes {
namespace {

using ir::Function;
using ir::Node;
using ir::Val;
using ir::ValueId;

bool is_product(const ir::OpDef& op) {
  return op.lower == ir::Lowering::kContraction || op.lower == ir::Lowering::kConvolution;
}

// One function under construction. A value has the form in which it was made, and the other one once somebody asked.
class Caster {
 public:
  Caster(ir::FunctionBuilder& b, const ir::OpTable& ops, DType low) : b_(b), ops_(ops), low_(low) {}

  struct Value {
    Val full, low;
    bool made_low = false;
  };

  // Emits the nodes of f on these arguments; the values of its results.
  std::vector<Value> emit(const Function& f, std::vector<Value> args) {
    std::vector<Value> values(f.values.size()), out;
    for (size_t i = 0; i < args.size(); ++i) values[f.params[i]] = args[i];
    for (const Node& node : f.nodes) {
      if (node.location) b_.set_location(node.location);
      std::vector<Value*> operands;
      for (ValueId id : node.operands) operands.push_back(&values[id]);
      std::vector<Value> results = emit_node(f, node, operands);
      for (size_t i = 0; i < results.size(); ++i) {
        values[node.results[i]] = results[i];
        Val v = results[i].made_low ? results[i].low : results[i].full;
        const std::string& name = f.values[node.results[i]].name;
        if (!name.empty() && b_.function().values[v.id].name.empty()) b_.name_value(v, name);
      }
    }
    for (ValueId id : f.results) out.push_back(values[id]);
    return out;
  }
  Val full(Value& v) {
    if (!v.full.b) v.full = convert(v.low, DType::kF32);
    return v.full;
  }

 private:
  Val low(Value& v) {
    if (v.full.b && v.full.dtype() != DType::kF32) return v.full;
    if (!v.low.b) v.low = convert(v.full, low_);
    return v.low;
  }
  std::vector<Value> emit_node(const Function& f, const Node& node, const std::vector<Value*>& operands) {
    bool reads_f32 = false, reads_low = true;  // is there an f32 operand; were all of them made low?
    for (size_t i = 0; i < operands.size(); ++i) {
      const ir::Type& type = f.type(node.operands[i]);
      if (type.is_residual() || type.dtype != DType::kF32) continue;
      reads_f32 = true;
      reads_low &= operands[i]->made_low;
    }
    ir::TypedOp op = typed(f, node);
    // What a GPU may compute whole is not taken apart: its sums are f32 anyway.
    bool product = is_product(*node.op) || (node.op->traits.products && node.op->whole && node.op->whole(op));
    if (reads_f32 && !product && node.op->traits.composite) {
      Function inner = decomposition(op, node.location, ops_, b_.module());
      bool products =
          std::any_of(inner.nodes.begin(), inner.nodes.end(), [](const Node& n) { return is_product(*n.op); });
      if (products) {
        std::vector<Value> args;
        for (Value* v : operands) args.push_back(*v);
        return emit(inner, args);
      }
    }
    bool in_low = reads_f32 && (product || (reads_low && moves_only(op)));
    std::vector<Val> vals;
    for (size_t i = 0; i < operands.size(); ++i) {
      // What a whole composite takes besides its factors, such as a mask, it takes as it is.
      bool factor = !node.op->traits.products || i + 1 < node.op->operands.size();
      vals.push_back(in_low && (factor || operands[i]->made_low) ? low(*operands[i]) : full(*operands[i]));
    }
    std::vector<Value> out;
    for (Val v : b_.clone(node, vals)) {
      bool is_low = in_low && v.type().dtype == low_;
      out.push_back(is_low ? Value{Val(), v, true} : Value{v, Val(), false});
    }
    return out;
  }
  // Every element of the result is one of an operand's, or a fixed number.
  static bool moves_only(const ir::TypedOp& op) {
    bool same = op.op.control == nullptr && op.op.linearity.has(kernel_ir::Combiner::kSum);
    for (const ir::Type& t : op.results) same &= t.dtype == DType::kF32;
    return same && op.op.cost(op).flops == ir::Dim(0);
  }

  ir::FunctionBuilder& b_;
  const ir::OpTable& ops_;
  DType low_;
};

}  // namespace

std::string Autocaster::cast(const std::string& function, DType dtype) {
  auto key = std::pair(function, dtype);
  if (auto known = made_.find(key); known != made_.end()) return known->second;
  const Function* found = module_.find(function);
  NABLA_CHECK(found, "autocast: no function @{}", function);
  Function f = *found;
  for (Node& node : f.nodes)
    node.attrs = with_functions(node.attrs, [&](const std::string& callee) { return cast(callee, dtype); });
  ir::FunctionBuilder b(fresh_name(module_, fmt::format("{}.{}", f.name, name_of(dtype))), ops_, &module_);
  b.set_location(f.location);
  Caster caster(b, ops_, dtype);
  std::vector<Caster::Value> args;
  for (ValueId id : f.params) args.push_back({b.param(f.values[id].name, f.type(id)), Val(), false});
  std::vector<Val> results;
  for (Caster::Value& v : caster.emit(f, args)) results.push_back(caster.full(v));
  Function out = b.finish(results);
  out.location = f.location;
  std::string name = out.name;
  module_.functions.push_back(std::make_shared<const Function>(std::move(out)));
  return made_[key] = name;
}

}  // namespace nabla::passes
