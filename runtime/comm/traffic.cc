#include "runtime/comm/traffic.h"

#include <algorithm>

namespace nabla::comm {

const char* op_name(format::CollectiveKind kind) {
  switch (kind) {
    case format::CollectiveKind::AllReduce:
      return "all_reduce";
    case format::CollectiveKind::AllGather:
      return "all_gather";
    case format::CollectiveKind::ReduceScatter:
      return "reduce_scatter";
    case format::CollectiveKind::AllToAll:
      return "all_to_all";
    case format::CollectiveKind::Permute:
      return "permute";
    case format::CollectiveKind::Broadcast:
      return "broadcast";
  }
  return "?";
}

Status CountingCommunicator::start(uint32_t ticket, const CollectiveCall& call) {
  auto same = [&](const Traffic& t) { return t.kind == call.kind && t.group == call.group && t.dtype == call.dtype; };
  auto known = std::find_if(counted_.begin(), counted_.end(), same);
  if (known == counted_.end()) known = counted_.insert(known, {call.kind, call.group, call.dtype, 0, 0});
  ++known->calls;
  known->payload_bytes += call.bytes * (call.kind == format::CollectiveKind::AllGather ? members(call.group) : 1);
  return to_.start(ticket, call);
}

}  // namespace nabla::comm
