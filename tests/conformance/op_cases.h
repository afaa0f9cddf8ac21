// Every op's examples and some random draws, as modules that a backend can compile.
#pragma once

#include <string>
#include <vector>

#include "tests/property/cases.h"

namespace nabla::conformance {

/// Ops that lower to code.
std::vector<std::string> ops_with_code();
/// Its examples, in all dtypes with --config=nightly and else in some (see property::Precision), and so many random draws, of static sizes.
std::vector<property::Case> static_cases(const std::string& op, int draws = 2);
/// One entry per case, so that an op's kernels are compiled together.
ir::Module module_of(const std::vector<property::Case>& cases);

}  // namespace nabla::conformance
