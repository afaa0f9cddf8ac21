// A library beside NVIDIA's: its class, its name among those of a program, and its place in the list of libraries are
// all that the runtime wants of it.
#include "runtime/exec/toy_library.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

#include "runtime/device/cublaslt.h"
#include "runtime/exec/gpu_calls.h"
#include "runtime/exec/test_gpu.h"

namespace nabla::exec {
namespace {

class ToyLibraryTest : public testing::Test {
 protected:
  void SetUp() override {
    cache_ =
        fmt::format("{}/{}", std::getenv("TEST_TMPDIR"), testing::UnitTest::GetInstance()->current_test_info()->name());
    setenv("NABLA_CACHE", cache_.c_str(), 1);
    gpu_.emplace();
    device_ = device::CudaDevice::open().value();
    ASSERT_EQ(device_.driver->context_retain(&context_, device_.device), 0);
    ASSERT_EQ(device_.driver->context_set(context_), 0);
    ASSERT_EQ(device_.driver->stream_create(&stream_, 0), 0);
  }
  void TearDown() override {
    libraries_.reset(), algorithms_.reset();
    EXPECT_EQ(device_.driver->stream_destroy(stream_), 0);
    EXPECT_EQ(device_.driver->context_release(device_.device), 0);
  }

  void load(const std::string& soname = "libtoy.so.1", const std::string& version = "1.0") {
    auto program = toy_gpu_program();
    program->libraries.push_back(std::make_unique<format::LibraryT>());
    program->libraries[0]->name = "toy", program->libraries[0]->soname = soname;
    program->libraries[0]->min_version = version;
    std::string bytes = toy_gpu_bundle(*program);
    bundle_.emplace(format::Bundle::from_bytes(format::FileBytes::copy_of(format::as_bytes(bytes)), "toy").value());
    const format::Program& packed = *bundle_->classes()[0].programs[0];
    algorithms_.emplace(packed, device_, stream_);
    libraries_.emplace(*bundle_, packed, stream_, *algorithms_);
  }
  static device::GemmSpec spec(int64_t m, const char* implementation = "toy") {
    return {{.m = m, .n = 5, .k = 4, .lda = 4, .ldb = 5, .ldc = 5}, implementation};
  }
  std::string refusal(const device::GemmSpec& s, bool fallback = false) {
    auto made = libraries_->call(s, fallback);
    return made.ok() ? *made == nullptr ? "the fallback" : "a call" : made.errors()[0].str();
  }

  std::optional<FakeGpu> gpu_;
  std::string cache_;
  device::CudaDevice device_;
  device::CudaContext context_ = nullptr;
  device::CudaStream stream_ = nullptr;
  std::optional<format::Bundle> bundle_;
  std::optional<GpuAlgorithms> algorithms_;
  std::optional<GpuLibraries<device::CublasLt, ToyLibrary>> libraries_;
};

TEST_F(ToyLibraryTest, ComputesAndIsMeasured) {
  load();
  auto call = libraries_->call(spec(3), false);
  ASSERT_TRUE(call.ok()) << to_string(call.errors());
  EXPECT_EQ(libraries_->call(spec(3), true).value(), *call);  // equal specs share a call
  std::vector<float> a(12), b(20), c(15);
  for (size_t i = 0; i < a.size(); ++i) a[i] = static_cast<float>(i);
  for (size_t i = 0; i < b.size(); ++i) b[i] = static_cast<float>(i % 3) - 1;
  std::vector<void*> operands;
  for (std::vector<float>* x : {&a, &b, &c}) {
    device::CudaAddress at = 0;
    ASSERT_EQ(device_.driver->memory_alloc(&at, x->size() * 4), 0);
    ASSERT_EQ(device_.driver->copy_in(at, x->data(), x->size() * 4, stream_), 0);
    operands.push_back(reinterpret_cast<void*>(at));
  }
  ASSERT_TRUE((*call)->run(operands.data()));
  auto address = [&](int i) { return reinterpret_cast<device::CudaAddress>(operands[i]); };
  ASSERT_EQ(device_.driver->copy_out(c.data(), address(2), c.size() * 4, stream_), 0);
  ASSERT_EQ(device_.driver->stream_synchronize(stream_), 0);
  for (int i = 0; i < 3; ++i)
    for (int j = 0; j < 5; ++j) {
      float want = 0;
      for (int k = 0; k < 4; ++k) want += a[i * 4 + k] * b[k * 5 + j];
      EXPECT_EQ(c[i * 5 + j], want) << i << " " << j;
    }
  for (int i = 0; i < 3; ++i) EXPECT_EQ(device_.driver->memory_free(address(i)), 0);
  // What was measured is kept, and taken by the next process.
  algorithms_->loaded();
  ASSERT_TRUE(std::filesystem::exists(cache_ + "/gemm.records"));
  uint64_t algorithm = static_cast<ToyGemm*>(*call)->algorithm();
  load();
  EXPECT_EQ(static_cast<ToyGemm*>(libraries_->call(spec(3), false).value())->algorithm(), algorithm);
}

TEST_F(ToyLibraryTest, WhereItCannotTheFallbackRuns) {
  load();
  EXPECT_EQ(refusal(spec(65), true), "the fallback");
  EXPECT_TRUE(refusal(spec(65)).starts_with("error[E0602]: the toy library cannot be used: gemm f32 1x65x5x4 nn"));
  EXPECT_EQ(refusal(spec(64)), "a call");
  load("libother.so");
  EXPECT_EQ(refusal(spec(3), true), "the fallback");
  load("libtoy.so.1", "1.3");
  EXPECT_TRUE(
      refusal(spec(3)).starts_with("error[E0602]: the toy library cannot be used: it is version 1.2.0; needed is 1.3"));
}

TEST_F(ToyLibraryTest, CallsOfOtherLibrariesAreNotItsOwn) {
  load();
  EXPECT_TRUE(
      refusal(spec(3, "cublaslt")).starts_with("error[E0104]: toy: the program calls cuBLASLt, but does not name it"));
  EXPECT_TRUE(refusal(spec(3, "unheard")).starts_with("error[E0104]")) << refusal(spec(3, "unheard"));
}

}  // namespace
}  // namespace nabla::exec
