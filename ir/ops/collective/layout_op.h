// What ops that speak of layouts alone have in common. Included by the files of this folder only.
#pragma once

#include "ir/ops/common.h"

namespace nabla::ops {

/// The record of an identity that propagation reads, and that `partition` takes away: operands, results, types,
/// derivatives and examples are the caller's.
OpDef layout_op(std::string name, ir::LayoutRole role, std::string doc);
/// Values laid out as a rule says of others.
OpDef shard_by_rule_op();

}  // namespace nabla::ops
