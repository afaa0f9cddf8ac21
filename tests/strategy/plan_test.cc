// nablac plan: what a model costs on meshes and under strategies.
#include "cli/driver/plan.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/pass_options.h"
#include "tests/strategy/chain.h"
#include "tests/strategy/transformer.h"

namespace nabla::strategy_tests {
namespace {

const driver::PlanRow& row(const std::vector<driver::PlanRow>& rows, const std::string& mesh, int zero) {
  for (const driver::PlanRow& r : rows)
    if (r.mesh == mesh && r.zero == zero && !r.searched) return r;
  NABLA_CHECK(false, "no row {} zero={}", mesh, zero);
  return rows[0];
}

TEST(Plan, HasARowForEveryMeshAndStage) {
  driver::PlanOptions options{.ranks = 4};
  auto rows = driver::plan_of(chain("dp=1, tp=1"), options);
  ASSERT_TRUE(rows.ok()) << to_string(rows.errors());
  EXPECT_EQ(rows->size(), 11u);  // 4 x 1 and 2 x 2 in three stages, 1 x 4 in one, each as a search finds, and one rank alone
  for (size_t i = 0; i < 10; ++i) {
    EXPECT_EQ((*rows)[i].refusal, "");
    EXPECT_GE((*rows)[i].step_us(), (*rows)[i == 0 ? 0 : i - 1].step_us());
  }
  const int64_t p = kElements * kF32;
  const driver::PlanRow &plain = row(*rows, "dp=4,tp=1", 0), &one = row(*rows, "dp=4,tp=1", 1), &three = row(*rows, "dp=4,tp=1", 3);
  EXPECT_EQ(plain.state_bytes, 2 * p);
  EXPECT_EQ(one.state_bytes, p + p / 4);
  EXPECT_EQ(three.state_bytes, 2 * p / 4);
  EXPECT_LT(three.memory_bytes, plain.memory_bytes);
  EXPECT_EQ(plain.sent_bytes, 2 * 3 * (p + kF32) / 4);
  EXPECT_GT(three.sent_bytes, plain.sent_bytes);
  // Nobody lays anything out along tp: its ranks compute the same.
  EXPECT_EQ(row(*rows, "dp=1,tp=4", 0).sent_bytes, 0);
  EXPECT_GT(row(*rows, "dp=1,tp=4", 0).compute_us, row(*rows, "dp=4,tp=1", 0).compute_us);
  std::string text = driver::plan_text(*rows, driver::kNoLimit);
  auto line = [&](const std::string& begin) {
    size_t at = text.find("\n" + begin);
    return at == text.npos ? begin + " is not there" : text.substr(at + 1, text.find('\n', at + 1) - at - 1);
  };
  EXPECT_TRUE(line("dp=1,tp=4  0").ends_with("  nothing is shared: every rank does all the work")) << text;
  EXPECT_TRUE(line("dp=2,tp=2  0").ends_with("  the work is done 2 times")) << text;
  EXPECT_TRUE(line("dp=4,tp=1  0").ends_with(" us")) << text;
  // One rank alone comes last, to compare with.
  const driver::PlanRow& alone = rows->back();
  EXPECT_EQ(alone.mesh, "dp=1,tp=1");
  EXPECT_EQ(alone.ranks, 1);
  EXPECT_EQ(alone.state_bytes, 2 * p);
  EXPECT_EQ(alone.sent_bytes, 0);
  EXPECT_TRUE(line("dp=1,tp=1  0").ends_with("  one rank")) << text;
  auto one_rank = driver::plan_of(chain("dp=1, tp=1"), {.ranks = 1});
  ASSERT_TRUE(one_rank.ok());
  EXPECT_EQ(one_rank->size(), 1u);
}

// A row of found layouts is what a compile with --auto-shard and the same data axes makes.
TEST(Plan, FoundLayoutsTakeTheDataAxesThatAreGiven) {
  const ir::Module m = chain("dp=1, tp=1");
  for (const char* data : {"", "tp"}) {
    driver::PlanOptions options{.ranks = 4};
    if (*data) options.data_axes = {data};
    auto rows = driver::plan_of(m, options);
    ASSERT_TRUE(rows.ok()) << to_string(rows.errors());
    for (const driver::PlanRow& r : *rows) {
      if (!r.searched) continue;
      driver::CompileOptions compile{.mesh = {r.mesh}};
      set_options(compile.pass_options, "auto-shard", {{"search", "true"}});
      if (*data) set_options(compile.pass_options, "apply-strategy", {{"data-axes", data}});
      const auto made = driver::lower_module(m, compile);
      ASSERT_TRUE(made.ok()) << to_string(made.errors());
      const auto report = nlohmann::json::parse(made->report);
      EXPECT_EQ(r.memory_bytes, report["arena_bytes"]) << r.mesh << " " << data;
      for (const auto& e : report["entries"]) EXPECT_TRUE(e["name"] != "step" || r.sent_bytes == e["sent_bytes"]) << r.mesh << " " << data;
      if (*data && r.mesh == "dp=2,tp=2") {
        const ir::Entry& e = *made->sharded->find_entry("step");
        const ir::Function& f = *made->sharded->find(e.function);
        EXPECT_EQ(f.values[static_cast<size_t>(f.params[e.reads.size()])].sharding->dims[0].str(), "tp");
      }
    }
  }
}

// Without an optimizer's state zero=1 shards nothing that zero=0 does not. The later row says so.
TEST(Plan, RowsWithTheSameLayoutsAreMarked) {
  auto rows = driver::plan_of(transformer({.batch = 8, .length = 32}), {.ranks = 2});
  ASSERT_TRUE(rows.ok()) << to_string(rows.errors());
  const driver::PlanRow &none = row(*rows, "dp=2", 0), &one = row(*rows, "dp=2", 1), &three = row(*rows, "dp=2", 3);
  EXPECT_EQ(none.layouts, one.layouts);
  EXPECT_NE(none.layouts, three.layouts);
  EXPECT_FALSE(one.same_as.empty());
  EXPECT_EQ(three.same_as, "");
  const std::string text = driver::plan_text(*rows, driver::kNoLimit), line = text.substr(text.find("\ndp=2  1 "));
  EXPECT_NE(line.substr(0, line.find('\n', 1)).find("  same layouts as "), std::string::npos) << text;
  EXPECT_NE(driver::plan_json(*rows).find("\"same_layouts_as\""), std::string::npos);
}

// Several GPUs run code for sm_90a. Times are for one of them, which the table names, and which the target may name.
TEST(Plan, TimesAreForTheGpuThatTheTargetNames) {
  auto planned = [](const char* target) {
    driver::PlanOptions options{.ranks = 1};
    options.compile.target = target;
    return driver::plan_of(chain("dp=1"), options).value();
  };
  const auto h100 = planned("sm_90a"), h200 = planned("sm_90a:H200"), cpu = planned("cpu");
  // Rows of 64 features wait for memory alone: 4,800 GB/s are 1.43 times 3,350.
  EXPECT_NEAR(h100[0].compute_us / h200[0].compute_us, 4800.0 / 3350, 0.01);
  const std::string of_h100 = driver::plan_text(h100, driver::kNoLimit), of_h200 = driver::plan_text(h200, driver::kNoLimit);
  EXPECT_TRUE(of_h100.ends_with("\ntimes are predicted for H100 (132 multiprocessors, 3000 GB/s of memory); the code runs on H100, H200: "
                                "compile with --target sm_90a:GPU to name another\n"))
      << of_h100;
  EXPECT_TRUE(of_h200.ends_with("\ntimes are predicted for H200 (132 multiprocessors, 4320 GB/s of memory)\n")) << of_h200;
  EXPECT_NE(driver::plan_json(h200).find("\"predicted_for\""), std::string::npos);
  EXPECT_EQ(driver::plan_text(cpu, driver::kNoLimit).find("predicted"), std::string::npos);
}

TEST(Plan, RowsThatCannotBeSayWhy) {
  ir::Module m = chain("dp=1");
  ir::Function f = *m.find("step");
  f.values[f.params.back()].sharding =
      std::make_shared<const ir::Sharding>(ir::Sharding{{{{{"dp"}}}, {{}}}, {}});
  m.set(std::make_shared<const ir::Function>(f));
  auto rows = driver::plan_of(m, {.ranks = 3});
  ASSERT_TRUE(rows.ok()) << to_string(rows.errors());
  ASSERT_EQ(rows->size(), 5u);
  EXPECT_NE((*rows)[0].refusal.find("dimension 0 of f32[512,64] has 512 elements, which 3 shards along {dp} do not divide"),
            std::string::npos)
      << (*rows)[0].refusal;
  std::string text = driver::plan_text(*rows, driver::kNoLimit);
  std::string which = "no program for dp=3 zero 0; dp=3 zero 1; dp=3 zero 3; dp=3 auto:\n  ";
  EXPECT_NE(text.find(which + (*rows)[0].refusal + "\n"), std::string::npos) << text;
  EXPECT_EQ(text.find((*rows)[0].refusal), text.rfind((*rows)[0].refusal)) << "one error is printed once:\n" << text;
  EXPECT_EQ(rows->back().refusal, "") << "one rank has a program";
  EXPECT_EQ(nlohmann::json::parse(driver::plan_json(*rows))[0]["refusal"], (*rows)[0].refusal);
}

TEST(Plan, WhatIsTooLargeStandsBelow) {
  std::vector<driver::PlanRow> rows = {
      {.mesh = "dp=4", .zero = 0, .state_bytes = 3000, .memory_bytes = 4000, .sent_bytes = 100, .exchange_us = 1, .compute_us = 2},
      {.mesh = "dp=4", .zero = 3, .state_bytes = 1000, .memory_bytes = 2000, .sent_bytes = 200, .exchange_us = 2, .compute_us = 2}};
  EXPECT_EQ(driver::plan_text(rows, 3000),
            "mesh  zero       state      memory        sent    exchange     compute        step\n"
            "dp=4  3         1000 B      2000 B       200 B     2.00 us     2.00 us     4.00 us\n"
            "dp=4  0         3000 B      4000 B       100 B     1.00 us     2.00 us     3.00 us  more than --max-bytes\n");
}

TEST(Plan, UnknownNamesAreRefused) {
  auto refusal = [](driver::PlanOptions options) {
    auto rows = driver::plan_of(chain("dp=1, tp=1"), options);
    return rows.ok() ? "ok" : rows.errors()[0].message;
  };
  EXPECT_EQ(refusal({.ranks = 2, .entry = "stop"}), "--entry: the module has no entry `stop`; did you mean `step`?");
  EXPECT_EQ(refusal({.ranks = 2, .axes = "dp,tp"}), "--axes names axes for a module without a mesh; this one has mesh pod");
  EXPECT_EQ(refusal({.ranks = 2, .data_axes = {"pd"}}), "--data-axes: no axis of dp, tp is `pd`; did you mean `dp`?");
  driver::PlanOptions tuned{.ranks = 2};
  tuned.compile.tuning_file = "nowhere.tuning";
  EXPECT_NE(refusal(tuned).find("nowhere.tuning"), std::string::npos) << refusal(tuned);
  ir::Module plain = chain("dp=1");
  plain.meshes.clear();
  auto of_plain = [&](driver::PlanOptions options) {
    auto rows = driver::plan_of(plain, options);
    return rows.ok() ? "ok" : rows.errors()[0].message;
  };
  for (const char* list : {"dp,", "dp,,tp", ","})
    EXPECT_EQ(of_plain({.ranks = 2, .axes = list}),
              fmt::format("--axes: names of axes stand between commas; `{}` has an empty one", list));
  EXPECT_EQ(of_plain({.ranks = 4, .axes = "dp,dp"}), "--axes names dp twice");
}

// Rules lay weights out along an axis that the module has not heard of.
TEST(Plan, TensorParallelByRules) {
  ir::Module m = chain("dp=1");
  m.meshes.clear();
  driver::PlanOptions options{.ranks = 4, .axes = "dp,tp"};
  set_options(options.compile.pass_options, "apply-strategy", {{"layouts", "w[02]=,tp;w[13]=tp,"}});
  auto rows = driver::plan_of(m, options);
  ASSERT_TRUE(rows.ok()) << to_string(rows.errors());
  EXPECT_EQ(rows->size(), 11u);
  const int64_t p = kElements * kF32;
  EXPECT_EQ(row(*rows, "dp=1,tp=4", 0).state_bytes, 2 * p / 4);
  EXPECT_EQ(row(*rows, "dp=2,tp=2", 1).state_bytes, p / 2 + p / 4);
}

// A module without a mesh is planned along dp, for a GPU by its data sheet.
TEST(Plan, AModuleWithoutAMesh) {
  ir::Module m = chain("dp=1");
  m.meshes.clear();
  driver::PlanOptions options{.ranks = 2};
  options.compile.target = "sm_90a", options.compile.microbatches = 2;
  auto rows = driver::plan_of(m, options);
  ASSERT_TRUE(rows.ok()) << to_string(rows.errors());
  ASSERT_EQ(rows->size(), 6u);
  for (const driver::PlanRow& r : *rows) {
    EXPECT_EQ(r.refusal, "");
    EXPECT_GT(r.compute_us, 0);
  }
  // Gradients of microbatches are exchanged once with 1, and for each with 2.
  EXPECT_EQ(row(*rows, "dp=2", 2).sent_bytes - row(*rows, "dp=2", 1).sent_bytes, kElements * kF32 / 2);
}

// What --auto-shard takes is not slower than what a strategy says by more than a tenth.
TEST(Plan, ASearchedRowForEveryMesh) {
  ir::Module m = chain("dp=1");
  m.meshes.clear();
  driver::PlanOptions options{.ranks = 4, .axes = "dp,tp"};
  auto rows = driver::plan_of(m, options);
  ASSERT_TRUE(rows.ok()) << to_string(rows.errors());
  int searched = 0;
  for (const driver::PlanRow& r : *rows) {
    if (!r.searched) continue;
    ++searched;
    EXPECT_EQ(r.refusal, "");
    for (int zero : {0, 1, 3}) EXPECT_LE(r.step_us() * 0.9, row(*rows, "dp=4,tp=1", zero).step_us()) << r.mesh << " zero " << zero;
    EXPECT_LT(r.work, 1.5) << r.mesh << ": work is shared";
  }
  EXPECT_EQ(searched, 3);
  EXPECT_NE(driver::plan_text(*rows, driver::kNoLimit).find("\ndp=1,tp=4  auto "), std::string::npos);
  const int64_t p = kElements * kF32;
  options.max_bytes = {p};
  rows = driver::plan_of(m, options);
  ASSERT_TRUE(rows.ok()) << to_string(rows.errors());
  for (const driver::PlanRow& r : *rows) EXPECT_TRUE(!r.searched || r.state_bytes <= p) << r.mesh << ": " << r.state_bytes;
}

// What a compile within the same limit finds is what the row tells of; where it finds nothing, the state keeps the limit.
TEST(Plan, SearchedRowsAreWhatACompileWithTheirLimitFinds) {
  const ir::Module m = transformer({.layers = 1, .batch = 8, .length = 32, .width = 64, .heads = 4, .momentum = true});
  driver::PlanOptions options{.ranks = 4};
  auto searched = [&] {
    auto rows = driver::plan_of(m, options);
    EXPECT_TRUE(rows.ok()) << to_string(rows.errors());
    return *std::find_if(rows->begin(), rows->end(), [](const driver::PlanRow& r) { return r.searched; });
  };
  const auto all = static_cast<double>(searched().memory_bytes);
  int found = 0;
  for (double share : {0.9, 0.8, 0.7, 0.6}) {
    options.max_bytes = {static_cast<int64_t>(share * all)};
    driver::CompileOptions compile{.target = "cpu", .max_bytes = options.max_bytes, .mesh = {"dp=4"}};
    set_options(compile.pass_options, "auto-shard", {{"search", "true"}});
    auto made = driver::lower_module(m, compile);
    const driver::PlanRow row = searched();
    EXPECT_EQ(row.refusal, "");
    EXPECT_LE(row.state_bytes, static_cast<int64_t>(share * all));
    if (!made.ok()) continue;
    ++found;
    EXPECT_EQ(row.memory_bytes, nlohmann::json::parse(made->report)["arena_bytes"].get<int64_t>()) << share;
    EXPECT_LE(row.memory_bytes, static_cast<int64_t>(share * all));
  }
  EXPECT_GT(found, 0);
  options.max_bytes = {1};
  EXPECT_NE(searched().refusal, "");
}

TEST(Plan, OrderCountsPairsThatAreFarApart) {
  EXPECT_EQ(driver::order_of({{10, 1}, {12, 3}, {20, 2}}, 1.5).pairs, 2);
  EXPECT_EQ(driver::order_of({{10, 1}, {12, 3}, {20, 2}}, 1.5).confirmed, 1) << "12 is quicker than 20, and took longer";
  EXPECT_EQ(driver::order_of({{10, 1}, {15, 0}}, 1.5).pairs, 0);
}

}  // namespace
}  // namespace nabla::strategy_tests
