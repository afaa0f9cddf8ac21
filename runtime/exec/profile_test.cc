#include "runtime/exec/profile.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace nabla::exec {
namespace {

constexpr int64_t kUs = 1000;

device::Limits round_limits() { return {.flops = 100e9, .copies = {{1 << 10, 40e9}, {1 << 20, 10e9}}}; }

class Profiles : public testing::Test {
 protected:
  Profiles() {
    entry_ = trace_.add_label({.name = "step", .category = "entry"});
    product_ = trace_.add_label({.name = "dot_general",
                                 .category = "library",
                                 .file = "model.py",
                                 .line = 7,
                                 .problem = "gemm f32 1x10x10x10 nn by sgemm",
                                 .flops = 2000,
                                 .bytes = 1000});
    kernel_ = trace_.add_label({.name = "tanh", .category = "kernel", .file = "model.py", .line = 8, .bytes = 4000});
    loop_ = trace_.add_label({.name = "scan", .category = "control"});
  }
  // A run of 100 us that begins at `at` us: the product takes `us`, the kernel runs twice for 10 us in a loop.
  void run(int64_t at, int64_t us) {
    trace_.span(product_, at * kUs, (at + us) * kUs);
    for (int i = 0; i < 2; ++i) trace_.span(kernel_, (at + 60 + 10 * i) * kUs, (at + 70 + 10 * i) * kUs);
    trace_.span(loop_, (at + 60) * kUs, (at + 80) * kUs);
    trace_.span(entry_, at * kUs, (at + 100) * kUs);
  }
  TraceRecorder trace_;
  uint32_t entry_, product_, kernel_, loop_;
};

TEST_F(Profiles, RowsAreMediansOfRunsAfterTheFirst) {
  run(0, 50), run(200, 20), run(400, 40), run(600, 30);
  Profile profile = profile_of(trace_, round_limits());
  ASSERT_EQ(profile.entries.size(), 1u);
  const EntryProfile& step = profile.entries[0];
  EXPECT_EQ(step.entry, "step");
  EXPECT_EQ(step.runs, 3);
  EXPECT_NEAR(step.seconds, 100e-6, 1e-12);
  ASSERT_EQ(step.rows.size(), 2u) << "a loop is no row";
  const ProfileRow &product = step.rows[0], &kernel = step.rows[1];
  EXPECT_EQ(product.problem, "gemm f32 1x10x10x10 nn by sgemm");
  EXPECT_EQ(product.source, "model.py:7");
  EXPECT_NEAR(product.seconds, 30e-6, 1e-12);
  EXPECT_EQ(product.calls, 1);
  EXPECT_NEAR(kernel.seconds, 20e-6, 1e-12);
  EXPECT_EQ(kernel.calls, 2);
  EXPECT_EQ(kernel.bytes, 8000);
  EXPECT_NEAR(step.between(), 50e-6, 1e-12);
}

TEST_F(Profiles, TheShareOfThePeakIsTheLongerOfComputingAndMoving) {
  run(0, 50), run(200, 10);
  Profile profile = profile_of(trace_, round_limits());
  for (const ProfileRow& row : profile.entries[0].rows) {
    // 1000 bytes at 40 GB/s are 25 ns, 2000 FLOPs at 100 GFLOP/s 20 ns; 4000 bytes at 10 GB/s 400 ns, twice.
    double least = row.name == "tanh" ? 800e-9 : 25e-9;
    EXPECT_NEAR(row.of_peak, least / row.seconds, 1e-9) << row.name;
  }
  for (const ProfileRow& row : profile_of(trace_, {}).entries[0].rows) EXPECT_LT(row.of_peak, 0) << "nothing is known";
}

TEST_F(Profiles, ProductsOfTwoSizesAreTwoRows) {
  run(0, 50);
  uint32_t other = trace_.add_label({.name = "dot_general",
                                     .category = "library",
                                     .file = "model.py",
                                     .line = 7,
                                     .problem = "gemm f32 1x20x10x10 nn by sgemm",
                                     .flops = 4000,
                                     .bytes = 1400});
  trace_.span(other, 200 * kUs, 210 * kUs);
  trace_.span(entry_, 200 * kUs, 220 * kUs);
  trace_.span(other, 300 * kUs, 330 * kUs);
  trace_.span(entry_, 300 * kUs, 340 * kUs);
  const EntryProfile step = profile_of(trace_, round_limits()).entries[0];
  EXPECT_EQ(step.runs, 2);
  ASSERT_EQ(step.rows.size(), 1u) << "the first run's rows are not counted";
  EXPECT_EQ(step.rows[0].problem, "gemm f32 1x20x10x10 nn by sgemm");
  EXPECT_NEAR(step.rows[0].seconds, 20e-6, 1e-12);
}

TEST_F(Profiles, ARunThatFailedBelongsToNobody) {
  run(0, 50);
  trace_.span(product_, 150 * kUs, 190 * kUs);  // no span of the entry follows
  run(200, 10);
  EXPECT_NEAR(profile_of(trace_, round_limits()).entries[0].rows[1].seconds, 10e-6, 1e-12);
}

TEST_F(Profiles, TheTableSaysWhatWhereAndHowFast) {
  run(0, 50), run(200, 40);
  std::string text = str(profile_of(trace_, round_limits()));
  EXPECT_NE(text.find("step: 100.0 us a run, the median of 1; 40.0 us of it between instructions\n"), text.npos)
      << text;
  EXPECT_NE(text.find(" 40.0%       40.00       1     0.05    0.025      0 %  gemm f32 1x10x10x10 nn by sgemm"),
            text.npos)
      << text;
  EXPECT_NE(text.find("model.py:8"), text.npos) << text;
  EXPECT_NE(text.find("peak: 100 GFLOP/s of f32; copies of 1 KiB 40, 1 MiB 10 GB/s; measured now"), text.npos) << text;
  text = str(profile_of(trace_, {}), 1);
  EXPECT_NE(text.find(" 20.0%       20.00  in 1 more\n"), text.npos) << text;
  EXPECT_EQ(text.find("peak: "), text.npos) << text;
}

TEST_F(Profiles, JsonHasEveryFieldAndForeignBytesAreReplaced) {
  uint32_t odd = trace_.add_label({.name = "\xff", .category = "kernel"});
  trace_.span(odd, 10, 20);
  run(0, 50);
  auto rows = nlohmann::json::parse(json(profile_of(trace_, round_limits())))[0]["rows"];
  ASSERT_EQ(rows.size(), 3u);
  for (const char* field : {"name", "kind", "problem", "source", "calls", "seconds", "flops", "bytes", "of_peak"})
    EXPECT_TRUE(rows[0].contains(field)) << field;
}

TEST(Limits, AreMeasuredAndCopiesOfMoreBytesAreNotFaster) {
  device::ThreadPool pool(1);
  device::Limits limits = device::measure_limits(pool);
  EXPECT_GT(limits.flops, 1e8);
  ASSERT_GE(limits.copies.size(), 3u);
  for (size_t i = 1; i < limits.copies.size(); ++i) {
    EXPECT_GT(limits.copies[i].bytes, limits.copies[i - 1].bytes);
    EXPECT_LE(limits.copies[i].bytes_per_second, limits.copies[i - 1].bytes_per_second);
  }
  EXPECT_EQ(limits.bytes_per_second(1), limits.copies[0].bytes_per_second);
  EXPECT_EQ(limits.bytes_per_second(1e15), limits.copies.back().bytes_per_second);
  EXPECT_EQ(device::Limits{}.bytes_per_second(1), 0);
}

}  // namespace
}  // namespace nabla::exec
