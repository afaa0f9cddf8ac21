// A library that only tests know: products of small f32 matrices, which it computes on this machine. It stands for what
// a library of NVIDIA's is to the runtime (GpuLibraries).
#pragma once

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "runtime/device/cuda_driver.h"
#include "runtime/device/gpu_library.h"

namespace nabla::exec {

class ToyGemm final : public device::GpuLibraryCall {
 public:
  ToyGemm(std::shared_ptr<const device::CudaDriver> driver, device::CudaStream stream, device::GemmSpec spec)
      : driver_(std::move(driver)), stream_(stream), spec_(std::move(spec)) {}

  Result<std::vector<device::LibraryAlgorithm>> candidates(int most) const override {
    std::vector<device::LibraryAlgorithm> out = {{1}, {2}};
    out.resize(static_cast<size_t>(std::min(most, 2)));
    return out;
  }
  bool accepts(const device::LibraryAlgorithm& algorithm) const override { return algorithm[0] <= 2; }
  void use(const device::LibraryAlgorithm& algorithm) override { algorithm_ = algorithm; }
  std::string key() const override { return spec_.key() + " toy"; }
  std::vector<int64_t> operand_bytes() const override {
    return {4 * spec_.m * spec_.lda, 4 * spec_.k * spec_.ldb, 4 * spec_.m * spec_.ldc};
  }
  Diagnostic failure() const override { return error(Code::kGpuFailed, "calling the toy library"); }

  bool run(void* const* operands) override {
    std::vector<int64_t> bytes = operand_bytes();
    std::vector<float> x[3];
    for (int i = 0; i < 3; ++i) x[i].resize(static_cast<size_t>(bytes[i]) / 4);
    auto at = [&](int i) { return reinterpret_cast<device::CudaAddress>(operands[i]); };
    for (int i = 0; i < 2; ++i)
      if (driver_->copy_out(x[i].data(), at(i), static_cast<size_t>(bytes[i]), stream_) != 0) return false;
    if (driver_->stream_synchronize(stream_) != 0) return false;
    for (int64_t i = 0; i < spec_.m; ++i)
      for (int64_t j = 0; j < spec_.n; ++j)
        for (int64_t k = 0; k < spec_.k; ++k)
          x[2][i * spec_.ldc + j] += x[0][i * spec_.lda + k] * x[1][k * spec_.ldb + j];
    return driver_->copy_in(at(2), x[2].data(), static_cast<size_t>(bytes[2]), stream_) == 0 &&
           driver_->stream_synchronize(stream_) == 0;
  }

  uint64_t algorithm() const { return algorithm_[0]; }

 private:
  std::shared_ptr<const device::CudaDriver> driver_;
  device::CudaStream stream_;
  device::GemmSpec spec_;
  device::LibraryAlgorithm algorithm_ = {};
};

class ToyLibrary {
 public:
  using Spec = device::GemmSpec;
  static constexpr const char *kName = "toy", *kTitle = "the toy library", *kProblems = "small products";

  static Result<std::unique_ptr<ToyLibrary>> open(const std::string& soname, const std::string& min_version,
                                                  device::CudaStream stream) {
    if (soname != "libtoy.so.1") return device::unusable(kTitle, soname + " is not there");
    (void)NABLA_TRY(device::require_version(kTitle, {1, 2, 0}, min_version));
    std::unique_ptr<ToyLibrary> out(new ToyLibrary());
    out->driver_ = NABLA_TRY(device::CudaDriver::open()), out->stream_ = stream;
    return out;
  }
  Result<std::unique_ptr<ToyGemm>> call(const Spec& spec) {
    if (spec.m > 64) return device::unusable(kTitle, spec.key() + " is too large for it");
    return std::make_unique<ToyGemm>(driver_, stream_, spec);
  }
  std::string version() const { return "1.2.0"; }

 private:
  std::shared_ptr<const device::CudaDriver> driver_;
  device::CudaStream stream_ = nullptr;
};

}  // namespace nabla::exec
