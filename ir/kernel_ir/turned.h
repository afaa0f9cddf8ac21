// Pointwise bodies that read along another axis than they store, such as transpositions.
#pragma once

#include <optional>
#include <vector>

#include "ir/kernel_ir/kernel.h"

namespace nabla::kernel_ir {

constexpr int kTurnedTile = 32;      ///< a block turns square tiles of so many elements a side in shared memory
constexpr int kTurnedThreads = 256;  ///< of such a block

struct Turned {
  int across = -1;          ///< the axis that these loads walk element by element
  std::vector<Expr> loads;  ///< each once; they lie apart along the last axis
};
/// Of a body over `axes`, all of whose stores walk the last one; nothing where no load is turned, or where one of the two axes is
/// shorter than a tile.
std::optional<Turned> find_turned(const Kernel& kernel, const std::vector<int>& axes, const Body& body);

/// Elements from one row of such a tile to the next, for elements of `bytes`: both ways through it meet every bank of shared memory.
constexpr int turned_pitch(int bytes) { return kTurnedTile + (bytes < 4 ? 4 / bytes : 1); }

}  // namespace nabla::kernel_ir
