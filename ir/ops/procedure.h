// What ops that are procedures share, and reading and adding along one axis by positions, which is how derivatives of
// sorting and of extremes go.
#pragma once

#include "ir/ops/access.h"

namespace nabla::ops {

/// A fragment of this procedure, which works along `axis` of operand 0; results as inferred. `numbers` follow outer,
/// count and inner.
kernel_ir::Fragment procedure_fragment(const TypedOp& op, std::string_view procedure, int64_t axis,
                                       std::vector<Dim> numbers);
/// The reference of such an op: the procedure's own meaning.
Literals reference_by_procedure(const EvalContext& ctx);
/// All operands and results share a factor per dimension, that of `axis` being `kind`. Where the result's extent of the
/// axis differs it has a factor of its own.
Factors factors_along(const TypedOp& op, int64_t axis, Factors::Kind kind);
/// C`id`: the attribute `dtype` is an integer of at least 32 bits that holds every position of an axis of this extent, where that is known.
Status require_position_dtype(const InferContext& ctx, std::string_view id, const Dim& extent);
constexpr const char* kPositionDType = "dtype is an integer of at least 32 bits that holds every position of the axis";

/// result[.., i, ..] = x[.., positions[.., i, ..], ..] along `axis`.
Val take_along(Val x, Val positions, int64_t axis);
/// A zero of `shape` to which the updates are added at their positions along `axis`.
Val add_along(const Shape& shape, Val positions, Val updates, int64_t axis);

}  // namespace nabla::ops
