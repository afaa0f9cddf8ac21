#include "tests/property/driver.h"

#include <algorithm>

#include "ir/ops/all_ops.h"
#include "ir/reference/interpreter.h"
#include "ir/target.h"
#include "passes/pass.h"
#include "passes/transform/lower_transforms.h"

namespace nabla::property {

using ir::Function;
using ir::FunctionBuilder;
using ir::MaybeVal;
using ir::Node;
using ir::TypedOp;
using ir::Val;

namespace {

TypedOp typed(const Function& f, const Node& node) {
  return {*node.op, f.types(node.operands), node.attrs, f.types(node.results)};
}

bool any_float(const std::vector<ir::Type>& types) {
  return std::any_of(types.begin(), types.end(), [](const ir::Type& t) { return is_float(t.dtype); });
}

// A copy of f inside `b` in which nodes whose derivative is by decomposition are decomposed.
class Copier {
 public:
  using ByDecomposition = std::function<bool(const ir::OpDef&)>;
  Copier(FunctionBuilder& b, const ByDecomposition& expand) : b_(b), expand_(expand) {}

  std::vector<Val> copy(const Function& f, const std::vector<Val>& params) {
    std::vector<Val> values(f.values.size());
    for (size_t i = 0; i < params.size(); ++i) values[f.params[i]] = params[i];
    for (const Node& node : f.nodes) {
      std::vector<Val> operands;
      for (int id : node.operands) operands.push_back(values[id]);
      std::vector<Val> results = expand_(*node.op) ? expand(typed(f, node), operands) : b_.clone(node, operands);
      for (size_t i = 0; i < results.size(); ++i) values[node.results[i]] = results[i];
    }
    std::vector<Val> out;
    for (int id : f.results) out.push_back(values[id]);
    return out;
  }

 private:
  std::vector<Val> expand(const TypedOp& op, const std::vector<Val>& operands) {
    FunctionBuilder inner("decomposition", b_.ops());
    std::vector<Val> params;
    for (const ir::Type& t : op.operands) params.push_back(inner.param("x", t));
    ir::DecomposeContext ctx{inner, op, params};
    std::vector<Val> results = op.op.decompose(ctx);
    return copy(inner.finish(results), operands);
  }

  FunctionBuilder& b_;
  const ByDecomposition& expand_;
};

Function expanded(const Function& f, const Copier::ByDecomposition& expand) {
  FunctionBuilder b(f.name, ops::all_ops());
  std::vector<Val> params;
  for (int id : f.params) params.push_back(b.param("x", f.type(id)));
  return b.finish(Copier(b, expand).copy(f, params));
}

std::vector<Val> copy_nodes(FunctionBuilder& b, const Function& f, const std::vector<Val>& params,
                            std::vector<Val>& values) {
  values.assign(f.values.size(), Val{});
  for (size_t i = 0; i < params.size(); ++i) values[f.params[i]] = params[i];
  for (const Node& node : f.nodes) {
    std::vector<Val> operands;
    for (int id : node.operands) operands.push_back(values[id]);
    std::vector<Val> results = b.clone(node, operands);
    for (size_t i = 0; i < results.size(); ++i) values[node.results[i]] = results[i];
  }
  std::vector<Val> out;
  for (int id : f.results) out.push_back(values[id]);
  return out;
}

template <class T>
std::vector<T> select(const std::vector<T>& all, const std::vector<int>& ids) {
  std::vector<T> out;
  for (int id : ids) out.push_back(all[id]);
  return out;
}

}  // namespace

std::vector<Literal> run(const Program& program, const std::vector<Literal>& args) {
  ir::Module module = program.module;
  module.stage = ir::Stage::kFlat;
  module.set(std::make_shared<const Function>(program.function));
  return ir::interpret(module, program.function.name, args).value();
}

Program single(const Case& c) {
  FunctionBuilder b("single", ops::all_ops(), &c.module);
  std::vector<Val> params;
  for (const ir::Operand& o : c.operands) params.push_back(b.param("x", o.type));
  return {b.finish(b.add(c.op->name, params, c.attrs)), c.module};
}

Program decomposed(const Case& c) {
  return {expanded(single(c).function, [&](const ir::OpDef& op) { return &op == c.op; }), c.module};
}

std::vector<Literal> run_reference(const TypedOp& op, const std::vector<Literal>& operands,
                                   const ir::Module& functions) {
  if (op.op.reference.exists() && functions.functions.empty())
    return op.op.reference(ir::EvalContext{op, operands, nullptr});
  FunctionBuilder b("single", ops::all_ops(), &functions);
  std::vector<Val> params;
  for (const ir::Type& t : op.operands) params.push_back(b.param("x", t));
  return run({b.finish(b.add(op.op.name, params, op.attrs)), functions}, operands);
}

namespace {

// `transform` of the program by the product's passes: `make` adds a wrapper @derived to the module.
Derived by_passes(const Program& program, const std::function<Function(FunctionBuilder&, const Function&)>& make) {
  ir::Module module = program.module;
  module.stage = ir::Stage::kTraced;
  module.set(std::make_shared<const Function>(program.function));
  FunctionBuilder b(program.function.name + "_derived", ops::all_ops(), &module);
  std::string name = b.function().name;
  module.set(std::make_shared<const Function>(make(b, program.function)));
  static const ir::Target target{};
  passes::PassContext context{ops::all_ops(), target};
  Result<ir::Module> lowered = passes::lower_transforms(module, context);
  if (!lowered.ok()) return {{}, to_string(lowered.errors())};
  return {{*lowered->find(name), *lowered}, ""};
}

std::vector<Val> copied_params(FunctionBuilder& b, const Function& f) {
  std::vector<Val> out;
  for (int id : f.params) out.push_back(b.param("x", f.type(id)));
  return out;
}

Function forward_wrapper(FunctionBuilder& b, const Function& f) {
  std::vector<Val> operands = copied_params(b, f), out;
  ir::Ints wrt;
  for (size_t i = 0; i < f.params.size(); ++i)
    if (is_float(f.type(f.params[i]).dtype)) wrt.push_back(static_cast<int64_t>(i));
  for (int64_t i : wrt) operands.push_back(b.param("t", f.type(f.params[i])));
  std::vector<Val> made = b.add("jvp", operands, {{"callee", ir::FunctionRef{f.name}}, {"wrt", wrt}});
  for (size_t r = 0; r < f.results.size(); ++r)
    if (is_float(f.type(f.results[r]).dtype)) out.push_back(made[f.results.size() + r]);
  return b.finish(out);
}

Function reverse_wrapper(FunctionBuilder& b, const Function& f) {
  std::vector<Val> operands = copied_params(b, f), out;
  ir::Attrs callee{{"callee", ir::FunctionRef{f.name}}};
  std::vector<Val> cotangents = {b.add("vjp_forward", operands, callee).back()};
  for (int id : f.results) {
    const ir::Type& type = f.type(id);
    cotangents.push_back(is_float(type.dtype) ? b.param("ct", type) : b.fill(type.dtype, type.shape, 0));
  }
  std::vector<Val> gradients = b.add("vjp_backward", cotangents, callee);
  for (size_t i = 0; i < f.params.size(); ++i)
    if (is_float(f.type(f.params[i]).dtype)) out.push_back(gradients[i]);
  return b.finish(out);
}

}  // namespace

Derived forward_mode(const Program& original) {
  if (!original.module.functions.empty()) return by_passes(original, forward_wrapper);
  Function f = expanded(original.function, [](const ir::OpDef& op) { return op.jvp.by_decomposition(); });
  FunctionBuilder b("jvp", ops::all_ops());
  std::vector<Val> params, values;
  for (int id : f.params) params.push_back(b.param("x", f.type(id)));
  std::vector<MaybeVal> tangents(f.values.size());
  for (int id : f.params)
    if (is_float(f.type(id).dtype)) tangents[id] = b.param("t", f.type(id));
  copy_nodes(b, f, params, values);
  for (const Node& node : f.nodes) {
    std::vector<MaybeVal> in = select(tangents, node.operands);
    TypedOp op = typed(f, node);
    bool active = std::any_of(in.begin(), in.end(), [](const MaybeVal& t) { return t.has_value(); });
    if (!active || !any_float(op.results)) continue;
    if (!node.op->jvp.exists()) return {{}, node.op->name + ": " + node.op->jvp.reason()};
    ir::JvpContext ctx{b, op, select(values, node.operands), select(values, node.results), in, nullptr};
    std::vector<MaybeVal> out = node.op->jvp(ctx);
    NABLA_CHECK(out.size() == node.results.size(), "jvp of {}: {} tangents", node.op->name, out.size());
    for (size_t i = 0; i < out.size(); ++i) tangents[node.results[i]] = out[i];
  }
  std::vector<Val> results;
  for (int id : f.results)
    if (is_float(f.type(id).dtype)) results.push_back(tangents[id] ? *tangents[id] : b.zeros_like(values[id]));
  return {{b.finish(results)}, ""};
}

Derived reverse_mode(const Program& original) {
  if (!original.module.functions.empty()) return by_passes(original, reverse_wrapper);
  Function f = expanded(original.function, [](const ir::OpDef& op) { return op.vjp.by_decomposition(); });
  FunctionBuilder b("vjp", ops::all_ops());
  std::vector<Val> params, values;
  std::vector<bool> active(f.values.size(), false);
  for (int id : f.params) {
    params.push_back(b.param("x", f.type(id)));
    active[id] = is_float(f.type(id).dtype);
  }
  std::vector<MaybeVal> cotangents(f.values.size());
  std::vector<Val> cotangent_params;
  for (int id : f.results)
    if (is_float(f.type(id).dtype)) cotangent_params.push_back(b.param("ct", f.type(id)));
  copy_nodes(b, f, params, values);
  auto accumulate = [&](int id, const MaybeVal& ct) {
    if (ct) cotangents[id] = cotangents[id] ? *cotangents[id] + *ct : *ct;
  };
  size_t next = 0;
  for (int id : f.results)
    if (is_float(f.type(id).dtype)) accumulate(id, cotangent_params[next++]);
  for (const Node& node : f.nodes) {
    bool depends = std::any_of(node.operands.begin(), node.operands.end(), [&](int id) { return active[id]; });
    for (int id : node.results) active[id] = depends && is_float(f.type(id).dtype);
  }
  for (size_t n = f.nodes.size(); n-- > 0;) {
    const Node& node = f.nodes[n];
    std::vector<MaybeVal> ct = select(cotangents, node.results);
    for (size_t i = 0; i < ct.size(); ++i)
      if (!active[node.results[i]]) ct[i] = std::nullopt;
    if (std::none_of(ct.begin(), ct.end(), [](const MaybeVal& v) { return v.has_value(); })) continue;
    if (!node.op->vjp.exists()) return {{}, node.op->name + ": " + node.op->vjp.reason()};
    std::vector<bool> wanted;
    for (int id : node.operands) wanted.push_back(active[id]);
    TypedOp op = typed(f, node);
    ir::VjpContext ctx{b, op, select(values, node.operands), select(values, node.results), ct, wanted, {}, nullptr};
    std::vector<MaybeVal> out = node.op->vjp(ctx);
    NABLA_CHECK(out.size() == node.operands.size(), "vjp of {}: {} gradients", node.op->name, out.size());
    for (size_t i = 0; i < out.size(); ++i)
      if (wanted[i]) accumulate(node.operands[i], out[i]);
  }
  std::vector<Val> results;
  for (int id : f.params)
    if (is_float(f.type(id).dtype)) results.push_back(cotangents[id] ? *cotangents[id] : b.zeros_like(values[id]));
  return {{b.finish(results)}, ""};
}

std::vector<Literal> floating(const std::vector<Literal>& values) {
  std::vector<Literal> out;
  for (const Literal& v : values)
    if (is_float(v.dtype())) out.push_back(v);
  return out;
}

}  // namespace nabla::property
