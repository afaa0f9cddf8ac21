// The time that reports of compiled GPU programs predict: by machine code, and the sum of an entry.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "cli/driver/compile.h"
#include "cli/driver/report.h"
#include "codegen/cuda/nvrtc_library.h"
#include "frontend/nabla.h"

namespace nabla::driver {
namespace {

using Json = nlohmann::json;

// Two kernels, one of them of two grids.
Program layer() {
  Program program;
  program.entry("main", {{"x", f32, {8192, 768}}, {"g", f32, {768}}, {"b", f32, {768}}}, [](const std::vector<Tensor>& x) -> Outputs {
    return {{"y", layer_norm(x[0], x[1], x[2])}, {"s", sum(x[0], {0})}};
  });
  return program;
}

TEST(Prediction, StandsOnMachineCode) {
  if (!codegen::open_nvrtc(codegen::nvrtc_candidates()).ok()) GTEST_SKIP() << "there is no machine code without NVRTC";
  Result<CompiledBundle> bundle = compile(layer().module(), {.target = "sm_90a", .library = false, .cache = false});
  ASSERT_TRUE(bundle.ok()) << to_string(bundle.errors());
  Json r = Json::parse(bundle->report);
  const Json &e = r["entries"][0], &p = e["predicted"];
  EXPECT_TRUE(p["counted"].get<bool>());
  double us = 0, instructions = 0, launches = 0;
  for (const Json& k : r["kernels"]) {
    EXPECT_EQ(e["runs"]["kernels"][k["name"].get<std::string>()], 1) << k;
    EXPECT_EQ(k["expected"].size(), k["grids"].size());
    EXPECT_GE(k["predicted_us"], k["least_us"]);
    us += k["predicted_us"].get<double>(), instructions += k["warp_instructions"].get<double>();
    launches += static_cast<double>(k["grids"].size());
  }
  EXPECT_NEAR(p["us"].get<double>(), us, 1e-9 * us);
  EXPECT_EQ(p["launches"], launches);
  EXPECT_NEAR(p["warp_instructions"].get<double>(), instructions, 1e-9 * instructions);
  // Between two and a hundred instructions for each element of either kernel.
  const double elements = 2.0 * 8192 * 768 / 32;
  EXPECT_GT(instructions, 2 * elements);
  EXPECT_LT(instructions, 100 * elements);
  // As much memory as twice the array, and as once; twice as long at most.
  const double moved = 3.0 * 8192 * 768 * 4 / 3000e3;
  EXPECT_GT(p["us"], moved);
  EXPECT_LT(p["us"].get<double>(), 3 * moved + 1.25 * launches);
  std::string text = report_text(bundle->report).value();
  EXPECT_NE(text.find("  time       at least "), std::string::npos) << text;
  EXPECT_NE(text.find(" instructions of warps\n"), std::string::npos) << text;
}

// What a module's report says without its machine code is no more than what it says with it.
TEST(Prediction, OfAModuleIsByItsSchedules) {
  Result<CompiledModule> lowered = lower_module(layer().module(), {.target = "sm_90a", .library = false});
  ASSERT_TRUE(lowered.ok()) << to_string(lowered.errors());
  Json r = Json::parse(lowered->report);
  EXPECT_FALSE(r["entries"][0]["predicted"]["counted"].get<bool>());
  EXPECT_GT(r["entries"][0]["predicted"]["us"], r["entries"][0]["least_us"]);
}

}  // namespace
}  // namespace nabla::driver
