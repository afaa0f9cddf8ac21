#include "runtime/comm/block_rounds.h"

#include <bit>
#include <cstring>

namespace nabla::comm {

void BlockRounds::begin(uint32_t members, uint32_t me, uint64_t block_bytes) {
  members_ = members, me_ = me, block_ = block_bytes;
  blocks_.resize(members * block_bytes);
  sent_.reserve((members + 1) / 2 * block_bytes), received_.reserve((members + 1) / 2 * block_bytes);
}

uint32_t BlockRounds::rounds() const { return static_cast<uint32_t>(std::bit_width(members_ - 1)); }

void BlockRounds::begin_round(uint32_t round) {
  sent_.clear();
  for (uint32_t way = 0; way < members_; ++way)
    if ((way >> round & 1) != 0) sent_.insert(sent_.end(), at(way), at(way) + block_);
  received_.resize(sent_.size());
}

void BlockRounds::end_round(uint32_t round) {
  if (block_ == 0) return;
  const char* next = received_.data();
  for (uint32_t way = 0; way < members_; ++way)
    if ((way >> round & 1) != 0) std::memcpy(at(way), next, block_), next += block_;
}

}  // namespace nabla::comm
