// Programs that the compiler makes for GPUs, run by the runtime: real cubins, whose kernels the fake driver emulates.
// What comes out is what the CPU's program of the same bundle gives.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>

#include "cli/driver/compile.h"
#include "frontend/nabla.h"
#include "runtime/exec/session.h"
#include "runtime/format/bundle_reader.h"
#include "tests/cuda/fake_gpu.h"

namespace nabla {
namespace {

/// Sessions of one bundle on the fake GPU and on the CPU.
struct Both {
  std::unique_ptr<exec::Session> gpu, cpu;
};

Both compile_for_both(const ir::Module& module, const std::string& target = "sm_80", const char* capability = "8.0",
                      const std::string& chosen = "sm_80") {
  setenv("NABLA_FAKE_CUDA_CAPABILITY", capability, 1);
  auto compiled = driver::compile(module, {.target = target + ",cpu"});
  NABLA_CHECK(compiled.ok(), "{}", to_string(compiled.errors()));
  std::string driver = fmt::format("{}/{}/tests/cuda/fake_driver/libfake_cuda.so", std::getenv("TEST_SRCDIR"),
                                   std::getenv("TEST_WORKSPACE"));
  Status ready = emulator::use_fake_gpu(compiled->bytes, driver);
  NABLA_CHECK(ready.ok(), "{}", to_string(ready.errors()));
  auto open = [&](const char* target) {
    auto bundle = format::Bundle::from_bytes(format::FileBytes::copy_of(format::as_bytes(compiled->bytes)), "test");
    auto session = exec::Session::create(std::move(*bundle), {.threads = 1, .target = target});
    NABLA_CHECK(session.ok(), "{}", to_string(session.errors()));
    return std::move(*session);
  };
  Both out;
  out.gpu = open("");
  EXPECT_EQ(out.gpu->target(), chosen);
  out.cpu = open("cpu");
  return out;
}

void expect_near(const Literal& got, const Literal& want) {
  ASSERT_EQ(got.shape(), want.shape());
  for (int64_t i = 0; i < want.size(); ++i)
    ASSERT_NEAR(got.get(i), want.get(i), 2e-5 * std::max(1.0, std::fabs(want.get(i)))) << i;
}

void expect_same(const Both& both, const char* entry, const std::vector<Literal>& inputs) {
  auto got = both.gpu->call(both.gpu->need_entry(entry).value(), inputs);
  auto want = both.cpu->call(both.cpu->need_entry(entry).value(), inputs);
  ASSERT_TRUE(got.ok()) << to_string(got.errors());
  ASSERT_TRUE(want.ok()) << to_string(want.errors());
  for (size_t i = 0; i < want->size(); ++i) expect_near((*got)[i], (*want)[i]);
}

Literal ramp(std::vector<int64_t> shape, double scale) {
  Literal out(f32, std::move(shape));
  for (int64_t i = 0; i < out.size(); ++i) out.set(i, scale * std::sin(static_cast<double>(i) + 1));
  return out;
}

// The loss falls on both machines by the same steps: the first issued, the others replays of a graph.
TEST(CudaRuntime, TrainingOnTheFakeGpuIsTrainingOnTheCpu) {
  Program program;
  State w = program.state("w", f32, {5, 3}), m = program.state("m", f32, {5, 3});
  program.entry("init", {}, [&](const std::vector<Tensor>&) {
    w.set(ones({5, 3}) * 0.1);
    m.set(zeros({5, 3}));
  });
  program.entry("step", {{"x", f32, {7, 5}}, {"y", f32, {7, 3}}}, [&](const std::vector<Tensor>& in) -> Outputs {
    auto loss_of = [&](const Tensor& weights) -> Tensor {
      Tensor error = tanh(matmul(in[0], weights)) - in[1];
      return mean(error * error);
    };
    auto [loss, slope] = value_and_grad(loss_of)(w.get());
    m.set(m.get() * 0.9 + slope);
    w.set(w.get() - m.get() * 0.2);
    return {{"loss", loss}, {"norm", sqrt(sum(slope * slope))}};
  });
  Both both = compile_for_both(program.module());
  expect_same(both, "init", {});
  for (int i = 0; i < 5; ++i) expect_same(both, "step", {ramp({7, 5}, 1), ramp({7, 3}, 0.5)});
  Literal got(f32, {5, 3}), want(f32, {5, 3});
  ASSERT_TRUE(both.gpu->get_state(0, got.mutable_data()).ok());
  ASSERT_TRUE(both.cpu->get_state(0, want.mutable_data()).ok());
  expect_near(got, want);
}

// PTX for other GPUs, which comes along after the last GPU of a list, before the CPU.
TEST(CudaRuntime, AnotherGpuRunsThePtx) {
  Program program;
  program.entry("f", {{"x", f32, {7, 45}}, {"w", f32, {45, 33}}}, [](const std::vector<Tensor>& in) -> Outputs {
    return {{"y", softmax(matmul(in[0], in[1]), -1)}, {"sorted", sort(in[0])}};
  });
  Both both = compile_for_both(program.module(), "sm_90a", "8.9", "compute_80");
  for (int i = 0; i < 3; ++i) expect_same(both, "f", {ramp({7, 45}, 1 + i), ramp({45, 33}, 0.5)});
}

TEST(CudaRuntime, SizesOfTheCallerDecide) {
  Program program;
  ir::Dim batch = program.symbol("batch", 1, 9);
  program.entry("f", {{"x", f32, {batch, 33}}}, [](const std::vector<Tensor>& in) -> Outputs {
    return {{"y", exp(in[0]) * 2.0}, {"s", sum(in[0])}};
  });
  Both both = compile_for_both(program.module());
  for (int64_t n : {3, 9, 1, 3, 3, 9}) expect_same(both, "f", {ramp({n, 33}, 2)});
}

}  // namespace
}  // namespace nabla
