// The emulator does what CUDA's manual says of threads, warps and copies.
#include "tests/cuda/emulator/emulator.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <random>

#include "codegen/cuda/printer.h"

namespace nabla::emulator {
namespace {

const std::vector<Options> kOrders = {
    {Order::kForward, 1, true}, {Order::kReverse, 1, true}, {Order::kRandom, 5, true}};

std::shared_ptr<Object> compile(const std::string& text) {
  auto object = Object::compile(text, false);
  EXPECT_TRUE(object.ok()) << to_string(object.errors());
  return object.ok() ? *object : nullptr;
}

// A kernel of one int buffer.
struct Done {
  std::vector<int> values;
  Report report;
};
Done run(const Object& object, const std::string& symbol, std::vector<int> values, const Shape& shape,
         const Options& options = {}) {
  Machine machine(false);
  int64_t bytes = static_cast<int64_t>(values.size() * sizeof(int));
  void* at = machine.allocate(bytes, "values");
  machine.write(at, values.data(), bytes);
  Done out;
  out.report = machine.launch(object, symbol, shape, {&at}, options);
  std::memcpy(values.data(), at, bytes);
  out.values = std::move(values);
  return out;
}

bool reports(const Report& r, const std::string& text) { return r.str().find(text) != std::string::npos; }

TEST(Emulator, ABarrierMakesTheWorkOfOthersVisibleInEveryOrder) {
  auto object = compile(R"(
extern "C" __global__ void __launch_bounds__(96) turn(int* x) {
  __shared__ int room[96];
  room[threadIdx.x] = x[blockIdx.x * blockDim.x + threadIdx.x];
  __syncthreads();
  x[blockIdx.x * blockDim.x + threadIdx.x] = room[blockDim.x - 1 - threadIdx.x] + 1000 * gridDim.x;
}
)");
  ASSERT_NE(object, nullptr);
  for (const Options& o : kOrders) {
    std::vector<int> x(3 * 96);
    std::iota(x.begin(), x.end(), 0);
    Done r = run(*object, "turn", x, {3, 96}, o);
    EXPECT_TRUE(r.report.clean()) << r.report.str();
    for (int i = 0; i < 96 * 3; ++i) ASSERT_EQ(r.values[i], i / 96 * 96 + 95 - i % 96 + 3000) << o.str();
  }
}

TEST(Emulator, ShufflesVotesAndPartialMasks) {
  auto object = compile(R"(
extern "C" __global__ void lanes(int* x) {
  const int lane = threadIdx.x % 32;
  const unsigned all = 0xffffffffu;
  int* out = x + threadIdx.x * 8;
  out[0] = __shfl_sync(all, lane * 3, 7);
  out[1] = __shfl_xor_sync(all, lane, 5);
  out[2] = __shfl_down_sync(all, lane, 4);
  out[3] = __shfl_up_sync(all, lane, 4);
  out[4] = __shfl_sync(all, lane, 1, 8);
  out[5] = int(__ballot_sync(all, lane % 3 == 0));
  out[6] = __any_sync(all, lane == 31) * 2 + __all_sync(all, lane < 31);
  if (lane < 12) out[7] = __shfl_xor_sync(0x00000fffu, lane + 100, 1);
  else out[7] = __shfl_xor_sync(0xfffff000u, lane + 200, 2);
  __syncwarp();
}
extern "C" __global__ void wide(int* x) {
  double d = __shfl_xor_sync(0xffffffffu, 0.5 + threadIdx.x, 1);
  x[threadIdx.x] = int(d * 2);
}
)");
  ASSERT_NE(object, nullptr);
  for (const Options& o : kOrders) {
    Done r = run(*object, "lanes", std::vector<int>(64 * 8), {1, 64}, o);
    EXPECT_TRUE(r.report.clean()) << r.report.str();
    for (int t = 0; t < 64; ++t) {
      int lane = t % 32;
      const int* out = &r.values[t * 8];
      ASSERT_EQ(out[0], 21);
      ASSERT_EQ(out[1], lane ^ 5);
      ASSERT_EQ(out[2], lane < 28 ? lane + 4 : lane);
      ASSERT_EQ(out[3], lane < 4 ? lane : lane - 4);
      ASSERT_EQ(out[4], lane / 8 * 8 + 1);
      ASSERT_EQ(out[5], 0x49249249);
      ASSERT_EQ(out[6], 2);
      ASSERT_EQ(out[7], lane < 12 ? (lane ^ 1) + 100 : (lane ^ 2) + 200);
    }
    Done w = run(*object, "wide", std::vector<int>(32), {1, 32}, o);
    for (int t = 0; t < 32; ++t) ASSERT_EQ(w.values[t], (t ^ 1) * 2 + 1);
  }
}

TEST(Emulator, OrdersInterleaveDifferently) {
  auto object = compile(R"(
extern "C" __global__ void order(int* x) {
  __syncthreads();
  x[1 + atomicAdd(x, 1)] = blockIdx.x * 40 + threadIdx.x;
}
)");
  ASSERT_NE(object, nullptr);
  std::vector<std::vector<int>> seen;
  for (const Options& o :
       {Options{Order::kForward}, Options{Order::kReverse}, Options{Order::kRandom, 1}, Options{Order::kRandom, 2}}) {
    Done r = run(*object, "order", std::vector<int>(121), {3, 40}, o);
    EXPECT_TRUE(r.report.clean()) << r.report.str();
    EXPECT_EQ(r.values[0], 120);
    for (const auto& other : seen) EXPECT_NE(r.values, other);
    seen.push_back(r.values);
    EXPECT_EQ(run(*object, "order", std::vector<int>(121), {3, 40}, o).values, r.values) << "a seed repeats itself";
    std::sort(r.values.begin() + 1, r.values.end());
    for (int i = 0; i < 120; ++i) ASSERT_EQ(r.values[i + 1], i);
  }
}

TEST(Emulator, CopiesHappenEarlyOrLate) {
  auto object = compile(std::string(codegen::cuda_prelude()) + R"(
extern "C" __global__ void copies(int* x) {
  NB_SHARED(int, room);
  int* own = room + threadIdx.x * 4;
  own[0] = -1;
  nb_cp_async_16(own, x + threadIdx.x * 4);
  nb_cp_commit();
  const int before = own[0];
  nb_cp_wait<0>();
  x[threadIdx.x * 4 + 1] = before;
  x[threadIdx.x * 4 + 2] = own[0] + own[3];
}
)");
  ASSERT_NE(object, nullptr);
  for (bool late : {false, true}) {
    std::vector<int> x(32);
    std::iota(x.begin(), x.end(), 0);
    Done r = run(*object, "copies", x, {1, 8, 128}, {Order::kForward, 1, late});
    EXPECT_TRUE(r.report.clean()) << r.report.str();
    for (int t = 0; t < 8; ++t) {
      EXPECT_EQ(r.values[t * 4 + 1], late ? -1 : t * 4);
      EXPECT_EQ(r.values[t * 4 + 2], t * 8 + 3);
    }
  }
}

// A[16, k] of rows, B[8, k] of columns, D[16, 8]: small integers, so that every sum is exact.
constexpr const char* kProducts = R"(
template <class T> NB_FN void product(const unsigned short* a, const unsigned short* b, float* d, T tag) {
  NB_SHARED(unsigned short, room);
  const int lane = threadIdx.x;
  for (int i = lane; i < 256; i += 32) room[i] = a[i];
  __syncwarp();
  unsigned x[4], y[2];
  nb_ldmatrix_x4(x, room + (lane % 16) * 16 + lane / 16 * 8);
  for (int r = 0; r < 2; ++r) y[r] = *(const unsigned*)(b + lane / 4 * 16 + lane % 4 * 2 + r * 8);
  float sum[4] = {1, 1, 1, 1};
  nb_mma_16816(sum, x, y, tag);
  for (int r = 0; r < 4; ++r) d[(lane / 4 + r / 2 * 8) * 8 + lane % 4 * 2 + r % 2] = sum[r];
}
extern "C" __global__ void bf16(const unsigned short* a, const unsigned short* b, float* d) { product(a, b, d, nb_bf16()); }
extern "C" __global__ void f16(const unsigned short* a, const unsigned short* b, float* d) { product(a, b, d, nb_f16()); }
extern "C" __global__ void tf32(const unsigned* a, const unsigned* b, float* d) {
  const int lane = threadIdx.x, row = lane / 4, in = lane % 4;
  unsigned x[4] = {a[row * 8 + in], a[(row + 8) * 8 + in], a[row * 8 + in + 4], a[(row + 8) * 8 + in + 4]};
  unsigned y[2] = {b[row * 8 + in], b[row * 8 + in + 4]};
  float sum[4] = {1, 1, 1, 1};
  nb_mma_1688_tf32(sum, x, y);
  for (int r = 0; r < 4; ++r) d[(row + r / 2 * 8) * 8 + in * 2 + r % 2] = sum[r];
}
)";

void expect_product(const Object& object, const std::string& symbol, DType dtype, int k, bool checked) {
  SCOPED_TRACE(symbol + (checked ? ", checked" : ""));
  std::mt19937 rng(3);
  Literal a(dtype, {16, k}), b(dtype, {8, k}), d(DType::kF32, {16, 8});
  for (Literal* x : {&a, &b})
    for (int64_t i = 0; i < x->size(); ++i) x->set(i, static_cast<int>(rng() % 31) - 15);
  Machine machine(checked);
  void *pa = machine.allocate(a.size_bytes(), "a"), *pb = machine.allocate(b.size_bytes(), "b");
  void* pd = machine.allocate(d.size_bytes(), "d");
  machine.write(pa, a.data(), a.size_bytes());
  machine.write(pb, b.data(), b.size_bytes());
  Report report = machine.launch(object, symbol, {1, 32, 512}, {&pa, &pb, &pd}, {});
  if (checked) machine.expect_written(pd, report);
  EXPECT_TRUE(report.clean()) << report.str();
  std::memcpy(d.mutable_data(), pd, d.size_bytes());
  for (int i = 0; i < 16; ++i)
    for (int j = 0; j < 8; ++j) {
      double want = 1;
      for (int x = 0; x < k; ++x) want += a.get(i * k + x) * b.get(j * k + x);
      ASSERT_EQ(d.get(i * 8 + j), want) << i << "," << j;
    }
}

TEST(Emulator, TensorCoresMultiplyFragments) {
  for (bool checked : {false, true}) {
    auto object = Object::compile(std::string(codegen::cuda_prelude()) + kProducts, checked);
    ASSERT_TRUE(object.ok()) << to_string(object.errors());
    expect_product(**object, "bf16", DType::kBF16, 16, checked);
    expect_product(**object, "f16", DType::kF16, 16, checked);
    expect_product(**object, "tf32", DType::kF32, 8, checked);
  }
}

TEST(Emulator, SharedMemoryIsNanBeforeEveryBlock) {
  auto object = compile(R"(
extern "C" __global__ void fresh(int* x) {
  __shared__ int room[40];
  NB_SHARED(int, dynamic);
  x[(blockIdx.x * 40 + threadIdx.x) * 2] = room[threadIdx.x];
  x[(blockIdx.x * 40 + threadIdx.x) * 2 + 1] = dynamic[threadIdx.x];
  room[threadIdx.x] = dynamic[threadIdx.x] = 3;
}
)");
  ASSERT_NE(object, nullptr);
  Done r = run(*object, "fresh", std::vector<int>(160), {2, 40, 160});
  for (int v : r.values) ASSERT_EQ(v, -1);
}

TEST(Emulator, MisusedBarriersAreReported) {
  auto object = compile(R"(
extern "C" __global__ void half(int* x) {
  if (threadIdx.x < 32) __syncthreads();
  x[threadIdx.x] = 1;
}
extern "C" __global__ void two(int* x) {
  if (threadIdx.x % 2) {
    x[threadIdx.x] = 1;
    __syncthreads();
  } else {
    __syncthreads();
    x[threadIdx.x] = 2;
  }
}
extern "C" __global__ void mixed(int* x) {
  if (threadIdx.x < 16) __syncwarp();
  else __syncthreads();
  x[threadIdx.x] = 1;
}
extern "C" __global__ void absent(int* x) {
  if (threadIdx.x >= 16) return;
  x[threadIdx.x] = __shfl_sync(0xffffffffu, 5, 20);
}
extern "C" __global__ void stranger(int* x) { x[threadIdx.x] = __shfl_sync(0x0000ffffu, 5, 2); }
)");
  ASSERT_NE(object, nullptr);
  auto text = [&](const char* symbol) { return run(*object, symbol, std::vector<int>(64), {1, 64}).report.str(); };
  EXPECT_EQ(text("half"),
            "barrier: 32 of 64 threads pass __syncthreads and the others have ended (block 0, thread 63, line 3: `if "
            "(threadIdx.x < 32) __syncthreads();`)\n");
  EXPECT_EQ(text("two"),
            "barrier: divergent: this thread waits here, and thread 0 at line 11 (block 0, thread 1, line 9: "
            "`__syncthreads();`)\n");
  EXPECT_EQ(run(*object, "mixed", std::vector<int>(32), {1, 32}).report.str(),
            "deadlock: 32 of 32 threads wait for ever: 16 in __syncthreads at line 17 (thread 16 first); 16 in "
            "__syncwarp at line 16 (thread 0 first) (block 0, thread 16, line 17: `else __syncthreads();`)\n");
  EXPECT_EQ(run(*object, "absent", std::vector<int>(32), {1, 32}).report.str(),
            "warp: __shfl_sync reads lane 20, which does not take part (mask 0x0000ffff) (block 0, thread 0, line 22: "
            "`x[threadIdx.x] = __shfl_sync(0xffffffffu, 5, 20);`)\n");
  EXPECT_TRUE(reports(run(*object, "stranger", std::vector<int>(32), {1, 32}).report,
                      "warp: __shfl_sync with mask 0x0000ffff is called by lane 16, which is not in it"));
}

TEST(Emulator, LaunchesSayWhatTheyLack) {
  auto object = compile("extern \"C\" __global__ void f(int* x, const long* n) { x[n[0]] = 3; }\n");
  ASSERT_NE(object, nullptr);
  EXPECT_TRUE(reports(run(*object, "g", {1}, {}).report, "there is no kernel `g`"));
  EXPECT_TRUE(reports(run(*object, "f", {1}, {}).report, "`f` takes 2 arguments, not 1"));
  Machine machine(false);
  long n = 4;
  void *x = machine.allocate(16, "x"), *extents = machine.allocate(8, "extents");
  machine.write(extents, &n, sizeof(n));
  EXPECT_TRUE(reports(machine.launch(*object, "f", {1, 2000}, {&x, &extents}, {}), "1 blocks of 2000 threads"));
  EXPECT_TRUE(reports(machine.launch(*object, "f", {1, 1, 232449}, {&x, &extents}, {}), "no GPU has more than 232448"));
  EXPECT_TRUE(reports(machine.launch(*object, "f", {1, 1}, {&x, &extents}, {}), "bounds: a write next to `x`"));
  auto bad = Object::compile("extern \"C\" __global__ void f(int* x) { x = y; }\n", false);
  ASSERT_FALSE(bad.ok());
  EXPECT_NE(to_string(bad.errors()).find("kernels.cu:1:"), std::string::npos) << to_string(bad.errors());
}

}  // namespace
}  // namespace nabla::emulator
