// Stops a run at the first instruction that makes NaN or infinity (nabla-run --check-nan). Infinities of masks pass:
// those of kernels with an infinite constant or which only move numbers, and -infinity where an operand has it too.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/base/diagnostic.h"
#include "runtime/base/dtype.h"
#include "runtime/format/program_generated.h"

namespace nabla::exec {

/// What one slot of a step holds.
struct Operand {
  DType dtype = DType::kU8;
  bool written = false;
  int64_t bytes = 0;
  bool infinite = false;  ///< of what is written: format::Kernel::infinite
};

/// The operands of an instruction of the program at the sizes of a table; none for loops and branches. `launched`:
/// those of the fallback of a library call.
std::vector<Operand> operands_of(const format::Program& program, const format::Instruction& instruction,
                                 const std::vector<int64_t>& table, bool launched);
/// E0901 when the program does not say what its instructions touch, as those of older compilers.
Status check_operands_known(const format::Program& program, const std::string& what);

/// Where an instruction comes from; null: unknown.
LocationRef location_of(const format::Program& program, const format::Instruction& instruction);

class Engine;

/// Looks at the slots of one step before and after it runs.
class NanCheck {
 public:
  /// `engine` shows what lies at the slots; it outlives the object.
  explicit NanCheck(Engine& engine) : engine_(engine) {}
  /// Keeps the ranges of operands that the step may overwrite.
  void before(const std::vector<Operand>& operands, void* const* slots);
  /// False when a floating result holds NaN, or an infinity that is not of a mask.
  bool after(const std::vector<Operand>& operands, void* const* slots);
  bool found() const { return found_; }
  /// E0708: the result that `after` refused, and the ranges of the operands. `found` is false then.
  Diagnostic report(const format::Program& program, const std::string& entry, const format::Instruction& instruction);

 private:
  /// Of floating elements; min and max of those that are not NaN.
  struct Range {
    int64_t size = 0, nans = 0, infinities = 0;
    int64_t first = -1, first_nan = -1;  ///< the first that is not finite, and the first NaN; -1: none
    double min = 0, max = 0, value = 0;  ///< value: that of `first`
    bool known = false;
    std::string str() const;
  };
  Range range_of(const Operand& operand, const void* at);
  /// Whether the infinities of result `r` are those of a mask, so that only NaN is a fault.
  bool masked(const std::vector<Operand>& operands, void* const* slots, size_t r);

  Engine& engine_;
  std::vector<char> room_;  ///< what the engine showed

  std::vector<Range> ranges_;      ///< by slot
  std::vector<Operand> operands_;  ///< of the refused step
  size_t result_ = 0;              ///< the slot that `after` refused
  bool found_ = false;
};

}  // namespace nabla::exec
