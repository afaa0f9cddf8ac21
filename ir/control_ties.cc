#include "ir/control_ties.h"

#include "ir/typed.h"

namespace nabla::ir {

std::vector<std::pair<TiedValue, TiedValue>> control_ties(const Module& module, const Function& f, const Node& n) {
  ControlFlow c = control_of(f, n);
  bool branch = c.kind == ControlFlow::Kind::kBranch;
  size_t index = branch ? 1 : 0, carries = static_cast<size_t>(c.consts + c.carries);
  std::vector<std::string> functions = c.functions;
  if (!c.unasked.empty()) functions.insert(functions.begin(), c.unasked);
  bool asks = c.kind == ControlFlow::Kind::kWhile || !c.unasked.empty();
  std::vector<std::pair<TiedValue, TiedValue>> out;
  for (const std::string& name : functions) {
    const Function* body = module.find(name);
    for (size_t i = 0; i < body->params.size(); ++i)
      out.push_back({{&f, n.operands[i + index], !branch && i >= carries ? 1 : 0}, {body, body->params[i]}});
    if (asks && &name == &functions.front()) continue;  // a condition, whose result is one predicate
    for (size_t r = 0; r < body->results.size(); ++r) {
      bool stacked = !branch && r >= static_cast<size_t>(c.carries);
      out.push_back({{&f, n.results[r], stacked ? 1 : 0}, {body, body->results[r]}});
      if (!branch && !stacked)
        out.push_back({{body, body->results[r]}, {body, body->params[static_cast<size_t>(c.consts) + r]}});
    }
  }
  return out;
}

}  // namespace nabla::ir
