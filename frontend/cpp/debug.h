// Looking at values of programs while they run.
#pragma once

#include <string>
#include <vector>

#include "frontend/cpp/tensor.h"

namespace nabla {

/// Prints `format` when the program runs: `{}` or `{:.3f}` for each operand, `{{` and `}}` for braces. A specification
/// holds for every element. Lines come in the order of the program, once per iteration of a loop and per example of a
/// vmap; a derivative prints on its way forward alone. nabla-run writes the entry and the number of its run in front,
/// "step 12: x 0.5". `nablac compile --no-debug-prints` leaves prints out. E0204 where fields and operands do not fit.
void debug_print(const std::string& format, const std::vector<Arg>& operands = {}, Site site = Site::here());

}  // namespace nabla
