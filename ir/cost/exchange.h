// What ranks send in a collective, and how long it takes: a time per message and a rate, per axis of the mesh.
#pragma once

#include "ir/sharding.h"
#include "ir/target.h"
#include "runtime/base/collective.h"

namespace nabla::ir {

/// Between two ranks: a message of b bytes takes message_us + b / bytes_per_us.
struct Link {
  double message_us = 0;
  double bytes_per_us = 1;
};
/// Between ranks that differ along these axes, the slowest of them. Eight ranks in a row, as the mesh counts them, are taken
/// to share a machine.
Link link_along(const Mesh& mesh, const Axes& axes);

/// Bytes that a rank sends in a collective of `ranks` ranks. `part` is the size of its operand in bytes.
double sent_bytes(CollectiveKind kind, int64_t ranks, double part);
/// Bytes that a rank which is a thread among others reads and writes for it (runtime/comm/local.h).
double moved_bytes(CollectiveKind kind, int64_t ranks, double part);
/// Microseconds of that over links: what paths between layouts are chosen by, wherever ranks run.
double exchange_us(CollectiveKind kind, const Mesh& mesh, const Axes& axes, double part);
/// Of ranks of this target: where its exchanges were measured, all ranks of the mesh are threads of that machine. Of more of them than
/// were measured each waits, and has of the memory, in proportion.
double exchange_us(CollectiveKind kind, const Mesh& mesh, const Axes& axes, double part, const Target& target);
/// Whether these ranks compute nothing while they exchange values: threads do both.
bool exchange_computes(const Target& target);

}  // namespace nabla::ir
