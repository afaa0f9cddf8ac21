#include "passes/transform/inline_calls.h"

#include <algorithm>
#include <set>

#include "passes/rewrite.h"

namespace nabla::passes {
namespace {

using ir::Function;
using ir::FunctionPtr;
using ir::Node;
using ir::Val;
using ir::ValueId;

constexpr size_t kMaxNodes = size_t{1} << 20;

// The function that a call names; null for any other node. Calls with rules of their own (custom_vjp, remat) are calls
// of their `callee` once nothing differentiates or batches them any more.
const Function* called(const Node& node, const ir::Module& module) {
  if (node.op->lower != ir::Lowering::kCall || !node.attrs.find("callee")) return nullptr;
  return module.find(node.attrs.get_function("callee"));
}

// No derivative is taken any more: functions that stand only in rules for it are not part of the program.
bool has_vjp(const Node& node) {
  const ir::Attr* vjp = node.attrs.find("vjp");
  return vjp && !functions_of(*vjp).empty();
}
Node without_vjp(Node node) {
  if (has_vjp(node)) node.attrs.set("vjp", ir::FunctionRefs{});
  return node;
}

// Emits the body of `f` on these arguments. Its values stay unnamed: a body may be inlined more than once.
std::vector<Val> emit_body(ir::FunctionBuilder& b, const Function& f, const std::vector<Val>& args) {
  std::vector<Val> values(f.values.size());
  for (size_t i = 0; i < args.size(); ++i) values[f.params[i]] = args[i];
  for (const Node& node : f.nodes) {
    std::vector<Val> operands;
    for (ValueId id : node.operands) operands.push_back(values[id]);
    std::vector<Val> results = b.clone(node, f, operands);
    for (size_t i = 0; i < results.size(); ++i) values[node.results[i]] = results[i];
  }
  std::vector<Val> out;
  for (ValueId id : f.results) out.push_back(values[id]);
  return out;
}

std::set<std::string> used_symbols(const ir::Module& module) {
  std::set<std::string> out;
  auto add = [&](const ir::Shape& shape) {
    for (const ir::Dim& d : shape)
      for (const ir::SymbolRef& s : d.symbols()) out.insert(s->name);
  };
  for (const ir::StateLeaf& leaf : module.state) add(leaf.type.shape);
  for (const FunctionPtr& f : module.functions) {
    for (const ir::Value& v : f->values) add(v.type.shape);
    for (const Node& node : f->nodes)
      for (const auto& [name, attr] : node.attrs)
        if (const ir::Shape* shape = std::get_if<ir::Shape>(&attr)) add(*shape);
  }
  return out;
}

}  // namespace

Result<ir::Module> inline_calls(const ir::Module& module, PassContext& context) {
  ir::Module out = module;
  for (const FunctionPtr& f : NABLA_TRY(bottom_up(module))) {
    bool calls =
        std::any_of(f->nodes.begin(), f->nodes.end(), [&](const Node& n) { return called(n, out) || has_vjp(n); });
    if (!calls) continue;
    FunctionCopy copy(*f, context.ops, &out);
    size_t nodes = 0;
    for (const Node& node : f->nodes) {
      const Function* callee = called(node, out);
      nodes += callee ? callee->nodes.size() : 1;
      if (nodes > kMaxNodes) {
        Diagnostic d =
            error(Code::kOverBudget, "@{}: with its calls inlined it has more than {} nodes", f->name, kMaxNodes);
        d.location = node.location;
        d.help = "write repeated work as scan or while_loop";
        return d;
      }
      copy.builder().set_location(node.location);  // for nodes of the body that have none
      if (callee)
        copy.set(node.results, emit_body(copy.builder(), *callee, copy.at(node.operands)));
      else
        copy.copy(without_vjp(node));
    }
    out.set(copy.finish());
  }
  if (module.entries.empty()) return out;
  drop_unreached(out);
  std::set<std::string> used = used_symbols(out);
  std::erase_if(out.symbols, [&](const ir::SymbolRef& s) { return !used.count(s->name); });
  std::erase_if(out.constraints, [&](const ir::SizeConstraint& c) {
    std::vector<ir::SymbolRef> symbols = (c.relation.right - c.relation.left).symbols();
    return std::any_of(symbols.begin(), symbols.end(), [&](const ir::SymbolRef& s) { return !used.count(s->name); });
  });
  return out;
}

}  // namespace nabla::passes
