// What NVIDIA's libraries have in common: how they are opened, and calls whose algorithm is chosen before they run.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "runtime/base/diagnostic.h"
#include "runtime/device/library_call.h"

namespace nabla::device {

/// Bytes that one version of one library understands.
using LibraryAlgorithm = std::array<uint64_t, 8>;

/// A problem in a stream. An algorithm must be chosen before it runs; runs may be captured into a graph.
class GpuLibraryCall : public LibraryCall {
 public:
  /// What the library expects to be fast, best first: at least one, at most `most`. E0602 when there is none.
  virtual Result<std::vector<LibraryAlgorithm>> candidates(int most) const = 0;
  /// Does the algorithm compute this problem here, in the workspace that there is?
  virtual bool accepts(const LibraryAlgorithm& algorithm) const = 0;
  /// Runs take this algorithm from now on.
  virtual void use(const LibraryAlgorithm& algorithm) = 0;
  /// What an algorithm is chosen for. It begins with the key of tuning files.
  virtual std::string key() const = 0;
  /// How much of each operand of `run` the call touches, in bytes.
  virtual std::vector<int64_t> operand_bytes() const = 0;
  /// E0607 for the library's run that failed last.
  virtual Diagnostic failure() const = 0;
};

struct LibraryVersion {
  int major, minor, patch;
  std::string str() const { return fmt::format("{}.{}.{}", major, minor, patch); }
};

/// E0602: "cuBLASLt cannot be used: WHY".
Diagnostic unusable(const char* library, const std::string& why);
/// Opens the file that the environment `variable` names, without it the first of `files` that is there, by the loader's
/// rules or among Python's packages (runtime/base/wheels.h). It stays open: such libraries keep threads and memory of
/// their own. E0602 with what is wrong with the first.
Result<void*> open_gpu_library(const char* library, const char* variable, const std::vector<std::string>& files);
/// E0602 for a version before `least` ("12.0").
Status require_version(const char* library, const LibraryVersion& version, const std::string& least);

}  // namespace nabla::device
