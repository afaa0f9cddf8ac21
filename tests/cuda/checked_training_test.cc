// A whole training step with every load and store of every kernel looked at: the digits MLP on the fake GPU, whose
// driver runs the emulator's checked variant. Issued, recorded and replayed.
#include <gtest/gtest.h>

#include <cstdlib>
#include <random>

#include "cli/driver/compile.h"
#include "examples/digits/mlp.h"
#include "runtime/exec/session.h"
#include "runtime/format/bundle_reader.h"
#include "tests/cuda/fake_gpu.h"
#include "tests/nightly.h"

namespace nabla {
namespace {

std::unique_ptr<exec::Session> open(const std::string& bundle_bytes, const std::string& target) {
  auto bundle = format::Bundle::from_bytes(format::FileBytes::copy_of(format::as_bytes(bundle_bytes)), "test");
  auto session = exec::Session::create(std::move(*bundle), {.threads = 1, .target = target});
  NABLA_CHECK(session.ok(), "{}", to_string(session.errors()));
  return std::move(*session);
}

void use_checked_gpu(const std::string& bundle, const std::function<std::string(std::string)>& change = nullptr) {
  std::string driver = fmt::format("{}/{}/tests/cuda/fake_driver/libfake_cuda.so", std::getenv("TEST_SRCDIR"),
                                   std::getenv("TEST_WORKSPACE"));
  Status ready = emulator::use_fake_gpu(bundle, driver, {.checked = true, .change = change});
  NABLA_CHECK(ready.ok(), "{}", to_string(ready.errors()));
}

std::string compiled_mlp() {
  Program program = digits::make_program<digits::Mlp>(digits::kMlpLearningRate);
  auto compiled = driver::compile(program.module(), {.target = "sm_90a,cpu"});
  NABLA_CHECK(compiled.ok(), "{}", to_string(compiled.errors()));
  return compiled->bytes;
}

std::vector<Literal> batch(uint64_t seed) {
  std::mt19937_64 rng(seed);
  Literal pictures(u8, {digits::kBatch, digits::kSide, digits::kSide}), labels(i32, {digits::kBatch});
  for (int64_t i = 0; i < pictures.size(); ++i) pictures.set_i(i, static_cast<int64_t>(rng() % 17));
  for (int64_t i = 0; i < labels.size(); ++i) labels.set_i(i, static_cast<int64_t>(rng() % digits::kClasses));
  return {pictures, labels};
}

Literal seed() {
  Literal out(u32, {2});
  out.set_i(0, 3);
  return out;
}

TEST(CheckedTraining, NothingIsFoundInStepsOfTheMlp) {
  std::string bundle = compiled_mlp();
  use_checked_gpu(bundle);
  auto gpu = open(bundle, "sm_90a"), cpu = open(bundle, "cpu");
  for (auto* s : {gpu.get(), cpu.get()}) ASSERT_TRUE(s->call(s->need_entry("init").value(), {seed()}).ok());
  auto expect_same = [&](const char* entry, const std::vector<Literal>& inputs, double tolerance) {
    auto got = gpu->call(gpu->need_entry(entry).value(), inputs);
    auto want = cpu->call(cpu->need_entry(entry).value(), inputs);
    ASSERT_TRUE(got.ok()) << to_string(got.errors());
    ASSERT_TRUE(want.ok()) << to_string(want.errors());
    for (size_t r = 0; r < want->size(); ++r)
      for (int64_t i = 0; i < (*want)[r].size(); ++i)
        ASSERT_NEAR((*got)[r].get(i), (*want)[r].get(i), tolerance) << entry << " result " << r << " element " << i;
  };
  for (uint64_t step = 0; step < (is_nightly() ? 3 : 1); ++step) expect_same("step", batch(step), 1e-4);
  Literal mask(f32, {digits::kBatch});
  for (int64_t i = 0; i < mask.size(); ++i) mask.set(i, i % 3 == 0 ? 0 : 1);
  std::vector<Literal> inputs = batch(7);
  expect_same("predict", {inputs[0]}, 1e-4);
  inputs.push_back(mask);
  expect_same("eval", inputs, 1e-3);
}

// Without the barriers after the tiles of products, the same run is refused.
TEST(CheckedTraining, AMissingBarrierEndsTheRun) {
  std::string bundle = compiled_mlp();
  use_checked_gpu(bundle, [](std::string source) {
    const std::string barrier = "__syncthreads();";
    size_t kernels = source.find("__global__");
    for (size_t at = kernels; (at = source.find(barrier, at)) != std::string::npos;) source.erase(at, barrier.size());
    return source;
  });
  auto gpu = open(bundle, "sm_90a");
  ASSERT_TRUE(gpu->call(gpu->need_entry("init").value(), {seed()}).ok());
  auto got = gpu->call(gpu->need_entry("step").value(), batch(1));
  ASSERT_FALSE(got.ok());
  EXPECT_EQ(got.errors()[0].code, Code::kGpuFailed);
  EXPECT_NE(got.errors()[0].message.find("CUDA_ERROR_ILLEGAL_ADDRESS"), std::string::npos) << got.errors()[0].message;
}

}  // namespace
}  // namespace nabla
