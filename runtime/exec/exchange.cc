#include "runtime/exec/engine.h"
#include "runtime/exec/plan.h"

namespace nabla::exec {

Status start_exchange(comm::Communicator& peers, const Control& control, void* const* places) {
  auto bytes = static_cast<uint64_t>(control.bytes);
  const format::Instruction* at = control.exchange;
  if (const format::Send* send = at->action_as_Send())
    return peers.send(control.ticket, send->channel(), places[0], bytes, at);
  if (const format::Recv* recv = at->action_as_Recv())
    return peers.recv(control.ticket, recv->channel(), places[0], bytes, at);
  const format::Collective& call = *at->action_as_Collective();
  return peers.start(control.ticket, {.kind = call.kind(),
                                      .reduction = call.reduction(),
                                      .dtype = call.dtype(),
                                      .group = call.group(),
                                      .from = places[0],
                                      .to = places[1],
                                      .bytes = bytes,
                                      .root = call.root(),
                                      .targets = call.targets() == nullptr ? nullptr : call.targets()->data(),
                                      .at = at});
}

}  // namespace nabla::exec
