// State in the host's memory as the compiler plans it: which leaves, where they lie, what is copied when, and what is refused.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "cli/driver/compile.h"
#include "cli/driver/plan.h"
#include "codegen/program/build.h"
#include "codegen/program/check.h"
#include "ir/ops/all_ops.h"
#include "ir/plan.h"
#include "ir/text.h"
#include "tests/pass_options.h"
#include "tests/strategy/chain.h"

namespace nabla::strategy_tests {
namespace {

using Json = nlohmann::json;

driver::CompileOptions options_for(const std::string& offload, const std::string& target = "sm_90a") {
  driver::CompileOptions out;
  out.target = target, out.library = false;
  set_options(out.pass_options, "apply-strategy", {{"offload", offload}});
  return out;
}

driver::CompiledModule lowered(const ir::Module& m, const driver::CompileOptions& options) {
  auto out = driver::lower_module(m, options);
  NABLA_CHECK(out.ok(), "{}", to_string(out.errors()));
  return std::move(*out);
}

std::vector<std::string> on_host(const ir::Module& planned) {
  std::vector<std::string> out;
  for (size_t i = 0; i < planned.state.size(); ++i)
    if (planned.plan->leaves[i].base == ir::Base::kHost) out.push_back(planned.state[i].name);
  return out;
}

constexpr int64_t kLeaf = kWidth * kWidth * kF32;

TEST(OffloadPlan, TheArenaHasNeitherTheLeavesNorMoreThanTheirCopies) {
  driver::CompiledModule plain = lowered(chain("dp=1"), options_for("none"));
  for (const char* which : {"opt", "params", "all"}) {
    driver::CompiledModule off = lowered(chain("dp=1"), options_for(which));
    const ir::MemoryPlan &before = *plain.planned.plan, &after = *off.planned.plan;
    int64_t leaves = static_cast<int64_t>(on_host(off.planned).size()) * kLeaf;
    EXPECT_EQ(leaves, (which == std::string("all") ? 2 : 1) * kLayers * kLeaf);
    EXPECT_EQ(after.host_bytes, leaves) << which;
    EXPECT_EQ(after.state_bytes, before.state_bytes - leaves) << which;
    int64_t copies = after.functions.at("step").temporary_bytes - before.functions.at("step").temporary_bytes;
    EXPECT_EQ(after.arena_bytes, before.arena_bytes - leaves + copies) << which;
    EXPECT_LT(after.arena_bytes, before.arena_bytes) << which;
    EXPECT_TRUE(program::check(program::build(off.planned, off.target).value()).ok()) << which;
  }
  EXPECT_EQ(on_host(lowered(chain("dp=1"), options_for("opt")).planned), (std::vector<std::string>{"m.w0", "m.w1", "m.w2", "m.w3"}));
  EXPECT_EQ(on_host(lowered(chain("dp=1"), options_for("params")).planned), (std::vector<std::string>{"w0", "w1", "w2", "w3"}));
}

// A parameter comes for the way forward and for the way back, but for the last one, which is read by both in a row.
TEST(OffloadPlan, AParameterComesAnewForTheWayBack) {
  Json report = Json::parse(lowered(chain("dp=1"), options_for("params")).report);
  std::map<std::string, int64_t> copies;
  for (const Json& l : report["entries"][0]["transfers"]["to_device"]["leaves"]) copies[l["name"]] = l["copies"];
  EXPECT_GE(copies["w0"], 2);
  EXPECT_EQ(copies["w1"] , copies["w2"]);
  for (const Json& l : report["entries"][0]["transfers"]["to_host"]["leaves"]) EXPECT_EQ(l["copies"], 1) << l["name"];
  driver::CompileOptions kept = options_for("params");
  set_options(kept.pass_options, "stream-host-state", {{"keep-bytes", "1GiB"}});
  report = Json::parse(lowered(chain("dp=1"), kept).report);
  for (const Json& l : report["entries"][0]["transfers"]["to_device"]["leaves"]) EXPECT_EQ(l["copies"], 1) << l["name"];
}

// Copies go on while kernels run: between the start of one and its end there is a launch, and several are on their way.
TEST(OffloadPlan, CopiesRunBesideKernels) {
  auto most_beside = [](const driver::CompileOptions& options) {
    driver::CompiledModule made = lowered(chain("dp=1"), options);
    program::BuildOptions build;
    build.overlap = options.overlap;
    int most = 0;
    std::map<uint32_t, int> open;  // by handle: launches since its start
    for (const program::Instruction& i : program::build(made.planned, made.target, build)->entries[0].instructions) {
      if (const auto* t = std::get_if<program::Transfer>(&i.action)) open[t->handle] = 0;
      if (std::holds_alternative<program::Launch>(i.action))
        for (auto& [handle, launches] : open) ++launches;
      if (const auto* w = std::get_if<program::Wait>(&i.action)) most = std::max(most, open.at(w->handle)), open.erase(w->handle);
    }
    EXPECT_TRUE(open.empty());
    return most;
  };
  driver::CompileOptions in_order = options_for("opt");
  in_order.overlap = false;
  EXPECT_EQ(most_beside(in_order), 0);
  EXPECT_GT(most_beside(options_for("opt")), 0);
}

TEST(OffloadPlan, TheLimitIsTheDevices) {
  int64_t arena = lowered(chain("dp=1"), options_for("all")).planned.plan->arena_bytes;
  driver::CompileOptions options = options_for("all");
  options.max_bytes = {arena};
  EXPECT_TRUE(driver::lower_module(chain("dp=1"), options).ok());
  options.max_bytes = {arena - 1};
  auto refused = driver::lower_module(chain("dp=1"), options);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.errors()[0].code, Code::kOverBudget);
  driver::PlanOptions plan;
  plan.compile = options_for("all");
  auto rows = driver::plan_of(chain("dp=1"), plan);
  ASSERT_TRUE(rows.ok()) << to_string(rows.errors());
  EXPECT_EQ((*rows)[0].memory_bytes, arena);
  EXPECT_EQ((*rows)[0].host_bytes, 2 * kLayers * kLeaf);
  EXPECT_GT((*rows)[0].transfer_us, 0);
}

TEST(OffloadPlan, ClassesOfMemoryAddUpInBoth) {
  Json report = Json::parse(lowered(chain("dp=1"), options_for("opt")).report);
  const Json& e = report["entries"][0];
  int64_t device = 0, host = 0;
  for (const auto& [key, bytes] : e["memory"].items())
    if (key != "host" && key != "inputs" && key != "outputs") device += bytes.get<int64_t>();
  for (const auto& [key, bytes] : e["memory"]["host"].items()) host += bytes.get<int64_t>();
  EXPECT_EQ(device, e["peak_bytes"]);
  EXPECT_EQ(host, report["host_bytes"]);
  EXPECT_EQ(e["memory"]["optimizer"], 0);
  EXPECT_EQ(e["memory"]["host"]["optimizer"], kLayers * kLeaf);
}

// A leaf of the host's in the program of a CPU is any leaf; a bundle for both keeps each as its target does.
TEST(OffloadPlan, TheMemoryOfACpuIsTheHosts) {
  ir::Module m = chain("dp=1");
  m.state[1].memory = ir::MemorySpace::kHost;
  driver::CompileOptions cpu;
  cpu.target = "cpu";
  driver::CompiledModule here = lowered(m, cpu), there = lowered(m, options_for("none"));
  EXPECT_TRUE(on_host(here.planned).empty());
  EXPECT_EQ(on_host(there.planned), std::vector<std::string>{"m.w0"});
  EXPECT_FALSE(Json::parse(here.report).contains("host_bytes"));
  auto refused = driver::compile(chain("dp=1"), options_for("opt", "cpu"));
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.errors()[0].message, "--offload opt: no target has a memory of its own beside the host's: cpu:x86-64-v3");
}

TEST(OffloadPlan, WhatIsNotThereIsRefused) {
  auto message = [](const std::string& text, const std::string& offload) {
    ir::Module m = ir::parse_module(text, "test.nbl", ops::all_ops()).value();
    auto made = driver::lower_module(m, options_for(offload));
    return made.ok() ? std::string() : made.errors()[0].message;
  };
  const std::string counter = R"(nabla 1 traced
state n: f32[]
entry step calls @step {
  reads n
  writes n
  outputs now
}
func @step(%n: f32[]) {
  %m = add(%n, %n)
  return %m, %m
}
)";
  EXPECT_EQ(message(counter, "opt"), "--offload opt: the program has no state whose new values follow from gradients");
  EXPECT_EQ(message(counter, "params"), "--offload params: the program has no state with respect to which an entry differentiates");
  EXPECT_EQ(message("nabla 1 traced\n", "all"), "--offload all: the program has no state");
  std::string flat = counter;
  flat.replace(flat.find("traced"), 6, "flat");
  EXPECT_EQ(message(flat, "opt"),
            "--offload opt: at stage flat gradients are no calls any more, which tell the optimizer's leaves; --offload all needs none");
  EXPECT_EQ(message(flat, "all"), "");
}

}  // namespace
}  // namespace nabla::strategy_tests
