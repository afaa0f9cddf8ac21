// Layouts that the compiler chooses by itself.
#include <gtest/gtest.h>

#include <chrono>
#include <cstdio>

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

TEST(AutoShard, Prints) {
  for (int layers : {1, 12})
  for (const char* mesh : {"tp=4", "dp=2,tp=4"}) {
    auto begin = std::chrono::steady_clock::now();
    auto made = searched(transformer({.layers = layers, .batch = 4, .length = 256, .width = 1024, .heads = 16}), mesh);
    ASSERT_TRUE(made.ok()) << to_string(made.errors());
    std::printf("%s\n%s\n", made->remark.c_str(), made->plan.c_str());
    std::printf("%g s\n", std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
    fflush(stdout);
  }
}

}  // namespace
}  // namespace nabla::strategy_tests
