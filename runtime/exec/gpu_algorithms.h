// Which algorithms a GPU's libraries take: those of records, or what measures fastest when a bundle is loaded.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "runtime/base/gemm_record.h"
#include "runtime/device/cuda_driver.h"
#include "runtime/device/gpu_library.h"
#include "runtime/exec/gpu_autotune.h"
#include "runtime/format/program_generated.h"

namespace nabla::exec {

class GpuAlgorithms {
 public:
  /// The GPU's context is current in all calls; everything outlives the object.
  GpuAlgorithms(const format::Program& program, const device::CudaDevice& device, device::CudaStream stream)
      : program_(program), device_(device), tuner_(device, stream) {}

  /// Lets the call of a `version` of a `library` ("cuBLASLt") use an algorithm. E0602 when there is none. Where it
  /// cannot measure it takes what the library proposes first.
  Status choose(device::GpuLibraryCall& call, const char* library, const std::string& version);
  /// Nothing is measured after this; what was measured before is kept in the file. Says on stderr when it cannot be.
  void loaded();
  /// Says something on stderr, each once.
  void note(const std::string& text);

  static constexpr int kCandidates = 8;  ///< that are measured for a problem

 private:
  void read_records();
  std::optional<device::LibraryAlgorithm> recorded(const GemmRecord& wanted) const;

  const format::Program& program_;
  const device::CudaDevice& device_;
  Autotuner tuner_;
  std::vector<GemmRecord> records_;   ///< those of the bundle first, then those of the file
  std::vector<GemmRecord> measured_;  ///< that the file lacks
  std::vector<std::string> noted_;
  bool loading_ = true, read_ = false;
};

}  // namespace nabla::exec
