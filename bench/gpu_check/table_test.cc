// The table of what a check found.
#include <gtest/gtest.h>

#include <cmath>

#include "bench/gpu_check/check.h"

namespace nabla::gpu_check {
namespace {

using nlohmann::json;

// Rows come as lines of JSON, in which NaN is null.
TEST(Table, ALossThatIsNotANumberIsALineOfIt) {
  const json machine = {{"gpu", "H100"}, {"capability", 90}, {"target", "sm_90a"}, {"seed", 4u}, {"nvidia_smi", ""}};
  json row = {{"part", "training"}, {"name", "gpt2"}, {"ok", false}, {"step_ms", 1.5}, {"tokens_per_second", 1e6}, {"tflops", 200.0},
              {"utilisation", 0.2}, {"loss", {11.0, std::nan("")}}};
  std::string text = table(machine, {json::parse(row.dump())});
  EXPECT_NE(text.find("loss 11 -> nan  FAILED"), std::string::npos) << text;
  EXPECT_NE(text.find("1 FAILED"), std::string::npos) << text;
}

}  // namespace
}  // namespace nabla::gpu_check
