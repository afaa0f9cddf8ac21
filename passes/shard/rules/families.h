// The rules by subject, and what several subjects share.
#pragma once

#include <span>

#include "passes/shard/rules/rules.h"

namespace nabla::passes {

std::span<const OpRule> attention_rules();
std::span<const OpRule> convolution_rules();
std::span<const OpRule> cut_rules();
std::span<const OpRule> dynamic_rules();
std::span<const OpRule> indexed_rules();
std::span<const OpRule> order_rules();
std::span<const OpRule> rows_rules();
std::span<const OpRule> scan_rules();

/// Looks up rows of a table (embedding, gather) that is sharded over its rows. Every rank looks up the rows that it has, and the sum is
/// pending (Megatron's vocabulary-parallel embedding).
std::optional<Ruled> look_up_rows(const RuleContext& c);
/// Adds updates to rows (scatter_add). If the updates are sharded, each rank adds its own, and the sum is pending. If the rows are sharded,
/// each rank adds to those that it has.
std::optional<Ruled> add_into_rows(const RuleContext& c);
/// An exchange that every op can use: an all_to_all moves the axes to another dimension, over which the node is sharded.
std::optional<Ruled> exchanged(const RuleContext& c);

/// Ties every dimension of the result to the dimensions of the same number in operands of its rank.
Ties same_dims(const ir::TypedOp& op);
/// Ties every dimension of the result to that of the first operand.
Ties operand_and_result(const ir::TypedOp& op);

}  // namespace nabla::passes
