#include "ir/linearity.h"

#include <algorithm>

namespace nabla::ir {

std::vector<int> operands_of(const OpDef& op, const Linearity::Claim& claim, size_t count) {
  std::vector<int> out = claim.operands;
  int last = static_cast<int>(op.operands.size()) - 1;
  if (std::find(out.begin(), out.end(), last) == out.end() || !op.operands.back().variadic) return out;
  for (int i = last + 1; i < static_cast<int>(count); ++i) out.push_back(i);
  return out;
}

}  // namespace nabla::ir
