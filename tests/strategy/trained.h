// Training on ranks, from a state that is the same everywhere.
#pragma once

#include <vector>

#include "cli/driver/compile.h"

namespace nabla::strategy_tests {

/// What the entry `step`, whose only input is its last parameter, returns in three runs of the module, compiled so.
std::vector<Literal> trained(const ir::Module& m, const driver::CompileOptions& options);

}  // namespace nabla::strategy_tests
