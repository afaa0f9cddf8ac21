#include "frontend/cpp/custom_rules.h"

#include "frontend/cpp/frame.h"

namespace nabla {

namespace {

// `forward` with the last `count` of its parameters as further results: residuals, from which backward gets them.
void return_captures(TracedFunction& forward, size_t count) {
  auto g = std::make_shared<ir::Function>(*forward.function);
  g->results.insert(g->results.end(), g->params.end() - static_cast<std::ptrdiff_t>(count), g->params.end());
  forward.function = g;
  forward.context->module.set(g);
}

}  // namespace

std::vector<Tensor> emit_custom_vjp(TracedFunction f, TracedFunction forward, TracedFunction backward,
                                    std::vector<Tensor> operands, const Site& site) {
  if (backward.captures.empty()) {
    share_captures({{&f, kAllOwn}, {&forward, kAllOwn}});
  } else {
    size_t residuals = forward.function->results.size() - f.function->results.size();
    size_t count = share_captures({{&f, kAllOwn}, {&forward, kAllOwn}, {&backward, residuals}}).size();
    return_captures(forward, count);
  }
  ir::Attrs attrs{{"forward", ir::FunctionRef{forward.function->name}},
                  {"backward", ir::FunctionRef{backward.function->name}}};
  return emit_transform("custom_vjp", f, std::move(operands), std::move(attrs), site);
}

std::vector<Tensor> emit_custom_jvp(TracedFunction f, TracedFunction rule, std::vector<Tensor> operands,
                                    const Site& site) {
  share_captures({{&f, kAllOwn}, {&rule, operands.size()}});
  ir::Attrs attrs{{"rule", ir::FunctionRef{rule.function->name}}};
  return emit_transform("custom_jvp", f, std::move(operands), std::move(attrs), site);
}

ir::Dim batch_symbol(const Site& site) {
  constexpr int64_t kMostExamples = int64_t{1} << 20;
  std::shared_ptr<Frame> frame = Frame::current();
  if (!frame) throw error_at(site, Code::kMisuse, "custom_vmap is called outside of a traced function");
  std::vector<ir::SymbolRef>& symbols = frame->context->module.symbols;
  for (const ir::SymbolRef& s : symbols)
    if (s->name == "vmap_size") return ir::Dim::symbol(s);
  symbols.push_back(std::make_shared<ir::Symbol>(ir::Symbol{"vmap_size", 0, kMostExamples, 1}));
  return ir::Dim::symbol(symbols.back());
}

std::vector<Tensor> emit_custom_vmap(TracedFunction f, TracedFunction rule, std::vector<Tensor> operands,
                                     const ir::Dim& size, const Site& site) {
  size_t consts = share_captures({{&f, kAllOwn}, {&rule, kAllOwn}}).size();
  ir::Attrs attrs{{"rule", ir::FunctionRef{rule.function->name}}, {"size", Shape{size}}};
  if (consts > 0) attrs.set("consts", static_cast<int64_t>(consts));
  return emit_transform("custom_vmap", f, std::move(operands), std::move(attrs), site);
}

RematPolicy save_names(const std::vector<std::string>& names) {
  RematPolicy out{"names", ""};
  for (const std::string& name : names) out.names += (out.names.empty() ? "" : ",") + name;
  return out;
}

}  // namespace nabla
