#include "tests/cuda/traffic_model.h"

#include <gtest/gtest.h>

namespace nabla::emulator {
namespace {

std::optional<int64_t> traffic_of(const std::string& buffers, const std::string& body) {
  std::string text = "kernel @k(" + buffers + ") {\n  axes i = 6, j = 10\n  for i {\n" + body + "  }\n}\n";
  return known_traffic(kernel_ir::parse_kernel(text, "k").value());
}

TEST(TrafficModel, EveryElementOnceIsKnown) {
  EXPECT_EQ(traffic_of("in x: f32[6,10], out y: bf16[6,10]", "    store y[i, j] over j = convert.bf16(x[i, j])\n"),
            6 * 10 * (4 + 2));
  EXPECT_EQ(traffic_of("in x: f32[10,6], out y: f32[6,10]", "    store y[i, j] over j = x[j, i]\n"), 2 * 6 * 10 * 4);
  EXPECT_EQ(traffic_of("in x: f32[6,10], out y: f32[6]", "    let s: f32 = sum(j) x[i, j]\n    store y[i] = s\n"),
            (6 * 10 + 6) * 4);
  // One expression takes an element once, however often it stands there.
  EXPECT_EQ(traffic_of("in x: f32[6,10], out y: f32[6,10]", "    store y[i, j] over j = x[i, j] * x[i, j]\n"),
            2 * 6 * 10 * 4);
}

TEST(TrafficModel, ElementsThatMayBeTakenAgainAreNot) {
  const char* const maps = "in x: f32[6,10], in b: f32[10], out y: f32[6,10]";
  EXPECT_EQ(traffic_of(maps, "    store y[i, j] over j = x[i, j] + b[j]\n"), std::nullopt);
  const char* const rows = "in x: f32[6,10], out y: f32[6,10]";
  EXPECT_EQ(traffic_of(rows, "    let m: f32 = max(j) x[i, j]\n    store y[i, j] over j = x[i, j] - m\n"),
            std::nullopt);
  const char* const sums = "in x: f32[6,10], out y: f32[10]";
  EXPECT_EQ(traffic_of(sums, "    store y[j] over j sum= x[i, j]\n"), std::nullopt);
  EXPECT_EQ(traffic_of(rows, "    store y[i, j] over j = x[i, j] if j < 5\n"), std::nullopt);
}

}  // namespace
}  // namespace nabla::emulator
