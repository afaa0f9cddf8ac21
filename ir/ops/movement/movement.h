// The movement ops stand in three files; movement.cc joins them.
#pragma once

#include <vector>

#include "ir/ops/common.h"

namespace nabla::ops {

std::vector<OpDef> cut_ops();  ///< slice, pad, concatenate, reverse
OpDef section_op();

}  // namespace nabla::ops
