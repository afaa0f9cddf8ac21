// From a module to the laid out programs of all classes of ranks, for one target.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "cli/driver/compile.h"
#include "ir/bill/bill.h"
#include "ir/program_set.h"

namespace nabla::driver {

struct LoweredSet {
  ir::Target target;
  std::optional<ir::Module> sharded;  ///< for several ranks of a mesh: with a layout on every value
  ir::ProgramSet local;               ///< before fusion
  ir::ProgramSet planned;
  // By class:
  std::vector<Buckets> buckets;
  std::vector<std::optional<ir::StateRoles>> roles;  ///< of the state; unknown for a module that has no gradients any more
  std::vector<ir::Bill> bills;
  std::vector<passes::PassReport> passes;  ///< all that ran
};

/// The bill of a class as JSON text (report.h).
std::string report_of(const LoweredSet& set, size_t of_class);
/// The predicted microseconds of a run of each entry, if there are several ranks. Empty for one rank.
std::map<std::string, double> predicted_us(const LoweredSet& set, size_t of_class);

/// The targets as the options want them. E0901 and E0503 for options that act on none of them.
Result<std::vector<ir::Target>> targets_of(const CompileOptions& options, std::vector<ir::Target> targets);

/// A module of any stage before `kernels`: up to `partition` it is one, then it is the set of its class.
Result<LoweredSet> lower_set(const ir::Target& target, const ir::Module& module, const CompileOptions& options);
/// A set whose modules are of any stage before `kernels`, and for one rank each.
Result<LoweredSet> lower_set(const ir::Target& target, const ir::ProgramSet& set, const CompileOptions& options);

}  // namespace nabla::driver
