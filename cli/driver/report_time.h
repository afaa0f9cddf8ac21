// The least time that a GPU can need: by the bytes that a kernel or a library's call must move, and by its products.
#pragma once

#include <map>
#include <string>

#include "ir/cost/least_work.h"
#include "ir/module.h"
#include "ir/target.h"

namespace nabla::driver {

/// Microseconds, at the largest sizes and as a formula in postfix (docs/bundle-format.md, report.json).
struct LeastTime {
  double us = 0;
  std::string postfix = "0";  ///< empty: it would be too long
  bool is_static = true;      ///< the formula has no symbol in it
};

/// Of what a planned module runs: an operand from which a kernel gathers counts as far as it can be read, scratch
/// memory of kernels not at all. Requires a GPU target; `flat` and `planned` outlive it.
class LeastTimes {
 public:
  LeastTimes(const ir::Module& flat, const ir::Module& planned, const ir::Target& target);
  /// Of a kernel, by its name: of a run of the longest, where several nodes launch it.
  const LeastTime& kernel(const std::string& name) const { return kernels_.at(name); }
  /// Microseconds of that kernel's bytes alone, at the largest sizes.
  double moved_us(const std::string& name) const { return moved_us_.at(name); }
  /// Of one call of the library, and what it is expected to take at the largest sizes (ir/cost/time.h).
  double predicted_call_us(const ir::Node& node, const ir::Function& planned) const;
  LeastTime call(const ir::Node& node, const ir::Function& planned) const;
  /// All that a function runs, one after the other: of a loop all trips, of a branch the costlier side, of a while one
  /// round. Copies count nothing.
  const LeastTime& function(const std::string& name);

 private:
  LeastTime time(const ir::Work& work) const;
  ir::Work work_of(const ir::Node& call, const ir::Function& planned) const;

  const ir::Module& planned_;
  const ir::Target& target_;
  std::map<std::string, LeastTime> kernels_, functions_;
  std::map<std::string, double> moved_us_;
};

}  // namespace nabla::driver
