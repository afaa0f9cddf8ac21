// What the leaves of a program's state are for: parameters, what an optimizer remembers of them, or something else.
#pragma once

#include <utility>
#include <vector>

#include "ir/module.h"

namespace nabla::passes {

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

/// Read off from the gradients that entries compute. Requires stage traced, where they are calls still. E0303 and E0107 as
/// in `bottom_up`. A leaf is a parameter if an entry differentiates with respect to a value computed from it. With
/// `directly`, only ops with one operand, such as convert and reshape, may be between the leaf and that value.
Result<StateRoles> roles_of_state(const ir::Module& module, bool directly = false);

/// What a node of a function differentiates with respect to, with its gradient. `makers`: ir::producers of the function.
std::vector<std::pair<ir::ValueId, ir::ValueId>> gradient_pairs(const ir::Function& f, const ir::Node& n,
                                                                const std::vector<int>& makers);

}  // namespace nabla::passes
