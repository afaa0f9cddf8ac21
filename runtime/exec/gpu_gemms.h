// The matrix products that a GPU program leaves to cuBLASLt: the library is opened when the first is bound, and for
// every problem an algorithm is chosen, by a record or by measuring.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/base/gemm_record.h"
#include "runtime/device/cublaslt.h"
#include "runtime/device/cuda_driver.h"
#include "runtime/format/bundle_reader.h"
#include "runtime/format/program_generated.h"

namespace nabla::exec {

class GpuGemms {
 public:
  /// The GPU's context is current in all calls; everything outlives the object.
  GpuGemms(const format::Bundle& bundle, const format::Program& program, const device::CudaDevice& device,
           device::CudaStream stream)
      : bundle_(bundle), program_(program), device_(device), stream_(stream) {}

  /// Equal specs share a call, which belongs to this object. Null where the library cannot compute it and there is an
  /// `alternative`; stderr gets the reason, each once. E0602 without an alternative; E0607, E0804 while measuring.
  Result<device::LibraryCall*> call(const device::GemmSpec& spec, bool alternative);
  /// Nothing is measured after this; what was measured before is kept in the file. Says on stderr when it cannot be.
  void loaded();
  /// E0607 for the call that failed last.
  Diagnostic failure() const { return library_->failure(); }

  static constexpr int kCandidates = 8;  ///< that are measured for a problem

 private:
  Result<device::CublasLt*> library();
  Result<std::unique_ptr<device::CublasLtGemm>> make(const device::GemmSpec& spec);
  std::optional<device::GemmAlgorithm> recorded(const GemmRecord& wanted) const;
  /// The fastest of the candidates; the first of them where there is no memory to measure with.
  Result<device::GemmAlgorithm> fastest(const device::GemmSpec& spec, device::CublasLtGemm& gemm,
                                        const std::vector<device::GemmAlgorithm>& candidates);
  void note(const std::string& text);

  const format::Bundle& bundle_;
  const format::Program& program_;
  const device::CudaDevice& device_;
  device::CudaStream stream_;
  std::unique_ptr<device::CublasLt> library_;
  std::optional<Diagnostic> no_library_;
  std::map<device::GemmSpec, std::unique_ptr<device::CublasLtGemm>> calls_;
  std::vector<GemmRecord> records_;   ///< those of the bundle first, then those of the file
  std::vector<GemmRecord> measured_;  ///< that the file lacks
  std::vector<std::string> noted_;
  bool loading_ = true;
};

}  // namespace nabla::exec
