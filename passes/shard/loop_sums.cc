#include "passes/shard/loop_sums.h"

#include "ir/typed.h"
#include "passes/rewrite.h"

namespace nabla::passes {

std::map<std::string, ir::ControlFlow> bodies_of(const ir::Module& m) {
  std::map<std::string, int> uses;
  std::map<std::string, ir::ControlFlow> out;
  for (const ir::FunctionPtr& f : m.functions)
    for (const std::string& name : referenced_functions(*f)) ++uses[name];
  for (const ir::FunctionPtr& f : m.functions)
    for (const ir::Node& n : f->nodes) {
      if (n.op->lower != ir::Lowering::kControl) continue;
      ir::ControlFlow c = ir::control_of(*f, n);
      if (c.kind != ir::ControlFlow::Kind::kLoop) continue;
      std::string body = c.functions.back();
      if (!out.emplace(body, std::move(c)).second) uses[body] = 2;
    }
  for (const ir::Entry& e : m.entries) uses[e.function] = 2;
  std::erase_if(out, [&](const auto& entry) { return uses[entry.first] != 1; });
  return out;
}

}  // namespace nabla::passes
