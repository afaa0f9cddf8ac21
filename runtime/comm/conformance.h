// What every engine of communication does: one suite, which each rank runs by itself.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "runtime/comm/comm.h"
#include "runtime/comm/plain_table.h"

namespace nabla::comm {

/// Runs every collective on every dtype and reduction, at sizes from nothing to some MiB that ranks do not divide evenly,
/// one after the other and several at once. Returns what was wrong, or nothing. `quick`: small sizes alone. `has`: does the engine
/// have calls of this kind, dtype and reduction? Null: all.
std::string check_engine(uint32_t rank, const std::vector<uint32_t>& axes, Communicator& peers, bool quick,
                         const std::function<bool(const CollectiveCall&)>& has = nullptr);

}  // namespace nabla::comm
