#include "passes/collective/parameters.h"

#include "passes/rewrite.h"

namespace nabla::passes {
namespace {

using ir::Function;
using ir::Node;

bool brings(const Node& n) {
  return n.operands.size() == 1 && (n.op->category == "movement" || n.op->form == ir::OpForm::kConvert) && n.op->form != ir::OpForm::kCopy;
}

std::optional<Origin> with_step(std::optional<Origin> from, const ir::OpDef* op, ir::Attrs attrs) {
  if (!from || from->stacked > 0) return std::nullopt;
  from->steps.emplace_back(op, std::move(attrs));
  return from;
}

std::optional<Origin> slice(std::optional<Origin> of, const Node& loop) {
  if (!of || of->stacked == 0) return with_step(std::move(of), loop.op, {});
  --of->stacked;
  return of;
}

}  // namespace

std::vector<bool> brought_from_parameters(const Function& f) {
  std::vector<bool> out(f.values.size(), false);
  for (ir::ValueId id : f.params) out[static_cast<size_t>(id)] = true;
  for (const Node& n : f.nodes)
    for (ir::ValueId id : n.results) out[static_cast<size_t>(id)] = brings(n) && out[static_cast<size_t>(n.operands[0])];
  return out;
}

bool is_loop(const Function& f, const Node& n) {
  return n.op->lower == ir::Lowering::kControl && control_of(f, n).kind == ir::ControlFlow::Kind::kLoop;
}

Origins origins_inside(const Function& f, const Node& n, const Origins& around) {
  const ir::ControlFlow flow = control_of(f, n);
  const auto skipped = static_cast<size_t>(flow.kind == ir::ControlFlow::Kind::kBranch ? 1 : 0);
  Origins out;
  for (size_t i = skipped; i < n.operands.size(); ++i) {
    const size_t at = i - skipped, consts = static_cast<size_t>(flow.consts), sliced = consts + static_cast<size_t>(flow.carries);
    const std::optional<Origin>& of = around[static_cast<size_t>(n.operands[i])];
    out.push_back(skipped || at < consts ? of : at < sliced ? std::nullopt : slice(of, n));
  }
  return out;
}

Origins origins_of(const Function& f, Origins params, const ir::Module& module) {
  Origins out(f.values.size());
  for (size_t i = 0; i < f.params.size(); ++i) out[static_cast<size_t>(f.params[i])] = std::move(params[i]);
  for (const Node& n : f.nodes) {
    if (brings(n)) {
      const std::optional<Origin>& from = out[static_cast<size_t>(n.operands[0])];
      out[static_cast<size_t>(n.results[0])] = n.op->traits.fence ? from : with_step(from, n.op, n.attrs);
    } else if (is_loop(f, n)) {
      const ir::ControlFlow flow = control_of(f, n);
      const Function& body = *module.find(flow.functions.back());
      const Origins inside = origins_of(body, origins_inside(f, n, out), module);
      for (size_t r = static_cast<size_t>(flow.carries); r < n.results.size(); ++r)
        if (std::optional<Origin> of = inside[static_cast<size_t>(body.results[r])]) {
          ++of->stacked;
          out[static_cast<size_t>(n.results[r])] = std::move(of);
        }
    }
  }
  return out;
}

std::optional<Origin> gathered_origin(const Node& n, const Origins& of) {
  if (!ir::is_collective(n, CollectiveKind::kAllGather)) return std::nullopt;
  ir::Attrs attrs = n.attrs;
  attrs.set("instance", int64_t{0});
  return with_step(of[static_cast<size_t>(n.operands[0])], n.op, std::move(attrs));
}

}  // namespace nabla::passes
