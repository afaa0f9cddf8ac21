// Stops a run at the first instruction that makes NaN or infinity (nabla-run --check-nan). What the program wants is allowed: infinities
// and NaN that a kernel has as constants or only moves, and -infinity if an operand of the kernel has it, as masks do.
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
  bool infinite = false, nan = false;  ///< the fields of format::Kernel of the kernel that writes it
};

/// The operands of an instruction, with the sizes that `table` holds. Loops and branches have none. With `launched`, a library call
/// gives the operands of its fallback kernel.
std::vector<Operand> operands_of(const format::Program& program, const format::Instruction& instruction,
                                 const std::vector<int64_t>& table, bool launched);
/// E0901 if the program does not list the operands of its instructions. Programs of older compilers do not.
Status check_operands_known(const format::Program& program, const std::string& what);

/// The source location of an instruction, or null if it is unknown.
LocationRef location_of(const format::Program& program, const format::Instruction& instruction);

class Engine;

/// Examines the slots of one step before and after it runs.
class NanCheck {
 public:
  /// `engine` shows what lies at the slots; it outlives the object.
  explicit NanCheck(Engine& engine) : engine_(engine) {}
  /// Keeps the ranges of operands that the step may overwrite.
  void before(const std::vector<Operand>& operands, void* const* slots);
  /// False if a floating result holds NaN, or an infinity that does not come from a mask.
  bool after(const std::vector<Operand>& operands, void* const* slots);
  bool found() const { return found_; }
  /// E0708: the result that `after` refused, and the ranges of the operands. `found` is false then.
  Diagnostic report(const format::Program& program, const std::string& entry, const format::Instruction& instruction);

 private:
  /// The range of the floating-point elements of an array. NaN does not count for `min` and `max`.
  struct Range {
    int64_t size = 0, nans = 0, infinities = 0;
    int64_t first_infinity = -1, first_nan = -1;  ///< -1: none
    int64_t fault = -1;                           ///< the first that is not finite and not wanted
    double min = 0, max = 0, infinity = 0;        ///< infinity: the first one
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
