#include "ir/ops/control/remat.h"

#include <algorithm>

namespace nabla::ops {
namespace {

// Is the node's result kept by the policy?
bool is_kept(const ir::Node& node, const Attrs& remat) {
  const std::string& policy = remat.get_string("policy");
  if (policy == "dots") return node.op->lower == Lowering::kContraction || node.op->lower == Lowering::kConvolution;
  if (policy != "names" || node.op->name != "checkpoint_name") return false;
  std::string names = "," + remat.get_string("names") + ",";
  return names.find("," + node.attrs.get_string("name") + ",") != std::string::npos;
}

// Emits f's nodes with plain calls inlined, so that the policy sees what they are made of. What it keeps goes to
// `kept`; where `saved` has values, these stand for the results of those nodes instead.
class Emitter {
 public:
  Emitter(FunctionBuilder& b, ir::Functions& functions, const Attrs& remat)
      : b_(b), functions_(functions), remat_(remat) {}

  std::vector<Val> emit(const ir::Function& f, const std::vector<Val>& args) {
    std::vector<Val> values(f.values.size()), out;
    for (size_t i = 0; i < args.size(); ++i) values[f.params[i]] = args[i];
    for (const ir::Node& node : f.nodes) {
      std::vector<Val> operands;
      for (ir::ValueId id : node.operands) operands.push_back(values[id]);
      std::vector<Val> results = emit_node(node, operands);
      for (size_t i = 0; i < results.size(); ++i) values[node.results[i]] = results[i];
    }
    for (ir::ValueId id : f.results) out.push_back(values[id]);
    return out;
  }

  std::vector<Val> kept;
  std::vector<Val> saved;

 private:
  std::vector<Val> emit_node(const ir::Node& node, const std::vector<Val>& operands) {
    if (node.op->name == "call") return emit(functions_.get(node.attrs.get_function("callee")), operands);
    std::vector<Val> results = b_.clone(node, operands);
    if (!is_kept(node, remat_)) return results;
    size_t at = kept.size();
    append(kept, results);
    if (saved.empty()) return results;
    return slice(saved, at, at + results.size());
  }

  FunctionBuilder& b_;
  ir::Functions& functions_;
  const Attrs& remat_;
};

// The function that runs forward in reverse mode, without its residuals: (operands) -> (results, what is kept).
std::string keeping_function(ir::Functions& functions, const ir::Function& f, size_t results, const Attrs& attrs,
                             const FunctionBuilder& outer) {
  FunctionBuilder w(f.name + ".keep", outer.ops(), outer.module());
  std::vector<Val> params;
  for (const Type& t : param_types(f)) params.push_back(w.param("", t));
  Emitter emitter(w, functions, attrs);
  std::vector<Val> out = slice(emitter.emit(f, params), 0, results);
  append(out, emitter.kept);
  return functions.define(w.finish(out));
}

}  // namespace

ir::VjpForward remat_vjp_forward(ir::VjpForwardContext& ctx) {
  std::string forward =
      ctx.functions->derive(ctx.attrs().get_function("callee"), ir::Transform::kVjpForward, ctx.active);
  size_t n = ctx.op.results.size();
  std::string keeping = keeping_function(*ctx.functions, ctx.functions->get(forward), n, ctx.attrs(), ctx.b);
  std::vector<Val> all = call_function(ctx.b, keeping, ctx.operands);
  return {slice(all, 0, n), slice(all, n, all.size())};
}

std::vector<MaybeVal> remat_vjp(VjpContext& ctx) {
  const std::string& callee = ctx.attrs().get_function("callee");
  const ir::Function& forward =
      ctx.functions->get(ctx.functions->derive(callee, ir::Transform::kVjpForward, ctx.active));
  std::string backward = ctx.functions->derive_backward(callee, ctx.active, ctx.given());
  FunctionBuilder w(forward.name + ".again", ctx.b.ops(), ctx.b.module());
  std::vector<Val> params, args;
  for (const Type& t : param_types(forward)) params.push_back(w.param("", t));
  Emitter emitter(w, *ctx.functions, ctx.attrs());
  for (Val v : ctx.residuals) emitter.saved.push_back(w.param("", v.type()));
  std::vector<Val> all = emitter.emit(forward, params);
  std::string again = ctx.functions->define(w.finish(slice(all, ctx.results.size(), all.size())));
  // What is computed from a kept value is computed again too, so that these are fenced as well.
  for (const std::vector<Val>& list : {ctx.operands, ctx.residuals})
    for (Val v : list) args.push_back(ctx.b.op("fence", {v}));
  std::vector<Val> residuals = call_function(ctx.b, again, args);
  for (size_t r = 0; r < ctx.results.size(); ++r) residuals.push_back(ctx.ct(static_cast<int>(r)));
  std::vector<Val> gradients = call_function(ctx.b, backward, residuals);
  std::vector<MaybeVal> out(ctx.operands.size());
  size_t next = 0;
  for (size_t i = 0; i < out.size(); ++i)
    if (ctx.active[i]) out[i] = gradients[next++];
  return out;
}

}  // namespace nabla::ops
