// Layouts that the compiler chooses by itself.
#include <gtest/gtest.h>

#include <chrono>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "cli/driver/compile.h"
#include "cli/driver/spread.h"
#include "ir/ops/all_ops.h"
#include "ir/text.h"
#include "passes/pass_manager.h"
#include "tests/strategy/transformer.h"

namespace nabla::strategy_tests {
namespace {

using Options = std::map<std::string, std::string>;

struct Made {
  ir::Module module;
  std::string plan, remark;
};

Result<Made> searched(ir::Module m, const std::string& mesh, Options options = {}) {
  ir::Target target = NABLA_TRY(ir::find_target("cpu"));
  std::string axes = mesh;
  m = NABLA_TRY(driver::with_mesh(m, {mesh}, true));
  ir::Module flat = NABLA_TRY(driver::simplify_module(m, target, {}, ir::Stage::kFlat));
  options["search"] = "true";
  auto made = NABLA_TRY(passes::run_passes(flat, {{"auto-shard", options}}, ops::all_ops(), target));
  return Made{made.module, made.reports[0].texts["plan"], made.reports[0].remarks[0]};
}

TEST(AutoShard, Realises) {
  struct Case { const char* name; ir::Module m; const char* mesh; };
  std::vector<Case> cases;
  cases.push_back({"1 tp4", transformer({.layers = 1, .batch = 4, .length = 256, .width = 1024, .heads = 16}), "tp=4"});
  cases.push_back({"2 tp4", transformer({.layers = 2, .batch = 4, .length = 256, .width = 1024, .heads = 16}), "tp=4"});
  cases.push_back({"2 dp2tp4", transformer({.layers = 2, .batch = 4, .length = 256, .width = 1024, .heads = 16}), "dp=2,tp=4"});
  cases.push_back({"2 dp2tp2 big", transformer({.layers = 2, .batch = 8, .length = 384, .width = 1024, .heads = 16}), "dp=2,tp=2"});
  cases.push_back({"2 dp4 huge", transformer({.layers = 2, .batch = 32, .length = 512, .width = 1024, .heads = 16}), "dp=4"});
  cases.push_back({"moe", mixture_of_experts(8), "ep=4"});
  cases.push_back({"small", transformer({.layers = 2, .momentum = true}), "dp=2,tp=2"});
  for (Case& c : cases) {
    auto made = searched(c.m, c.mesh);
    ASSERT_TRUE(made.ok()) << to_string(made.errors());
    driver::CompileOptions o{.target = "cpu", .library = false};
    o.mesh = {c.mesh};
    o.pass_options["auto-shard"]["search"] = "true";
    auto lowered = driver::lower_module(c.m, o);
    ASSERT_TRUE(lowered.ok()) << to_string(lowered.errors());
    auto report = nlohmann::json::parse(lowered->report);
    std::printf("==== %s: exchange %g us, sent %g, state %g\n%s\n", c.name, report["entries"][0].value("exchange_us", 0.0), report["entries"][0].value("sent_bytes", 0.0), report.value("state_bytes", 0.0), made->plan.c_str());
    std::map<std::string,int> count;
    for (auto& f : lowered->flat.functions) for (auto& n : f->nodes) if (n.op->lower == ir::Lowering::kCollective) ++count[n.op->name + ir::str(n.attrs.get_axes("axes")) + " " + f->type(n.operands[0]).str()];
    for (auto& [k, v] : count) std::printf("   %s x%d\n", k.c_str(), v);
  }
}

}  // namespace
}  // namespace nabla::strategy_tests
