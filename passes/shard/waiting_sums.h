// Additions that wait until all that is pending in their terms is added.
#pragma once

#include <functional>
#include <map>
#include <vector>

#include "ir/module.h"

namespace nabla::passes {

/// A complete value plus one whose sum over ranks is pending costs an exchange. If the result is only added to something else, the
/// addition waits, and pending terms are added first. So g + dq + dk + dv is one exchange of dq + dk + dv, in whichever order the
/// program adds them. Sums of floats are in another order for it.
class WaitingSums {
 public:
  /// `pending` gives the axes over which the sum of a value is pending, empty if a node gets it complete. `add` computes a node.
  WaitingSums(const ir::Function& f, std::function<const ir::Axes&(ir::ValueId)> pending, std::function<void(const ir::Node&)> add);
  /// Adds what can be added of an addition and makes the rest wait. False if the node is not such an addition: nothing is done.
  bool take(const ir::Node& n);

 private:
  /// The terms of a value that waits. Both have been computed.
  struct Terms {
    ir::ValueId complete, pending;
  };
  void join(const ir::Node& n, ir::ValueId a, ir::ValueId b, ir::ValueId sum) const;

  const ir::Function& f_;
  std::function<const ir::Axes&(ir::ValueId)> pending_;
  std::function<void(const ir::Node&)> add_;
  std::vector<char> only_added_;  // by value: is an addition its only reader?
  std::map<ir::ValueId, Terms> waiting_;
};

}  // namespace nabla::passes
