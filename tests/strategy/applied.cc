#include "tests/strategy/applied.h"

#include <gtest/gtest.h>

#include "cli/driver/compile.h"
#include "ir/ops/all_ops.h"
#include "ir/text.h"
#include "ir/verifier.h"
#include "passes/strategy/apply_strategy.h"
#include "tests/pass_options.h"
#include "tests/shard/collectives_of.h"

namespace nabla::strategy_tests {

ir::Module parsed(const std::string& text) {
  Result<ir::Module> m = ir::parse_module(text, "test.nbl", ops::all_ops());
  EXPECT_TRUE(m.ok()) << to_string(m.errors()) << text;
  return *m;
}

Applied applied(const ir::Module& m, const Options& options) {
  ir::Target target;
  passes::PassContext context{ops::all_ops(), target, options_of("apply-strategy", options)};
  Result<ir::Module> made = passes::apply_strategy(m, context);
  EXPECT_TRUE(made.ok()) << to_string(made.errors());
  if (!made.ok()) return {};
  Status valid = ir::verify(*made);
  EXPECT_TRUE(valid.ok()) << to_string(valid.errors());
  Applied out{"", context.remarks};
  auto say = [&](const std::string& name, const ir::ShardingRef& s) {
    if (s) out.layouts += name + " " + s->str() + "\n";
  };
  for (const ir::StateLeaf& leaf : made->state) say(leaf.name, leaf.sharding);
  for (const ir::Entry& e : made->entries)
    for (size_t i = 0; i < e.inputs.size(); ++i) {
      const ir::Function& f = *made->find(e.function);
      say(e.name + "(" + e.inputs[i] + ")", f.values[f.params[e.reads.size() + i]].sharding);
    }
  return out;
}

Exchanged exchanged(const ir::Module& m, Options options, const Options& sync) {
  driver::CompileOptions lowering{.target = "cpu", .library = false};
  set_options(lowering.pass_options, "apply-strategy", options);
  set_options(lowering.pass_options, "bucket-collectives", {{"bucket-bytes", "0"}});
  for (const auto& [name, value] : sync) set_options(lowering.pass_options, "partition", {{name, value}});
  auto made = driver::lower_module(m, lowering);
  EXPECT_TRUE(made.ok()) << to_string(made.errors());
  Exchanged out;
  if (!made.ok()) return out;
  shard_tests::for_each_collective(made->flat, "step", [&](const ir::Function& f, const ir::Node& n, int64_t times) {
    ir::ValueId whole = n.op->name == "all_gather" ? n.results[0] : n.operands[0];
    const std::string key = n.op->name + ir::str(n.attrs.get_axes("axes"));
    out.payload[key] += times * f.type(whole).bytes().value(), out.calls[key] += times;
  });
  for (const ir::StateLeaf& leaf : made->flat.state) out.state += leaf.type.bytes().value();
  return out;
}
Exchanged exchanged(const ir::Module& m, Options options, const std::string& grad_sync) {
  return exchanged(m, std::move(options), grad_sync.empty() ? Options{} : Options{{"grad-sync", grad_sync}});
}

}  // namespace nabla::strategy_tests
