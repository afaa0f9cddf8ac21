// What ranks send in a collective, and how long it takes: a time per message and a rate, per axis of the mesh.
#pragma once

#include <string_view>

#include "ir/sharding.h"

namespace nabla::ir {

/// Between two ranks: a message of b bytes takes message_us + b / bytes_per_us.
struct Link {
  double message_us = 0;
  double bytes_per_us = 1;
};
/// Between ranks that differ along these axes, the slowest of them. Eight ranks in a row, as the mesh counts them, are taken
/// to share a machine.
Link link_along(const Mesh& mesh, const Axes& axes);

/// Bytes that a rank sends in a collective of so many ranks, by the op's name, where it brings `part` bytes.
double sent_bytes(std::string_view op, int64_t ranks, double part);
/// Microseconds of that.
double exchange_us(std::string_view op, const Mesh& mesh, const Axes& axes, double part);

}  // namespace nabla::ir
