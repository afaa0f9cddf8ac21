// The movement ops stand in two files; movement.cc joins them.
#pragma once

#include <vector>

#include "ir/ops/common.h"

namespace nabla::ops {

std::vector<OpDef> cut_ops();  ///< slice, pad, concatenate, reverse

}  // namespace nabla::ops
