// An exchange in which every member of a group has a small block for every other member, in few messages.
#pragma once

#include <cstdint>
#include <vector>

namespace nabla::comm {

/// The blocks of one member. In round k it sends one message to the member 2^k further, with all blocks whose way has bit k, and receives
/// one from the member 2^k before. So a member sends log2(members) messages instead of members - 1. A block is sent once for every bit of
/// its way, so a member sends about log2(members) / 2 times as many bytes as without rounds.
/// Source: Bruck, Ho, Kipnis, Weathersby, "Efficient algorithms for all-to-all communications", 1997.
/// Example: of 8 members, the block of member 1 for member 6 has the way 5: it is sent from 1 to 2 in round 0, and from 2 to 6 in round 2.
class BlockRounds {
 public:
  void begin(uint32_t members, uint32_t me, uint64_t block_bytes);
  uint32_t rounds() const;
  /// The room of the block for a member. It is filled before the first round.
  char* to_member(uint32_t member) { return at((member + members_ - me_) % members_); }
  /// The block that a member had for this one. It is there after the last round.
  const char* from_member(uint32_t member) { return at((me_ + members_ - member) % members_); }

  /// Makes the message of a round, after `end_round` of the one before.
  void begin_round(uint32_t round);
  /// Takes the blocks out of the message that was received.
  void end_round(uint32_t round);
  uint32_t receiver(uint32_t round) const { return (me_ + (1u << round)) % members_; }
  uint32_t sender(uint32_t round) const { return (me_ + members_ - (1u << round)) % members_; }
  const char* sent() const { return sent_.data(); }
  char* received() { return received_.data(); }
  uint64_t message_bytes() const { return sent_.size(); }

 private:
  char* at(uint32_t way) { return blocks_.data() + way * block_; }

  uint32_t members_ = 1, me_ = 0;
  uint64_t block_ = 0;
  std::vector<char> blocks_, sent_, received_;
};

}  // namespace nabla::comm
