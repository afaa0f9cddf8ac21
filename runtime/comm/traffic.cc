#include "runtime/comm/traffic.h"

#include <algorithm>

#include "runtime/format/collective.h"

namespace nabla::comm {

Status CountingCommunicator::start(uint32_t ticket, const CollectiveCall& call) {
  auto same = [&](const Traffic& t) { return t.kind == call.kind && t.group == call.group && t.dtype == call.dtype; };
  auto known = std::find_if(counted_.begin(), counted_.end(), same);
  if (known == counted_.end()) known = counted_.insert(known, {call.kind, call.group, call.dtype, 0, 0});
  ++known->calls;
  known->payload_bytes += std::max(call.bytes, result_bytes<uint64_t>(format::def_of(call.kind), call.bytes, members(call.group)));
  return to_.start(ticket, call);
}

}  // namespace nabla::comm
