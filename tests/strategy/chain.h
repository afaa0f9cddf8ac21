// A training step that says nothing of ranks.
#pragma once

#include <string>

#include "ir/module.h"

namespace nabla::strategy_tests {

inline constexpr int kLayers = 4;
inline constexpr int64_t kBatch = 512, kWidth = 64, kElements = kLayers * kWidth * kWidth, kF32 = 4;

/// What becomes of a gradient g before it is added to the momentum.
enum class Update : uint8_t {
  kPlain,    ///< g
  kClipped,  ///< g scaled to a global norm of 1
  kSquares,  ///< 0.1 g + g * g: read twice, once by an op that is linear in it, as Adam does
};

/// A chain of square layers with momentum (leaves w0, m.w0, w1, ...), trained on a batch of which even a part is larger
/// than a weight: of smaller ones ranks would exchange activations. With `halves` products are those of weights as bf16.
ir::Module chain(const std::string& mesh, Update update = Update::kPlain, bool halves = false);
/// How a scan runs layers.
enum class Layers : uint8_t {
  kPlain,
  kHalves,  ///< with products of halves, of masters in f32
  kRemat,   ///< computed again on the way back
  kGroups,  ///< two scans within one, of half of the layers each
};
/// The same layers as slices of one leaf (w, m.w), which a scan runs.
ir::Module stacked(const std::string& mesh, Layers layers = Layers::kPlain);

}  // namespace nabla::strategy_tests
