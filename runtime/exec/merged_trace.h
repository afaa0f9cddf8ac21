// The traces of ranks in several processes as one, on the clock of rank 0.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "runtime/exec/trace.h"

namespace nabla::exec {

/// As comm::World::pass.
using Pass = std::function<Status(uint32_t from, uint32_t to, void* data, uint64_t bytes)>;

/// Every process of one rank calls it at the same time; `own` is the rank's. How far clocks are apart is measured by messages to
/// and fro, and is right to half the time of the quickest; the notes say it. The trace at rank 0, nothing at others. Errors of `pass`.
Result<std::optional<std::string>> merged_trace(const TraceRecorder& own, uint32_t rank, uint32_t ranks, const Pass& pass,
                                                const std::string& more);

}  // namespace nabla::exec
