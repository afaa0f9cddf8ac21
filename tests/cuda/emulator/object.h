// CUDA text to code of this machine: a shared object in this process, and where its addresses come from.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "runtime/base/diagnostic.h"
#include "tests/cuda/emulator/abi.h"

namespace nabla::emulator {

/// How floats are rounded. Results of both are right; tolerances must hold for both.
enum class Rounding {
  kExact,  ///< every operation by itself; sums of tensor cores once, when they are complete
  /// Products and sums as one operation wherever the compiler may, as NVRTC does, and sums of tensor cores as these were
  /// measured to make them (tensor_core_sum in words.h).
  kGpu
};

/// The bytes of the shared object. `checked`: every access is reported to a checker. Kept in the compilers' cache on
/// disk. E0501: no compiler; E0502: it refused the text, with its first messages (lines are those of `cuda_text`).
Result<std::string> compile_object(const std::string& cuda_text, bool checked, Rounding rounding = Rounding::kExact);

class Object {
 public:
  /// Loads the bytes of compile_object. E0502 when they are none. `cuda_text` is for messages and may be empty.
  static Result<std::shared_ptr<Object>> load(const std::string& bytes, const std::string& cuda_text);
  static Result<std::shared_ptr<Object>> compile(const std::string& cuda_text, bool checked,
                                                 Rounding rounding = Rounding::kExact);
  ~Object();
  Object(const Object&) = delete;

  const NbEmuObject& table() const { return *table_; }
  const NbEmuKernel* find(const std::string& symbol) const;  ///< null: none
  /// Line of the kernel's source that the call before `pc` stands in, by addr2line; 0: unknown.
  int line(const void* pc) const;
  /// All lines of inlined calls, innermost first: "line 12 in line 30".
  std::string lines(const void* pc) const;
  std::string source_line(int line) const;

 private:
  Object() = default;
  const std::vector<int>& frames(const void* pc) const;

  int fd_ = -1;
  void* handle_ = nullptr;
  const NbEmuObject* table_ = nullptr;
  std::vector<std::string> text_;
  mutable std::map<const void*, std::vector<int>> frames_;
};

}  // namespace nabla::emulator
