// The attributes that ops of libraries share.
#pragma once

#include "ir/ops/common.h"

namespace nabla::ops {

/// The attributes of an op of Lowering::kLibrary: those of its problem, then the implementation and the fallback, which
/// ir/library/call.h reads and sets.
std::vector<AttrDef> with_call_attrs(std::vector<AttrDef> of_problem);

/// The reason, for error messages, that library ops have no derivative and no batching rule.
inline constexpr const char* kLowered = "made by lowering, after every transform";

}  // namespace nabla::ops
