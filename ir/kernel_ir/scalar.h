// The scalar functions of kernel expressions: what both code printers can say about one element.
// One row per function; an elementwise op is an expression over these.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "runtime/base/dtype.h"

namespace nabla::kernel_ir {

enum class ResultKind : uint8_t {
  kSame,   ///< the dtype of the first operand
  kBool,   ///< bool
  kFirst,  ///< the dtype given when the expression is made (convert, bit functions)
};

struct ScalarFn {
  std::string_view name;  ///< in kernel text and in the generated C++ prelude (prefixed there with nb_)
  int arity;
  ResultKind result;
  /// Value in double arithmetic, for float operands; null where only integers make sense.
  double (*eval_float)(std::span<const double> x);
  /// Value for integer and bool operands of the given dtype (which matters for division, shifts, comparison); null
  /// where only floats make sense. Comparison functions return 0 or 1 from both.
  int64_t (*eval_int)(DType dtype, std::span<const int64_t> x);
  int cost = 1;  ///< of an element, about in vector instructions: what schedules weigh arithmetic by; 0: free
};

/// Null when there is no such function.
const ScalarFn* find_scalar(std::string_view name);
std::span<const ScalarFn> all_scalars();

/// Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011): word `index % 4` of the
/// block with counter `index / 4` and key (k0, k1).
uint32_t philox_word(uint32_t k0, uint32_t k1, uint64_t index);

}  // namespace nabla::kernel_ir
