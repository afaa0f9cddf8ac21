#include "ir/builder.h"

#include <algorithm>

#include "ir/op_def.h"

namespace nabla::ir {

const Type& Val::type() const { return b->type(id); }

FunctionBuilder::FunctionBuilder(std::string name, const OpTable& ops, const Module* module)
    : ops_(ops), module_(module) {
  function_.name = std::move(name);
}

Val FunctionBuilder::param(std::string name, Type type) {
  ValueId id = static_cast<ValueId>(function_.values.size());
  function_.values.push_back({std::move(type), std::move(name)});
  function_.params.push_back(id);
  return {this, id};
}

Result<std::vector<Val>> FunctionBuilder::try_add(std::string_view name, std::vector<Val> operands, Attrs attrs) {
  const OpDef* op = ops_.find(name);
  if (!op) {
    Diagnostic d = error(Code::kUnknownOp, "unknown op `{}`{}", name, did_you_mean(name, ops_.names()));
    d.location = location_;
    return d;
  }
  std::vector<Type> types;
  types.reserve(operands.size());
  for (Val v : operands) {
    NABLA_CHECK(v.b == this, "{}: an operand belongs to another function", name);
    types.push_back(v.type());
  }
  auto explain = [&](Diagnostics errors) {
    for (Diagnostic& d : errors) {
      if (!d.location) d.location = location_;
      for (Val v : operands) d.notes.push_back(describe_value(function_, v.id));
    }
    return errors;
  };
  Result<Attrs> full = complete_attrs(*op, std::move(attrs));
  if (!full.ok()) return explain(full.errors());
  FunctionLookup lookup = [this](std::string_view f) { return module_ ? module_->find(f) : nullptr; };
  Result<std::vector<Type>> results = infer_types(*op, types, *full, lookup);
  if (!results.ok()) return explain(results.errors());
  return append(*op, operands, std::move(*full), std::move(*results));
}

std::vector<Val> FunctionBuilder::append(const OpDef& op, const std::vector<Val>& operands, Attrs attrs,
                                         std::vector<Type> types) {
  Node node{&op, {}, std::move(attrs), {}, location_, computes_};
  node.operands.reserve(operands.size());
  for (Val v : operands) node.operands.push_back(v.id);
  std::vector<Val> out;
  out.reserve(types.size());
  node.results.reserve(types.size());
  for (Type& t : types) {
    ValueId id = static_cast<ValueId>(function_.values.size());
    function_.values.push_back({std::move(t), ""});
    node.results.push_back(id);
    out.push_back({this, id});
  }
  function_.nodes.push_back(std::move(node));
  return out;
}

std::vector<Val> FunctionBuilder::add(std::string_view name, std::vector<Val> operands, Attrs attrs) {
  return try_add(name, std::move(operands), std::move(attrs)).value();
}

Val FunctionBuilder::op(std::string_view name, std::vector<Val> operands, Attrs attrs) {
  return add(name, std::move(operands), std::move(attrs))[0];
}

std::vector<Val> FunctionBuilder::clone(const Node& node, std::vector<Val> operands) {
  LocationRef outer = location_;
  if (node.location) location_ = node.location;
  std::vector<Val> out = add(node.op->name, std::move(operands), node.attrs);
  location_ = outer;
  return out;
}

std::vector<Val> FunctionBuilder::clone(const Node& node, const Function& from, std::vector<Val> operands) {
  bool same = operands.size() == node.operands.size();
  for (size_t i = 0; i < operands.size() && same; ++i) same = operands[i].type() == from.type(node.operands[i]);
  if (!same) return clone(node, std::move(operands));
  for (const auto& [name, attr] : node.attrs)
    if (kind_of(attr) == AttrKind::kFunction || kind_of(attr) == AttrKind::kFunctions)
      return clone(node, std::move(operands));
  LocationRef outer = location_;
  if (node.location) location_ = node.location;
  std::vector<Val> out = append(*node.op, operands, node.attrs, from.types(node.results));
  location_ = outer;
  return out;
}

void FunctionBuilder::name_value(Val v, std::string name) { function_.values[v.id].name = std::move(name); }

Val FunctionBuilder::constant(const Literal& literal) { return op("constant", {}, {{"value", literal}}); }

Val FunctionBuilder::fill(DType dtype, const Shape& shape, double value) {
  Val scalar = constant(Literal::scalar(dtype, value));
  return shape.empty() ? scalar : ir::broadcast_in_dim(scalar, shape, {});
}

Function FunctionBuilder::finish(const std::vector<Val>& results) {
  for (Val v : results) function_.results.push_back(v.id);
  return std::move(function_);
}

Val operator+(Val a, Val b) { return a.b->op("add", {a, b}); }
Val operator-(Val a, Val b) { return a.b->op("sub", {a, b}); }
Val operator*(Val a, Val b) { return a.b->op("mul", {a, b}); }
Val operator/(Val a, Val b) { return a.b->op("div", {a, b}); }
Val operator-(Val a) { return a.b->op("neg", {a}); }
Val operator*(Val a, double b) { return a * a.b->like(a, b); }
Val operator+(Val a, double b) { return a + a.b->like(a, b); }
Val operator-(double a, Val b) { return b.b->like(b, a) - b; }

Val broadcast_in_dim(Val v, const Shape& shape, Ints dims) {
  if (v.shape() == shape && dims == iota_ints(v.rank())) return v;
  return v.b->op("broadcast_in_dim", {v}, {{"shape", shape}, {"dims", std::move(dims)}});
}

Val broadcast_along(Val v, const Shape& shape, const Ints& axes) {
  Ints dims;
  for (int64_t i = 0; i < static_cast<int64_t>(shape.size()); ++i)
    if (std::find(axes.begin(), axes.end(), i) == axes.end()) dims.push_back(i);
  return broadcast_in_dim(v, shape, dims);
}

Val reduce_sum(Val v, Ints axes) { return axes.empty() ? v : v.b->op("reduce_sum", {v}, {{"axes", std::move(axes)}}); }
Val reduce_max(Val v, Ints axes) { return axes.empty() ? v : v.b->op("reduce_max", {v}, {{"axes", std::move(axes)}}); }
Val reshape(Val v, Shape shape) {
  return v.shape() == shape ? v : v.b->op("reshape", {v}, {{"shape", std::move(shape)}});
}
Val transpose(Val v, Ints permutation) {
  return permutation == iota_ints(v.rank()) ? v : v.b->op("transpose", {v}, {{"permutation", std::move(permutation)}});
}
Val select(Val predicate, Val on_true, Val on_false) {
  return predicate.b->op("select", {predicate, on_true, on_false});
}
Val convert(Val v, DType dtype) { return v.dtype() == dtype ? v : v.b->op("convert", {v}, {{"dtype", dtype}}); }

Ints iota_ints(int n) {
  Ints out(n);
  for (int i = 0; i < n; ++i) out[i] = i;
  return out;
}

}  // namespace nabla::ir
