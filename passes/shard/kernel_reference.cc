#include "passes/shard/kernel_reference.h"

#include <algorithm>

#include "passes/rewrite.h"
#include "passes/shard/partition.h"
#include "passes/shard/propagate.h"

namespace nabla::passes {
namespace {

using ir::Function;
using ir::Node;
using ir::ValueId;

// Neither positions within the whole nor collectives: a function of parts alone.
bool is_of_parts(const Function& f) {
  return std::all_of(f.nodes.begin(), f.nodes.end(), [](const Node& n) {
    bool numbers = std::all_of(n.attrs.begin(), n.attrs.end(), [](const auto& attr) {
      const ir::Shape* shape = std::get_if<ir::Shape>(&attr.second);
      return !shape || std::all_of(shape->begin(), shape->end(), [](const ir::Dim& d) { return d.is_static(); });
    });
    return numbers && n.op->lower != ir::Lowering::kCollective && ir::functions_of(n.attrs).empty();
  });
}

// The function of parts of its parameters and results; nothing where it needs more than that.
std::optional<Function> part_of(Function f, const std::vector<Layout>& params, const std::vector<Layout>& results,
                                const PartitionContext& context) {
  auto lay_out = [&](const std::vector<ValueId>& ids, const std::vector<Layout>& layouts) {
    for (size_t i = 0; i < ids.size(); ++i) {
      f.values[ids[i]].sharding = nullptr;
      if (f.type(ids[i]).is_static()) f.values[ids[i]].sharding = sharding_of(layouts[i], context.mesh, f.type(ids[i]));
    }
  };
  if (!is_of_parts(f)) return std::nullopt;
  lay_out(f.params, params), lay_out(f.results, results);
  ir::Module alone;
  alone.stage = ir::Stage::kFlat;
  alone.meshes = {context.mesh};
  const std::string name = f.name;
  alone.set(std::make_shared<const Function>(std::move(f)));
  PassContext pass{context.pass.ops, context.pass.target};
  Result<ir::Module> sharded = propagate(alone, pass);
  if (!sharded.ok()) return std::nullopt;
  Result<ir::Module> local = partition(*sharded, pass);
  const Function* made = local.ok() ? local->find(name) : nullptr;
  return made && is_of_parts(*made) ? std::optional(*made) : std::nullopt;
}

}  // namespace

ir::Attrs with_reference_of_part(const Node& n, const std::vector<Layout>& operands, const std::vector<Layout>& results,
                                 ir::Attrs attrs, const std::string& function, PartitionContext& context) {
  if (n.op->form != ir::OpForm::kCustomCall) return attrs;
  const ir::FunctionRefs references = attrs.get_functions("reference");
  for (const char* name : {"reference", "vjp"}) attrs.set(name, ir::FunctionRefs());
  const Function* whole = references.empty() ? nullptr : context.sharded.find(references[0].name);
  std::optional<Function> part = whole ? part_of(*whole, operands, results, context) : std::nullopt;
  if (!part) return attrs;
  int number = 0;
  do part->name = fmt::format("{}.part{}", function, ++number);
  while (context.local.find(part->name));
  attrs.set("reference", ir::FunctionRefs{ir::FunctionRef{part->name}});
  context.local.set(std::make_shared<const Function>(std::move(*part)));
  return attrs;
}

}  // namespace nabla::passes
