// Tests of what the runtime calls on a GPU, on the fake driver and the fakes of NVIDIA's libraries.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "runtime/base/literal.h"
#include "runtime/device/cuda_driver.h"

namespace nabla::device {

inline std::string runfile(const std::string& path) {
  return fmt::format("{}/{}/{}", std::getenv("TEST_SRCDIR"), std::getenv("TEST_WORKSPACE"), path);
}

/// One GPU with a context and a stream.
class DeviceTest : public testing::Test {
 protected:
  void SetUp() override {
    setenv("NABLA_CUDA_DRIVER", runfile("tests/cuda/fake_driver/libfake_cuda.so").c_str(), 1);
    setenv("NABLA_CUBLASLT", runfile("tests/cuda/fake_cublaslt/libfake_cublaslt.so").c_str(), 1);
    setenv("NABLA_CUDNN", runfile("tests/cuda/fake_cudnn/libfake_cudnn.so").c_str(), 1);
    device_ = CudaDevice::open().value();
    ok(cuda().context_retain(&context_, device_.device));
    ok(cuda().context_set(context_));
    ok(cuda().stream_create(&stream_, 0));
  }
  void TearDown() override {
    for (const char* library : {"CUBLASLT", "CUDNN"})
      for (const char* what : {"FAIL", "VERSION"}) unsetenv(fmt::format("NABLA_FAKE_{}_{}", library, what).c_str());
    ok(cuda().stream_destroy(stream_));
    ok(cuda().context_release(device_.device));
  }
  const CudaDriver& cuda() const { return *device_.driver; }
  void ok(int status) const { ASSERT_EQ(status, kCudaOk) << cuda().text(status); }

  CudaAddress upload(const Literal& value) {
    CudaAddress at = 0;
    ok(cuda().memory_alloc(&at, static_cast<size_t>(value.size_bytes())));
    ok(cuda().copy_in(at, value.data(), static_cast<size_t>(value.size_bytes()), stream_));
    return at;
  }
  /// Waits for the stream.
  void download(Literal& to, CudaAddress from) {
    ok(cuda().copy_out(to.mutable_data(), from, static_cast<size_t>(to.size_bytes()), stream_));
    ok(cuda().stream_synchronize(stream_));
  }

  CudaDevice device_;
  CudaContext context_ = nullptr;
  CudaStream stream_ = nullptr;
};

inline Literal noise(DType dtype, int64_t size, uint32_t seed) {
  Literal out(dtype, {size});
  uint32_t x = seed * 2654435761u + 1;
  for (int64_t i = 0; i < size; ++i) x = x * 1664525u + 1013904223u, out.set(i, (x >> 20) / 2048.0 - 1.0);
  return out;
}

}  // namespace nabla::device
