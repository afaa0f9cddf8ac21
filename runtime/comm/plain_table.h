// Ranks without a bundle, for whoever only communicates: the grid of some axes.
#pragma once

#include <cstdint>
#include <vector>

namespace nabla::comm {

/// The bytes of a format::Ranks with one class. Its group 0 is all ranks, group 1 + i those along axis i; the last axis is the
/// fastest. Channel 0 sends to the next rank, channel 1 receives from the one before.
std::vector<uint8_t> plain_table(const std::vector<uint32_t>& axes);

}  // namespace nabla::comm
