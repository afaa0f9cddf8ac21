// Chooses the shards of a checkpoint that are written more than once, so that a rank opens few files when it resumes.
#pragma once

#include <vector>

#include "runtime/checkpoint/placement.h"

namespace nabla::checkpoint {

/// The most files that a rank opens besides the manifest when the mesh is the same: its own, which it checks, and others with its shards.
inline constexpr size_t kMostFiles = 3;

/// Sets `written`, `parts.copies` and `parts.copy` of all shares.
///
/// By default the lowest of the ranks that have the same shard writes it. The number of files that a rank needs is then the number of
/// sets of mesh axes that its leaves are sharded over. Example: on a mesh (dp, tp), a rank with leaves that are replicated, sharded over
/// dp, over tp and over both needs the files of ranks (0, 0), (d, 0), (0, t) and (d, t). If there are more than `kMostFiles` sets, the
/// shards of some sets are also written by the ranks that write another set. In the example ranks (0, t) also write the replicated leaves.
/// Of all such choices the one is taken that writes the fewest bytes. No rank ever writes more than the state that it has.
void choose_copies(std::vector<Layout::Share>& shares);

}  // namespace nabla::checkpoint
