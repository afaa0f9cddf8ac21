// With whom one rank communicates, by the indices that its programs use.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/format/ranks_generated.h"

namespace nabla::comm {

struct Neighbours {
  struct Group {
    uint32_t index = 0;             ///< of the table, the same on all members
    std::string name;               ///< "dp"
    std::vector<uint32_t> members;  ///< ranks
    uint32_t me = 0;                ///< which member the rank is
  };
  struct Channel {
    bool sends = false;
    uint32_t peer = 0;    ///< the rank at the other end
    uint32_t number = 0;  ///< what the receiver's class calls the channel
  };
  std::vector<Group> groups;
  std::vector<Channel> channels;
};

/// `ranks` has passed the checks of the bundle reader.
Neighbours neighbours_of(const format::Ranks& ranks, uint32_t rank);

}  // namespace nabla::comm
