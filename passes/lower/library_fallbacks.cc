#include "passes/lower/library_fallbacks.h"

#include <algorithm>
#include <optional>

#include "ir/library/call.h"
#include "passes/rewrite.h"

namespace nabla::passes {
namespace {

struct Fallback {
  std::string kernel;
  ir::Ints order;  // of its operands among the call's
};

/// The one launch that a function consists of; views do nothing.
std::optional<Fallback> one_launch(const ir::Function& f) {
  std::optional<Fallback> out;
  std::vector<int> param(f.values.size(), -1);  // of values that are parameters, through views
  for (size_t i = 0; i < f.params.size(); ++i) param[f.params[i]] = static_cast<int>(i);
  for (const ir::Node& n : f.nodes) {
    if (n.op->lower == ir::Lowering::kView) param[n.results[0]] = param[n.operands[0]];
    if (n.op->lower == ir::Lowering::kView) continue;
    if (n.op->lower != ir::Lowering::kCall || out) return std::nullopt;
    out = Fallback{n.attrs.get_string("kernel"), {}};
    for (ir::ValueId id : n.operands) {
      if (param[id] < 0) return std::nullopt;
      out->order.push_back(param[id]);
    }
    param[n.results[0]] = -2;  // what the function gives, through views
  }
  return out && param[f.results[0]] == -2 ? out : std::nullopt;
}

}  // namespace

Result<ir::Function> add_fallbacks(const ir::Function& f, const ir::Module& m, const PassContext& context,
                                   const GenerateKernels& generate) {
  FunctionCopy copy(f, context.ops, &m);
  ir::FunctionBuilder& b = copy.builder();
  for (const ir::Node& n : f.nodes) {
    b.set_computes(n.computes);
    if (n.op->lower != ir::Lowering::kLibrary) {
      copy.copy(n);
      continue;
    }
    b.set_location(n.location);
    ir::TypedOp op = typed(f, n);
    ir::Function lowered = NABLA_TRY(generate(decomposition(op, n.location, context.ops, &m)));
    if (std::optional<Fallback> fallback = one_launch(lowered)) {
      ir::Attrs attrs = n.attrs;
      ir::set_fallback_kernel(attrs, {fallback->kernel, fallback->order, {}, context.target.library_workspace_bytes});
      copy.set(n.results, b.add(n.op->name, copy.at(n.operands), attrs));
    } else {
      ir::DecomposeContext decompose{b, op, copy.at(n.operands)};
      copy.set(n.results, n.op->decompose(decompose));
    }
  }
  return ir::Function(*copy.finish());
}

}  // namespace nabla::passes
