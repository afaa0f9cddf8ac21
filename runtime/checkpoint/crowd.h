// Checkpoints of large jobs without the jobs: files of many ranks, and threads that resume from them. For tests and benches.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/checkpoint/manifest.h"

namespace nabla::checkpoint {

/// A training job with zero=3 on a mesh (dp, tp), rank = tp * its place in dp + its place in tp. Its f32 leaves are, in turn: replicated,
/// sharded over dp, over both axes in two dimensions, and over both in one dimension that they do not divide.
struct Crowd {
  uint32_t dp = 1, tp = 1;
  std::vector<Leaf> leaves;
  Layout layout;

  Crowd(uint32_t dp, uint32_t tp, int leaves);
  uint32_t ranks() const { return dp * tp; }
  /// Its manifest, with files of plausible sizes.
  Manifest manifest() const;
  /// Writes DIR/step-00000001. Element i of a leaf, row-major, has the value i.
  Status write(const std::string& dir) const;
};

/// All ranks of `crowd` resume together from what another one has written into `dir`, each in a thread, and check every value that
/// they need. Returns the most files that a rank has opened.
Result<int> resume(const Crowd& crowd, const std::string& dir);

}  // namespace nabla::checkpoint
