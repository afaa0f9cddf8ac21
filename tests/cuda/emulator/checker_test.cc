// Planted faults: each must be found, with its text, and its healthy twin must be clean.
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "codegen/cuda/printer.h"
#include "tests/cuda/emulator/emulator.h"

namespace nabla::emulator {
namespace {

// `FAULT` is 1 in the faulty twin and 0 in the healthy one.
struct Twin {
  std::string name, text;
  Shape shape;
  std::string finding;     // a part of the report
  int64_t elements = 100;  // of both buffers
};

std::shared_ptr<Object> compile(const Twin& twin, bool faulty) {
  std::string text = fmt::format("#define FAULT {:d}\n{}", faulty, twin.text);
  if (text.find("nb_") != std::string::npos) text = codegen::cuda_prelude() + text;
  auto object = Object::compile(text, true);
  EXPECT_TRUE(object.ok()) << to_string(object.errors());
  return object.ok() ? *object : nullptr;
}

Report run(const Twin& twin, const Object& object, const Options& options) {
  Machine machine(true);
  std::vector<float> x(twin.elements);
  std::iota(x.begin(), x.end(), 1.0f);
  int64_t bytes = twin.elements * 4;
  void *in = machine.allocate(bytes, "x"), *out = machine.allocate(bytes, "y");
  machine.write(in, x.data(), bytes);
  Report report = machine.launch(object, "f", twin.shape, {&in, &out}, options);
  if (report.clean()) machine.expect_written(out, report);
  return report;
}

const Twin kTwins[] = {
    {"GuardOffByOne",
     R"(
extern "C" __global__ void f(const float* x, float* y) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < 100 + FAULT) y[i] = x[i];
}
)",
     {2, 64},
     "bounds: read of 4 bytes 0 bytes past the end of `x` (400 bytes) (block 1, thread 36, line 5: `if (i < 100 + "
     "FAULT) y[i] = x[i];`)"},
    {"NoBarrierBeforeReuse",
     R"(
extern "C" __global__ void f(const float* x, float* y) {
  __shared__ float room[64];
  for (int first = 0; first < 128; first += 64) {
    const int i = first + threadIdx.x;
    room[threadIdx.x] = i < 100 ? x[i] : 0.0f;
    __syncthreads();
    if (i < 100) y[i] = room[63 - threadIdx.x];
    if (!FAULT) __syncthreads();
  }
}
)",
     {1, 64},
     "static shared memory which another thread has read, with no barrier between"},
    {"NoBarrierBeforeReading",
     R"(
extern "C" __global__ void f(const float* x, float* y) {
  __shared__ float room[100];
  room[threadIdx.x] = x[threadIdx.x];
  if (!FAULT) __syncthreads();
  y[threadIdx.x] = room[99 - threadIdx.x];
}
)",
     {1, 100},
     "static shared memory which "},
    {"AShuffleIsNoBarrier",
     R"(
extern "C" __global__ void f(const float* x, float* y) {
  __shared__ float room[100];
  if (threadIdx.x < 32) {
    for (int i = threadIdx.x; i < 100; i += 32) room[i] = x[i];
    if (FAULT) __shfl_sync(0xffffffffu, 1, 0);
    else __syncwarp();
    for (int i = threadIdx.x; i < 100; i += 32) y[i] = room[99 - i];
  }
}
)",
     {1, 32},
     "race: read of byte 396 of static shared memory which thread 3 has written, with no barrier between (block 0, "
     "thread 0, line 9: `for (int i = threadIdx.x; i < 100; i += 32) y[i] = room[99 - i];`)"},
    {"HalfAWarpMeets",
     R"(
extern "C" __global__ void f(const float* x, float* y) {
  __shared__ float room[32];
  room[threadIdx.x] = x[threadIdx.x];
  if (FAULT) __syncwarp(threadIdx.x < 16 ? 0x0000ffffu : 0xffff0000u);
  else __syncwarp();
  for (int i = threadIdx.x; i < 100; i += 32) y[i] = room[31 - threadIdx.x];
}
)",
     {1, 32},
     "race: read of byte"},
    {"PlainAddAcrossBlocks",
     R"(
extern "C" __global__ void f(const float* x, float* y) {
  y[blockIdx.x * 25 + threadIdx.x] = 0;
  if (threadIdx.x > 0) return;
  float* total = (float*)x;
  if (FAULT) total[0] += 1.0f;
  else atomicAdd(total, 1.0f);
}
)",
     {4, 25},
     "race: read of byte 0 of `x` (400 bytes) which block 0 of this launch (in the order of running) has written "
     "(block 1, thread 0, line 7: `if (FAULT) total[0] += 1.0f;`)"},
    {"UninitialisedShared",
     R"(
extern "C" __global__ void f(const float* x, float* y) {
  NB_SHARED(float, room);
  if (threadIdx.x < 100 - FAULT) room[threadIdx.x] = x[threadIdx.x];
  __syncthreads();
  y[threadIdx.x] = room[threadIdx.x];
}
)",
     {1, 100, 400},
     "uninitialised: read of byte 396 of dynamic shared memory which nobody has written (block 0, thread 99, line 7: "
     "`y[threadIdx.x] = room[threadIdx.x];`)"},
    {"PastDynamicShared",
     R"(
extern "C" __global__ void f(const float* x, float* y) {
  NB_SHARED(float, room);
  room[threadIdx.x + FAULT] = x[threadIdx.x];
  y[threadIdx.x] = x[threadIdx.x];
}
)",
     {1, 100, 400},
     "bounds: write of 4 bytes 0 bytes past the 400 bytes of dynamic shared memory (block 0, thread 99"},
    {"PastAStaticArray",
     R"(
extern "C" __global__ void f(const float* x, float* y) {
  __shared__ float a[100], b[100];
  a[threadIdx.x + FAULT] = x[threadIdx.x];
  b[threadIdx.x] = 0;
  __syncthreads();
  y[threadIdx.x] = a[threadIdx.x + FAULT] + b[threadIdx.x];
}
)",
     {1, 100},
     "bounds: index 100 of an array 'float [100]' (block 0, thread 99, line 5: `a[threadIdx.x + FAULT] = "
     "x[threadIdx.x];`)"},
    {"MisalignedVector",
     R"(
extern "C" __global__ void f(const float* x, float* y) {
  const int i = threadIdx.x * 4;
  float4 v = *(const float4*)(x + i - (i > 0) * FAULT);
  y[i] = v.x, y[i + 1] = v.y, y[i + 2] = v.z, y[i + 3] = v.w;
}
)",
     {1, 25},
     "misaligned: an address of 'const struct float4' ends in 0xc (block 0, thread 1, line 5:"},
    {"HalfABlockAtABarrier",
     R"(
extern "C" __global__ void f(const float* x, float* y) {
  y[threadIdx.x] = x[threadIdx.x];
  if (threadIdx.x < 64 || !FAULT) __syncthreads();
}
)",
     {1, 100},
     "barrier: 64 of 100 threads pass __syncthreads and the others have ended"},
    {"NotAllWritten",
     R"(
extern "C" __global__ void f(const float* x, float* y) {
  if (threadIdx.x != 57 || !FAULT) y[threadIdx.x] = x[threadIdx.x];
}
)",
     {1, 100},
     "unwritten: byte 228 of `y` (400 bytes) is never written"},
    {"NoWaitForACopy",
     R"(
extern "C" __global__ void f(const float* x, float* y) {
  NB_SHARED(float, room);
  const int i = threadIdx.x * 4;
  nb_cp_async_16(room + i, x + i);
  nb_cp_commit();
  if (!FAULT) nb_cp_wait<0>();
  __syncthreads();
  for (int e = 0; e < 4; ++e) y[i + e] = room[99 - i - e];
}
)",
     {1, 25, 400},
     "race: read of byte 396 of dynamic shared memory that a cp.async of thread 24 still fills: cp.async.wait_group, "
     "then a barrier, comes first (block 0, thread 0, line "},
    {"NoBarrierAtTheEndOfADoubleBuffersLoop",
     R"(
extern "C" __global__ void f(const float* x, float* y) {
  NB_SHARED(float, room);  // two halves of 32 x 4
  const int t = threadIdx.x;
  auto fetch = [&](int step) {
    nb_cp_async_16(room + step % 2 * 128 + t * 4, x + step * 128 + t * 4);
    nb_cp_commit();
  };
  fetch(0);
  for (int step = 0; step < 4; ++step) {
    if (step + 1 < 4) {
      fetch(step + 1);
      nb_cp_wait<1>();
    } else {
      nb_cp_wait<0>();
    }
    __syncthreads();
    for (int e = 0; e < 4; ++e) y[step * 128 + t * 4 + e] = room[step % 2 * 128 + 127 - t * 4 - e];
    if (!FAULT) __syncthreads();
  }
}
)",
     {1, 32, 1024},
     "race: cp.async of byte ",
     512},
};

void PrintTo(const Twin& twin, std::ostream* out) { *out << twin.name; }

class Mutations : public testing::TestWithParam<Twin> {};

TEST_P(Mutations, AreFoundAndTheHealthyTwinIsClean) {
  const Twin& twin = GetParam();
  auto right = compile(twin, false), wrong = compile(twin, true);
  ASSERT_TRUE(right && wrong);
  for (bool late : {true, false})
    for (Order order : {Order::kForward, Order::kReverse, Order::kRandom}) {
      Options options{order, 2, late};
      SCOPED_TRACE(options.str());
      Report healthy = run(twin, *right, options), faulty = run(twin, *wrong, options);
      EXPECT_TRUE(healthy.clean()) << healthy.str();
      // Which thread is the first to be caught depends on the order.
      std::string text = faulty.str();
      EXPECT_FALSE(faulty.clean());
      if (order == Order::kForward) {
        EXPECT_NE(text.find(twin.finding), std::string::npos) << text;
      }
      std::string kind = twin.finding.substr(0, twin.finding.find(':') + 1);
      EXPECT_NE(text.find(kind), std::string::npos) << text;
    }
}

INSTANTIATE_TEST_SUITE_P(All, Mutations, testing::ValuesIn(kTwins), [](const auto& info) { return info.param.name; });

TEST(Traffic, CountsEveryAccess) {
  Twin twin{"Traffic",
            R"(
extern "C" __global__ void f(const float* x, float* y) {
  __shared__ float room[100];
  room[threadIdx.x] = x[threadIdx.x] + x[0];
  __syncthreads();
  y[threadIdx.x] = room[99 - threadIdx.x];
}
)",
            {1, 100},
            ""};
  auto object = compile(twin, false);
  ASSERT_NE(object, nullptr);
  Report report = run(twin, *object, {});
  EXPECT_TRUE(report.clean()) << report.str();
  EXPECT_EQ(report.traffic.global_read, 800);
  EXPECT_EQ(report.traffic.global_written, 400);
  EXPECT_EQ(report.traffic.shared_read, 400);
  EXPECT_EQ(report.traffic.shared_written, 400);
}

}  // namespace
}  // namespace nabla::emulator
