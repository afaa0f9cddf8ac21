// What every engine of communication does: one suite, which each rank runs by itself.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/comm/comm.h"

namespace nabla::comm {

/// The table (ranks.fbs) of one class of ranks on a mesh: group 0 is all, group 1 + d those along axis d; channel 0 goes
/// to the next rank, channel 1 comes from the one before, in a row that ends.
std::vector<uint8_t> test_table(const std::vector<uint32_t>& axes);

/// Runs every collective on every dtype and reduction, at sizes from nothing to some MiB that ranks do not divide evenly,
/// one after the other and several at once. Returns what was wrong, or nothing. `quick`: small sizes alone.
std::string check_engine(uint32_t rank, const std::vector<uint32_t>& axes, Communicator& peers, bool quick);

}  // namespace nabla::comm
