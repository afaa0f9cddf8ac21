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
  /// The parameter that an optimizer's leaf belongs to: the one of the same shape whose name shares the longest suffix of dotted parts.
  /// For example, "opt.m.fc1.w" belongs to "p.fc1.w". -1 if no parameter matches, or if several match equally well.
  int parameter = -1;
  /// A loop iterates over the first dimension, so that each slice belongs to one layer.
  bool stacked = false;
};

struct StateRoles {
  std::vector<LeafRole> leaves;  ///< one per leaf of the state
  std::vector<bool> trains;      ///< by entry: it computes gradients
};

}  // namespace nabla::ir
