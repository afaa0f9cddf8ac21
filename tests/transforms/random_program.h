// Random functions of several ops that call others: branches, loops, and functions with rules of their own.
#pragma once

#include <string>

#include "tests/transforms/random_function.h"

namespace nabla::transforms {

/// A traced module with @NAME: (x f64[3], w f64[3,3]) -> (f64[], f64[3]), of about `steps` pieces, and what it calls.
/// Differentiable almost everywhere; with `unbounded` it has a while without a trip_count, which reverse mode refuses.
ir::Module random_program(const std::string& name, uint64_t seed, int steps, bool unbounded);

}  // namespace nabla::transforms
