// Planned modules of a GPU target on the emulator: every launch of an entry, its operands and results in device memory
// of their own, so that each access beyond one of them is seen.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "codegen/cuda/printer.h"
#include "ir/module.h"
#include "ir/target.h"
#include "tests/conformance/planned_run.h"
#include "tests/cuda/emulator/emulator.h"

namespace nabla::emulator {

/// A way to run a module that is as good as any other.
struct Way {
  Options options;
  bool checked = false;
  unsigned most_blocks = 0;  ///< of a grid; 0: as many as it has. Few blocks do the work of many, one after the other.
  unsigned more_blocks = 0;  ///< of a grid that need not be exact: those of larger sizes find nothing to do

  std::string str() const;
};
/// All blocks and some more forward with the checker; all in reverse with early copies; one block for all, in random
/// order, with the checker.
std::vector<Way> every_way();

class EmulatedModule {
 public:
  /// Prints every kernel of the module and compiles them as one source, for checked and plain runs; for plain ones
  /// alone where it rounds as GPUs do. E0501 and E0502 of the host compiler.
  static Result<EmulatedModule> create(ir::Module planned, Rounding rounding = Rounding::kExact);

  /// `report` gets the findings, each with its kernel. Beside the emulator's kinds there is "traffic": a kernel whose
  /// bytes are known (traffic_model.h) moves over 5 % more. Errors are those of run_planned.
  Result<std::vector<Literal>> run(std::string_view entry, const std::vector<Literal>& inputs,
                                   std::vector<Literal>& state, const conformance::Sizes& sizes, const Way& way,
                                   Report& report) const;

  const ir::Module& planned() const { return planned_; }
  /// kernel_ir and CUDA text of a kernel, for messages.
  std::string text(size_t kernel) const;

 private:
  void launch(size_t kernel, const std::vector<conformance::PlacedBuffer>& buffers, const conformance::Sizes& sizes,
              const Way& way, Report& report) const;

  ir::Module planned_;
  std::vector<codegen::CudaKernel> code_;
  std::shared_ptr<Object> object_;
};

/// Test failures unless the entry gives what is wanted, in all `ways`, with the same bits, and nothing is found.
/// `near` says how a result differs from the wanted one; empty: it does not.
using Near = std::function<std::string(const Literal& want, const Literal& got)>;
void expect_in_every_way(const EmulatedModule& module, std::string_view entry, const std::vector<Literal>& inputs,
                         const std::vector<Literal>& state, const conformance::Sizes& sizes,
                         const std::vector<Literal>& want, const Near& near,
                         const std::vector<Way>& ways = every_way());

}  // namespace nabla::emulator
