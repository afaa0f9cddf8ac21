// What ranks exchange: every collective of an entry, with its bytes and its time.
#pragma once

#include <nlohmann/json.hpp>

#include "cli/driver/report_padding.h"
#include "ir/module.h"
#include "ir/target.h"

namespace nabla::driver {

struct Exchanges {
  nlohmann::ordered_json rows;
  /// Of a run: `sent_bytes` and `us` of the rows as often as they run; of a branch those of the side that sends most, or takes longest.
  int64_t sent_bytes = 0;
  double us = 0;
};
/// A row per collective that a run of the function may start, by the order in which they stand, those of loops and of both sides of
/// branches in their places: `op`, `axes`, `ranks`, `dtype`, `elements` and `payload_bytes` of the whole buffer (what all_gather
/// brings together, what others start from), `padding_bytes` of it, as the mean over the ranks, where `padding` is given,
/// `sent_bytes` by a rank, `us` (ir/cost/exchange.h) and `times` that it runs, of a while once; `of`, the op that made its operand,
/// `reason`, a sentence, `source`, and of a bucket the `values` that lie in it: `of`, `elements` of a rank and `source` of each. Sizes are
/// the largest. Empty without a mesh.
Exchanges exchanges_of(const ir::Function& f, const ir::Module& local, const ir::Target& target, const Padding* padding = nullptr);
/// E0402 for an entry in a run of which a rank sends more than `most` bytes, with the collective that sends the most.
Status check_exchanges(const ir::Module& local, int64_t most);

}  // namespace nabla::driver
