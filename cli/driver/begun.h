// A module on its way to a set: what passes have made of it, and the passes that are left. For lower_set and the search for layouts.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "cli/driver/lower_set.h"
#include "passes/pipeline.h"
#include "passes/strategy/state_roles.h"

namespace nabla::driver {

using Steps = std::vector<passes::Step>;
using Roles = std::vector<std::optional<passes::StateRoles>>;  // by class

struct Begun {
  ir::Module module;
  Steps graph, lowering;  ///< left, before and after a module becomes kernels
  Roles roles;            ///< of the module as it came
  std::vector<passes::PassReport> passes = {};
};

/// Nothing has run yet.
Result<Begun> begun(const ir::Module& module, const CompileOptions& options);
Status run_steps(Begun& of, const Steps& steps, const ir::Target& target, const passes::ManagerOptions& manager);
/// All that is left.
Result<LoweredSet> finished(Begun from, const ir::Target& target, const CompileOptions& options);
Result<LoweredSet> lowered(const ir::Target& target, const ir::Module& module, const CompileOptions& options);

/// Takes the steps up to this one, with it; none where it is not there.
Steps take_through(Steps& from, std::string_view last);
/// The options, by which every module is verified too.
passes::ManagerOptions verifying(passes::ManagerOptions options);

}  // namespace nabla::driver
