// The toy bundle (test_bundle.h) for a GPU, on the fake driver.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>

#include "runtime/exec/session.h"
#include "runtime/format/program_generated.h"

namespace nabla::exec {

/// While it lives, programs on GPUs find the fake driver, and one more variable is set, such as NABLA_FAKE_CUDA_FAIL to
/// "cuMemAlloc:1".
class FakeGpu {
 public:
  explicit FakeGpu(const std::string& variable = "", const std::string& value = "");
  ~FakeGpu();

  /// How often a call of the driver was made, or a kernel ("kernel NAME") ran.
  int count(const std::string& name) const;
  /// Allocations on the GPU that are still there.
  int live() const;
  /// Bytes of pinned memory of the host that are.
  int64_t pinned() const;

 private:
  std::map<std::string, std::string> environment_;
  void* library_ = nullptr;
};

/// As much of a cubin as the fake driver looks at; its kernels are those of test_gpu_kernels.cc.
std::string toy_cubin();

using ProgramChange = std::function<void(format::ProgramT&)>;

/// The toy program for sm_90a, without constants.
std::unique_ptr<format::ProgramT> toy_gpu_program(const ProgramChange& change = nullptr);
/// Adds a kernel with a grid per symbol, and gives its number.
uint32_t add_kernel(format::ProgramT& program, const std::vector<std::string>& symbols, int64_t blocks,
                    uint32_t threads);
/// A bundle with a GPU program and, after it, the toy program for CPUs when `with_cpu`.
std::string toy_gpu_bundle(const format::ProgramT& program, bool with_cpu = false);
Result<std::unique_ptr<Session>> open_bytes(const std::string& bytes, const SessionOptions& options);
Result<std::unique_ptr<Session>> open_gpu(const ProgramChange& change = nullptr, const SessionOptions& options = {});

std::unique_ptr<format::AddressT> at(format::BaseKind base, uint16_t index, uint64_t offset, uint64_t bytes,
                                     std::vector<format::RegisterTerm> terms = {});
std::unique_ptr<format::TensorT> tensor(const char* name, std::vector<int64_t> shape,
                                        format::DType dtype = format::DType::F32);
format::EntryT& add_entry(format::ProgramT& program, const char* name);

template <class ActionT>
std::unique_ptr<format::InstructionT> instruction(const char* label, ActionT action) {
  auto out = std::make_unique<format::InstructionT>();
  out->label = label;
  out->location = 1;
  out->action.Set(std::move(action));
  return out;
}
template <class... Address>
format::LaunchT launch(uint32_t kernel, int64_t units, Address... args) {
  format::LaunchT out;
  out.kernel = kernel;
  out.units = units;
  (out.args.push_back(std::move(args)), ...);
  return out;
}
std::unique_ptr<format::InstructionT> copy(std::unique_ptr<format::AddressT> from,
                                           std::unique_ptr<format::AddressT> to);
uint32_t add_block(format::ProgramT& program, std::vector<std::unique_ptr<format::InstructionT>> list);

}  // namespace nabla::exec
