// Which operand elements each result element reads, by an op's access, for given operands.
#pragma once

#include <vector>

#include "ir/kernel_ir/fragment.h"
#include "runtime/base/literal.h"

namespace nabla::property {

class Dependence {
 public:
  Dependence(const kernel_ir::Fragment& fragment, const std::vector<Literal>& operands);
  /// `element` counts through all operands, one after the other.
  bool depends(int result, int64_t result_element, int64_t element) const;

 private:
  using Set = std::vector<bool>;
  std::vector<std::vector<Set>> sets_;  // per result and element
};

}  // namespace nabla::property
