// Simulated ranks: as many connections as a large job has, all served by one thread. For tests and benches of the coordinator.
#pragma once

#include <cstdint>

#include "runtime/base/diagnostic.h"

namespace nabla::control {

/// Ranks come to a coordinator, all but rank 0 ask its store for `keys` keys each before rank 0 puts them, get their values, and
/// leave. Returns the seconds from the first connection to the end of the job. An error if any rank gets no answer.
Result<double> meet(uint32_t ranks, uint32_t keys);

}  // namespace nabla::control
