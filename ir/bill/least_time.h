// The least time that a GPU needs: by the bytes that kernels and library calls must move, and by their products.
#pragma once

#include <map>
#include <string>

#include "ir/cost/least_work.h"
#include "ir/module.h"
#include "ir/target.h"

namespace nabla::ir {

/// Microseconds, at the largest sizes and as a formula in postfix notation (docs/bundle-format.md, report.json).
struct LeastTime {
  double us = 0;
  std::string postfix = "0";  ///< empty if it would be too long
  bool is_static = true;      ///< the formula has no symbol in it
};

/// The least times of a planned module. An operand from which a kernel gathers counts as far as it can be read. Scratch memory of kernels
/// does not count. Requires a GPU target. `flat` and `planned` outlive the object.
class LeastTimes {
 public:
  LeastTimes(const Module& flat, const Module& planned, const Target& target);
  /// Of a kernel, by its name. If several nodes launch it, of the longest launch.
  const LeastTime& kernel(const std::string& name) const { return kernels_.at(name); }
  /// Microseconds of the kernel's bytes alone, at the largest sizes.
  double moved_us(const std::string& name) const { return moved_us_.at(name); }
  /// Of one call of a library.
  LeastTime call(const Node& node, const Function& planned) const;
  /// The expected microseconds of that call at the largest sizes (ir/cost/time.h).
  double predicted_call_us(const Node& node, const Function& planned) const;
  /// Of all that a function runs, one after the other. A loop counts all iterations, a branch its costlier side, a while one iteration.
  /// Copies count nothing.
  const LeastTime& function(const std::string& name);

 private:
  LeastTime time(const Work& work) const;
  Work work_of(const Node& call, const Function& planned) const;

  const Module& planned_;
  const Target& target_;
  std::map<std::string, LeastTime> kernels_, functions_;
  std::map<std::string, double> moved_us_;
};

}  // namespace nabla::ir
