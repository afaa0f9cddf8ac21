// The rules by subject; table.cc says which op has which.
#pragma once

#include "passes/shard/rules/rules.h"

namespace nabla::passes {

// rows.cc
/// Rows of a table (embedding, gather) that lies along its rows: every rank looks up those that it has, and the sum is
/// pending (Megatron's vocabulary-parallel embedding).
std::optional<Ruled> look_up_rows(const RuleContext& c);
/// Adding into rows (scatter_add), of updates that are cut: each rank adds its own, and the sum is pending; into rows
/// that are cut: each rank adds to those that it has.
std::optional<Ruled> add_into_rows(const RuleContext& c);

// order.cc
/// argmax and argmin along the dimension that is cut.
std::optional<Ruled> position_of_extreme(const RuleContext& c);
std::optional<Ruled> top_of_candidates(const RuleContext& c);

// scan.cc
/// Running combinations along the dimension that is cut.
std::optional<Ruled> running(const RuleContext& c);
/// Positions of running extremes.
std::optional<Ruled> running_position(const RuleContext& c);
Ties along_axis(const ir::TypedOp& op);

// cut.cc
std::optional<Ruled> cut_or_pad(const RuleContext& c);  ///< slice, section, pad
std::optional<Ruled> reversed(const RuleContext& c);
std::optional<Ruled> joined_along(const RuleContext& c);  ///< concatenate
/// Every dimension with that of the same number, where no factor passes.
Ties same_dims(const ir::TypedOp& op);

// convolution.cc
/// Spatial dimensions that are cut, of convolutions and pooling: halos.
std::optional<Ruled> convolved(const RuleContext& c);
std::optional<Ruled> convolved_back(const RuleContext& c);   ///< conv_input_grad
std::optional<Ruled> filter_gradient(const RuleContext& c);  ///< conv_filter_grad
std::optional<Ruled> pooled(const RuleContext& c);           ///< reduce_window_.., window_gather_max
std::optional<Ruled> scattered_back(const RuleContext& c);   ///< select_and_scatter
Ties space_and_output(const ir::TypedOp& op);
Ties space_and_cotangent(const ir::TypedOp& op);

// attention.cc
/// attention and attention_grad, where keys and values are cut along their positions.
std::optional<Ruled> attended_by_ranks(const RuleContext& c);
std::optional<Ruled> attention_back(const RuleContext& c);
Ties keys_and_values(const ir::TypedOp& op);

// indexed.cc
/// gather and scatters by rows, or by one index per window.
std::optional<Ruled> gathered_by_index(const RuleContext& c);
std::optional<Ruled> scattered_by_index(const RuleContext& c);

// dynamic.cc
std::optional<Ruled> sliced_where_it_is(const RuleContext& c);   ///< dynamic_slice
std::optional<Ruled> updated_where_it_is(const RuleContext& c);  ///< dynamic_update_slice
Ties operand_and_result(const ir::TypedOp& op);

// exchange.cc
/// Of any op: the axes move to another dimension, along which it is cut, by an all_to_all.
std::optional<Ruled> exchanged(const RuleContext& c);

}  // namespace nabla::passes
