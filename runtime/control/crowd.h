// Simulated ranks: as many connections as a large job has, all served by one thread. For tests and benches of the coordinator.
#pragma once

#include <cstdint>

#include "runtime/base/diagnostic.h"

namespace nabla::control {

/// Ranks join a coordinator. All but rank 0 ask its store for `keys` keys each. Then rank 0 puts these keys, the others get their
/// values, and all leave. Returns the seconds from the first connection to the end of the job. An error if any rank gets no answer.
Result<double> meet(uint32_t ranks, uint32_t keys);

}  // namespace nabla::control
