// Programs that compute values again to save memory: the same bits in fewer bytes, or an error that says how few.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "cli/driver/compile.h"
#include "frontend/nabla.h"
#include "ir/plan.h"
#include "runtime/exec/session.h"
#include "runtime/format/bundle_reader.h"

namespace nabla {
namespace {

constexpr int kLayers = 16;

// Gradient descent on a deep network whose activations outweigh its parameters.
ir::Module deep() {
  Program program;
  std::vector<State> weights;
  for (int i = 0; i < kLayers; ++i) weights.push_back(program.state(fmt::format("w{}", i), f32, {32, 32}));
  program.entry("init", {}, [&] {
    for (int i = 0; i < kLayers; ++i) weights[i].set(sin(iota({32, 32}, 1, f32) * (0.1 * (i + 1))) * 0.3);
  });
  program.entry("step", {{"x", f32, {256, 32}}}, [&](Tensor x) -> Outputs {
    std::vector<Tensor> values;
    for (const State& w : weights) values.push_back(w.get());
    auto loss = [&](std::vector<Tensor> p) {
      Tensor h = x;
      for (const Tensor& w : p) h = tanh(matmul(h, w)) + h * 0.5;
      return mean(h * h);
    };
    auto [value, gradients] = value_and_grad(loss)(values);
    for (int i = 0; i < kLayers; ++i) weights[i].set(values[i] - 0.1 * gradients[i]);
    return {{"loss", value}};
  });
  return program.module();
}

int64_t arena(const driver::CompiledModule& m) { return m.planned.plan->arena_bytes; }
size_t launches(const driver::CompiledModule& m) {
  size_t n = 0;
  for (const ir::Node& node : m.planned.find("step")->nodes) n += node.op->lower != ir::Lowering::kView;
  return n;
}

// Launches of the step that multiply matrices.
int64_t products(const driver::CompiledModule& m) {
  const ir::Function &flat = *m.flat.find("step"), &planned = *m.planned.find("step");
  auto is_product = [&](int node) { return flat.nodes[static_cast<size_t>(node)].op->lower == ir::Lowering::kContraction; };
  return std::ranges::count_if(planned.nodes, [&](const ir::Node& n) { return std::ranges::any_of(n.computes, is_product); });
}
// The FLOPs of a step in the report: `what` is "flops", those that run, or "model_flops".
int64_t reported(const driver::CompiledModule& m, const char* what) {
  for (const auto& entry : nlohmann::json::parse(m.report)["entries"])
    if (entry["name"] == "step") return entry[what];
  return 0;
}

std::vector<float> losses(const ir::Module& module, const driver::CompileOptions& options) {
  driver::CompiledBundle compiled = driver::compile(module, options).value();
  auto bundle =
      format::Bundle::from_bytes(format::FileBytes::copy_of(format::as_bytes(compiled.bytes)), "test").value();
  auto session = exec::Session::create(std::move(bundle), {.threads = 1}).value();
  EXPECT_TRUE(session->call(session->need_entry("init").value(), {}).ok());
  Literal x(f32, {256, 32});
  for (int64_t i = 0; i < x.size(); ++i) x.set(i, std::sin(static_cast<double>(i)));
  std::vector<float> out;
  for (int i = 0; i < 4; ++i)
    out.push_back(static_cast<float>(session->call(session->need_entry("step").value(), {x}).value()[0].get(0)));
  return out;
}

TEST(Recompute, FitsTheBudgetAndKeepsEveryBit) {
  ir::Module module = deep();
  driver::CompiledModule plain = driver::lower_module(module, {}).value();
  int64_t state = plain.planned.plan->state_bytes, temporaries = arena(plain) - state;
  std::vector<float> expected = losses(module, {});
  size_t before = launches(plain), last = before;
  for (double share : {0.8, 0.6, 0.45}) {
    driver::CompileOptions options;
    int64_t budget = state + static_cast<int64_t>(share * static_cast<double>(temporaries));
    options.pass_options.recompute.remat_bytes = {budget};
    driver::CompiledModule small = driver::lower_module(module, options).value();
    EXPECT_LE(arena(small), budget) << share;
    EXPECT_GE(launches(small), last) << share;
    EXPECT_LE(launches(small), before * 2) << "no kernel of the way there runs more than twice";
    // The report counts what runs again; the model needs what it needed before.
    const int64_t again = reported(small, "flops") - reported(small, "model_flops"), product = 2 * 256 * 32 * 32;
    EXPECT_EQ(reported(small, "model_flops"), reported(plain, "flops"));
    EXPECT_GE(again, (products(small) - products(plain)) * product) << share;
    EXPECT_LE(again, (static_cast<int64_t>(launches(small) - before)) * 2 * product) << share;
    last = launches(small);
    EXPECT_EQ(losses(module, options), expected) << share;
  }
  EXPECT_GT(last, before);
  EXPECT_EQ(reported(plain, "flops"), reported(plain, "model_flops"));
}

TEST(Recompute, ChangesNothingWhereThereIsRoom) {
  ir::Module module = deep();
  driver::CompiledModule plain = driver::lower_module(module, {}).value();
  driver::CompileOptions options;
  options.pass_options.recompute.remat_bytes = {arena(plain)};
  driver::CompiledModule same = driver::lower_module(module, options).value();
  EXPECT_EQ(launches(same), launches(plain));
  EXPECT_EQ(same.report, plain.report);
}

TEST(Recompute, SaysTheLeastThatWasFound) {
  ir::Module module = deep();
  driver::CompileOptions options;
  options.pass_options.recompute.remat_bytes = {100000};
  Result<driver::CompiledModule> made = driver::lower_module(module, options);
  ASSERT_FALSE(made.ok());
  const Diagnostic& d = made.errors()[0];
  EXPECT_EQ(d.code, Code::kOverBudget);
  EXPECT_NE(d.message.find("entry `step` needs "), std::string::npos) << d.message;
  EXPECT_NE(d.message.find("(65536 of state, "), std::string::npos) << d.message;
  EXPECT_NE(d.message.find(" of temporaries; least found) "), std::string::npos) << d.message;
  EXPECT_NE(d.message.find("even where values are computed again, 100000 are allowed"), std::string::npos) << d.message;
}

}  // namespace
}  // namespace nabla
