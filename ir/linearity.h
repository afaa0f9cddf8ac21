// What the linearity of a record (ir/op_def.h) says of a node.
#pragma once

#include <vector>

#include "ir/op_def.h"

namespace nabla::ir {

/// The operands that a claim names, of a node with `count` of them: a variadic one stands for all that follow it.
std::vector<int> operands_of(const OpDef& op, const Linearity::Claim& claim, size_t count);

}  // namespace nabla::ir
