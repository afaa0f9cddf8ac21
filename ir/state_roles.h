// What the leaves of a program's state are for: parameters, the state of an optimizer, or something else.
#pragma once

#include <cstdint>
#include <vector>

namespace nabla::ir {

struct LeafRole {
  enum class Kind : uint8_t {
    kOther,      ///< counters, statistics of batches, caches
    kParameter,  ///< an entry differentiates with respect to it
    kOptimizer,  ///< its new value follows from gradients
  };
  Kind kind = Kind::kOther;
  /// Of an optimizer's leaf: the parameter of the same shape whose name has the most parts at its end in common with its own
  /// ("opt.m.fc1.w" of "p.fc1.w", "adamw.m.fc1.w" of "fc1.w"); -1 where there is none, or several have as many.
  int parameter = -1;
  /// A loop runs over its first dimension: its slices are the layers' own.
  bool stacked = false;
};

struct StateRoles {
  std::vector<LeafRole> leaves;  ///< one per leaf of the state
  std::vector<bool> trains;      ///< by entry: it computes gradients
};

}  // namespace nabla::ir
