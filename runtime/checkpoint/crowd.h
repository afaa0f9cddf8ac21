// Checkpoints of large jobs without the jobs: files of many ranks, and threads that resume from them. For tests and benches.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/checkpoint/manifest.h"

namespace nabla::checkpoint {

/// A job on a mesh, rank = (tp * its place in dp + its place in tp), of which every stage of a pipeline has its own ranks.
struct Crowd {
  uint32_t dp = 1, tp = 1, stages = 1;
  std::vector<Leaf> leaves;
  Layout layout;

  /// f32 leaves that are, in turn: replicated, sharded over dp, over both axes in two dimensions, over both in one dimension that they do
  /// not divide, and over tp. It is what zero=1 makes of a program whose large parameters are sharded over tp.
  Crowd(uint32_t dp, uint32_t tp, int leaves);

  struct Job {
    uint32_t stages = 1, dp = 1, tp = 1;
    int zero = 0;              ///< 1, 2: the moments are sharded over dp; 3: the parameters too
    bool stages_last = false;  ///< consecutive ranks are of consecutive stages; otherwise of one stage
  };
  /// Training of a transformer. A stage has two matrices that are sharded over tp, a scale that is replicated, and a moment of each. The
  /// first and the last stage share an embedding that is sharded over tp, and all stages share a number of steps.
  explicit Crowd(const Job& job);
  uint32_t ranks() const { return stages * dp * tp; }
  /// Its manifest, with files of plausible sizes.
  Manifest manifest() const { return manifest_of(layout.written()); }
  Manifest manifest_of(std::vector<Placement> placements) const;
  /// Writes DIR/step-00000001. Element i of a leaf, row-major, has the value i.
  Status write(const std::string& dir) const { return write(dir, manifest()); }
  Status write(const std::string& dir, Manifest manifest) const;
};

/// All ranks of `crowd` resume together from what another one has written into `dir`, each in a thread, and check every value that
/// they need. Returns the most files that a rank has opened.
Result<int> resume(const Crowd& crowd, const std::string& dir);

}  // namespace nabla::checkpoint
