// Tensors whose elements follow from where they stand, such as random numbers and iota: what a node that makes a part of
// a whole is told. The attributes `offset` and `whole` have an extent per dimension of the result; where they are empty,
// as in every program that is written for one device, the result is the whole.
#pragma once

#include <vector>

#include "ir/ops/common.h"

namespace nabla::ops {

/// The attributes with `offset` and `whole` after them.
std::vector<AttrDef> with_place(std::vector<AttrDef> attrs);
/// What with_place's attributes have to be, as the constraint of this id.
ir::Constraint place_constraint(const char* id);
Status require_place(const InferContext& ctx, const Shape& part, const char* id);

/// Where the result begins in the whole, and the whole's shape.
struct Place {
  Shape offset, whole;
};
Place place_of(const TypedOp& op);
/// The same where the attributes speak of another tensor than the result.
Place place_in(const Attrs& attrs, const Shape& part);

/// Every dimension of the result may be split; operands stay whole, but for the first dimension of the first one where
/// `keyed` says that the rows of the result go with it.
Factors placed_factors(const TypedOp& op, bool keyed = false);
/// Of ops with placed_factors and an attribute `shape`.
Attrs localise_place(const ir::Shard& shard);

}  // namespace nabla::ops
