// Library calls of GPU programs, on the fake driver and a fake library: compiled with a CPU's program, which says what
// is right.
#pragma once

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <fstream>
#include <sstream>

#include "cli/driver/compile.h"
#include "runtime/exec/session.h"
#include "runtime/format/bundle_reader.h"
#include "tests/cuda/fake_gpu.h"

namespace nabla {

inline std::string runfile(const std::string& path) {
  return fmt::format("{}/{}/{}", std::getenv("TEST_SRCDIR"), std::getenv("TEST_WORKSPACE"), path);
}
inline std::string scratch(const std::string& name) { return fmt::format("{}/{}", std::getenv("TEST_TMPDIR"), name); }

inline std::string contents(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

inline Literal noise(DType dtype, std::vector<int64_t> shape, double seed) {
  Literal out(dtype, std::move(shape));
  for (int64_t i = 0; i < out.size(); ++i) out.set(i, std::sin(static_cast<double>(i * i % 977) * 1.7 + seed));
  return out;
}

class LibraryTest : public testing::Test {
 protected:
  /// "cublaslt" or "cudnn".
  explicit LibraryTest(std::string fake) : name_(std::move(fake)), variable_(name_) {
    for (char& c : variable_) c = static_cast<char>(std::toupper(c));
    variable_ = "NABLA_FAKE_" + variable_;
  }
  void SetUp() override {
    cache_ = scratch(testing::UnitTest::GetInstance()->current_test_info()->name());
    setenv("NABLA_FAKE_CUDA_CAPABILITY", "8.0", 1);
    setenv("NABLA_CACHE", scratch("cache").c_str(), 1);
    std::ofstream(scratch("all.tuning")) << "nabla-tuning 2\ntarget sm_80\ngemm = cublaslt\nconvolution = cudnn\n"
                                           "target sm_89\ngemm = cublaslt\n";
    std::string file = fmt::format("tests/cuda/fake_{}/libfake_{}.so", name_, name_);
    fake_ = ::dlopen(runfile(file).c_str(), RTLD_NOW | RTLD_LOCAL);
    call<void>("reset");
  }
  void TearDown() override {
    for (const char* what : {"_FAIL", "_FASTEST", "_VERSION"}) unsetenv((variable_ + what).c_str());
    EXPECT_EQ(call<int>("live"), 0);
  }
  template <class T, class... Args>
  T call(const char* what, Args... args) const {
    return reinterpret_cast<T (*)(Args...)>(::dlsym(fake_, fmt::format("nb_fake_{}_{}", name_, what).c_str()))(args...);
  }
  int count(const char* name) const { return call<int>("count", name); }
  /// How often a function of the driver was called.
  static int driver_calls(const char* name) {
    void* driver = ::dlopen(std::getenv("NABLA_CUDA_DRIVER"), RTLD_NOW | RTLD_LOCAL);
    return reinterpret_cast<int (*)(const char*)>(::dlsym(driver, "nb_fake_cuda_count"))(name);
  }

  void compile(const ir::Module& module, driver::CompileOptions options = {}) {
    if (options.target == "cpu") options.target = "sm_80,cpu";
    if (options.tuning_file.empty()) options.tuning_file = scratch("all.tuning");
    setenv("NABLA_CACHE", scratch("cache").c_str(), 1);
    auto compiled = driver::compile(module, options);
    ASSERT_TRUE(compiled.ok()) << to_string(compiled.errors());
    bundle_ = compiled->bytes, report_ = compiled->report;
    Status ready = emulator::use_fake_gpu(bundle_, runfile("tests/cuda/fake_driver/libfake_cuda.so"));
    ASSERT_TRUE(ready.ok()) << to_string(ready.errors());
    setenv("NABLA_CACHE", cache_.c_str(), 1);  // of the runtime's records
  }
  std::unique_ptr<exec::Session> open(const char* target, bool check_nan = false) {
    auto bundle = format::Bundle::from_bytes(format::FileBytes::copy_of(format::as_bytes(bundle_)), "test.nbundle");
    auto session = exec::Session::create(std::move(*bundle), {.threads = 1, .check_nan = check_nan, .target = target});
    NABLA_CHECK(session.ok(), "{}", to_string(session.errors()));
    return std::move(*session);
  }
  void wish(const char* what, const std::string& value) { setenv((variable_ + what).c_str(), value.c_str(), 1); }
  /// What a session says on stderr while it opens.
  std::string said(std::unique_ptr<exec::Session>* out = nullptr) {
    testing::internal::CaptureStderr();
    std::unique_ptr<exec::Session> session = open("sm_80");
    if (out != nullptr) *out = std::move(session);
    return testing::internal::GetCapturedStderr();
  }
  // Three times: issued, recorded, replayed.
  void expect_like_cpu(exec::Session& gpu, const std::vector<Literal>& inputs, double tolerance) {
    std::unique_ptr<exec::Session> cpu = open("cpu");
    auto want = cpu->call(cpu->need_entry("f").value(), inputs);
    ASSERT_TRUE(want.ok()) << to_string(want.errors());
    for (int run = 0; run < 3; ++run) {
      auto got = gpu.call(gpu.need_entry("f").value(), inputs);
      ASSERT_TRUE(got.ok()) << to_string(got.errors());
      for (size_t r = 0; r < want->size(); ++r)
        for (int64_t i = 0; i < (*want)[r].size(); ++i)
          ASSERT_NEAR((*got)[r].get(i), (*want)[r].get(i), tolerance * std::max(1.0, std::fabs((*want)[r].get(i))))
              << "result " << r << " at " << i << " in run " << run;
    }
  }

  std::string name_, variable_, bundle_, report_, cache_;
  void* fake_ = nullptr;
};

}  // namespace nabla
