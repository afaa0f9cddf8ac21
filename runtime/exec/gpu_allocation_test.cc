// A replayed step takes memory neither from the host's heap nor from the device.
#include <dlfcn.h>
#include <execinfo.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <new>

#include "runtime/exec/test_gpu.h"

namespace {

std::atomic<bool> counting{false};
std::atomic<int64_t> allocations{0};

// The fake driver keeps its work in lists; a real one is not ours to judge.
bool inside_the_driver() {
  void* frames[48];
  int count = ::backtrace(frames, 48);
  for (int i = 0; i < count; ++i) {
    Dl_info where{};
    if (::dladdr(frames[i], &where) != 0 && std::strstr(where.dli_fname, "libfake_cuda") != nullptr) return true;
  }
  return false;
}

void* take(size_t bytes) {
  if (counting.exchange(false)) {
    if (!inside_the_driver()) ++allocations;
    counting = true;
  }
  return std::malloc(bytes);
}

}  // namespace

void* operator new(size_t bytes) { return take(bytes); }
void* operator new[](size_t bytes) { return take(bytes); }
void* operator new(size_t bytes, const std::nothrow_t&) noexcept { return take(bytes); }
void operator delete(void* p) noexcept { std::free(p); }
void operator delete[](void* p) noexcept { std::free(p); }
void operator delete(void* p, size_t) noexcept { std::free(p); }
void operator delete[](void* p, size_t) noexcept { std::free(p); }

namespace nabla::exec {
namespace {

int64_t allocations_of(const std::function<void()>& work) {
  allocations = 0;
  counting = true;
  work();
  counting = false;
  return allocations;
}

TEST(GpuStep, AReplayedOneTakesNoMemory) {
  FakeGpu gpu;
  auto session = open_gpu().value();
  (void)inside_the_driver();  // backtrace loads its library once
  Literal x(DType::kF32, {2, 4}), seed = Literal::scalar_int(DType::kU32, 5);
  ASSERT_TRUE(session->call(0, {seed}).ok());
  float loss = 0;
  const void* inputs[] = {x.data()};
  void* outputs[] = {&loss};
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(session->run(1, inputs, outputs).ok());
  ASSERT_GT(gpu.count("cuGraphLaunch"), 0);
  const char* const device[] = {"cuMemAlloc", "cuMemHostAlloc", "cuGraphInstantiate", "cuStreamBeginCapture"};
  std::vector<int> before;
  for (const char* call : device) before.push_back(gpu.count(call));
  int replays = gpu.count("cuGraphLaunch");
  bool fine = true;
  EXPECT_EQ(allocations_of([&] {
              for (int i = 0; i < 100; ++i) fine &= session->run(1, inputs, outputs).ok();
            }),
            0);
  EXPECT_TRUE(fine);
  EXPECT_EQ(gpu.count("cuGraphLaunch") - replays, 100);
  for (size_t i = 0; i < before.size(); ++i) EXPECT_EQ(gpu.count(device[i]), before[i]) << device[i];
}

// The count counts.
TEST(GpuStep, TheFirstOneDoes) {
  FakeGpu gpu;
  auto session = open_gpu().value();
  Literal x(DType::kF32, {2, 4});
  float loss = 0;
  const void* inputs[] = {x.data()};
  void* outputs[] = {&loss};
  EXPECT_GT(allocations_of([&] { (void)session->run(1, inputs, outputs); }), 0);
}

}  // namespace
}  // namespace nabla::exec
