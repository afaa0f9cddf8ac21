#include "runtime/comm/neighbours.h"

#include <algorithm>

#include "runtime/format/program_check.h"
#include "runtime/format/rank_digits.h"

namespace nabla::comm {

Neighbours neighbours_of(const format::Ranks& ranks, uint32_t rank) {
  Neighbours out;
  const format::Class& of = *ranks.classes()->Get(format::classes_of(ranks)[rank]);
  for (uint32_t g = 0; g < format::size_of(of.groups()); ++g) {
    Neighbours::Group group;
    group.index = of.groups()->Get(g);
    const format::Group& table = *ranks.groups()->Get(group.index);
    group.name = format::view(table.name());
    std::vector<format::Digit> digits = format::digits_of(table.digits());
    uint32_t base = format::base_of(digits, rank);
    for (uint64_t k = 0; k < format::count_of(digits); ++k) group.members.push_back(format::rank_at(digits, base, k));
    group.me = static_cast<uint32_t>(std::find(group.members.begin(), group.members.end(), rank) - group.members.begin());
    out.groups.push_back(std::move(group));
  }
  for (uint32_t c = 0; c < format::size_of(of.channels()); ++c) {
    const format::Channel& channel = *of.channels()->Get(c);
    auto peer = static_cast<uint32_t>(static_cast<int64_t>(rank) + channel.offset());
    out.channels.push_back({channel.sends(), peer, channel.sends() ? channel.peer() : c});
  }
  return out;
}

}  // namespace nabla::comm
