// The row of a collective that a bundle holds.
#pragma once

#include "runtime/base/collective.h"
#include "runtime/format/program_generated.h"

namespace nabla::format {

static_assert(static_cast<int>(CollectiveKind::AllReduce) == static_cast<int>(nabla::CollectiveKind::kAllReduce));
static_assert(static_cast<int>(CollectiveKind::AllGather) == static_cast<int>(nabla::CollectiveKind::kAllGather));
static_assert(static_cast<int>(CollectiveKind::ReduceScatter) == static_cast<int>(nabla::CollectiveKind::kReduceScatter));
static_assert(static_cast<int>(CollectiveKind::AllToAll) == static_cast<int>(nabla::CollectiveKind::kAllToAll));
static_assert(static_cast<int>(CollectiveKind::Permute) == static_cast<int>(nabla::CollectiveKind::kPermute));
static_assert(static_cast<int>(CollectiveKind::MAX) == static_cast<int>(nabla::CollectiveKind::kBroadcast));

/// `kind` is one that the schema has.
inline const CollectiveDef& def_of(CollectiveKind kind) { return collective_def(static_cast<nabla::CollectiveKind>(kind)); }

}  // namespace nabla::format
