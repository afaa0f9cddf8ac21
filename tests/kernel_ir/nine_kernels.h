// The kernels that settle kernel_ir (tests/golden/kernel_ir), and what tests of printers need around them.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "codegen/cuda/printer.h"
#include "ir/kernel_ir/kernel.h"
#include "ir/target.h"

namespace nabla::kernel_ir {

/// Their names, each a file NAME.nbk.
std::vector<std::string> nine_kernels();
/// Reads one; aborts when it does not parse.
Kernel read_kernel(const std::string& name);
/// A value per buffer; outputs hold NaN (or a number nobody computes), so that every element must be written.
std::vector<Literal> draw_buffers(const Kernel& kernel);
/// The kernel as schedule-kernels cuts it for a GPU; a procedure as below.
Result<Kernel> scheduled_for_gpu(Kernel kernel, const ir::Target& target);
/// The kernel's CUDA text, cut as schedule-kernels cuts it for the target. A procedure keeps the workspaces and the rows
/// of a unit that its text names. Errors as of passes::schedule_cuda.
Result<codegen::CudaKernel> print_for_gpu(Kernel kernel, const std::string& symbol, const ir::Target& target, bool at_packs = false);
/// The buffers after interpret().
std::vector<Literal> interpreted(const Kernel& kernel);
/// Test failures where `got` differs by more than f32 sums of a few hundred terms may.
void expect_near(const Kernel& kernel, const std::vector<Literal>& want, const std::vector<Literal>& got);

/// A shared object in this process.
class Library {
 public:
  /// `object` is the file's bytes. A test failure when it cannot be loaded.
  explicit Library(const std::string& object);
  ~Library();
  Library(const Library&) = delete;
  /// Null, and a test failure, when there is no such symbol.
  void* find(const std::string& symbol) const;

 private:
  int fd_ = -1;
  void* handle_ = nullptr;
};

/// Kernels compiled together by the host compiler, for this machine.
class CompiledKernels {
 public:
  CompiledKernels(const std::vector<Kernel>& kernels, const ir::Target& target);
  /// Runs all units of one of them, in order. `args` are the addresses of its buffers.
  void run(size_t kernel, const std::vector<void*>& args) const;

 private:
  using Function = void (*)(void* const*, const long*, long, long);
  std::vector<int64_t> units_;
  std::vector<Function> functions_;
  std::unique_ptr<Library> library_;
};

}  // namespace nabla::kernel_ir
