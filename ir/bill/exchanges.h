// What ranks exchange: every collective of an entry, with its bytes and its time.
#pragma once

#include <string>
#include <vector>

#include "ir/bill/padding.h"
#include "ir/module.h"
#include "ir/target.h"

namespace nabla::ir {

/// A value in a bucket: several values that one collective exchanges together.
struct BucketValue {
  std::string of;         ///< the op that made it
  int64_t elements = 0;   ///< of a rank
  LocationRef location;
};
/// A collective that a run may start. Symbolic sizes have their largest values.
struct Exchange {
  std::string op;
  Axes axes;
  int64_t ranks = 1;
  DType dtype = DType::kF32;
  /// The size of the buffer: the result of an all_gather, the operand of any other collective.
  int64_t elements = 0, payload_bytes = 0;
  int64_t padding_bytes = 0;  ///< in the buffer, averaged over the ranks; 0 if the padding is unknown
  int64_t sent_bytes = 0;     ///< by a rank
  double us = 0;              ///< ir/cost/exchange.h
  int64_t times = 1;          ///< how often a run executes it; a while counts one iteration
  std::string of, reason;     ///< the op that made the operand; a sentence
  LocationRef location;
  std::vector<BucketValue> values = {};  ///< if the operand is a bucket
};
struct Exchanges {
  /// In program order. The collectives of loops and of both sides of branches are listed in their places.
  std::vector<Exchange> rows;
  /// Totals of one run. A branch counts the larger value of its two sides.
  int64_t sent_bytes = 0;
  double us = 0;
};
/// Empty without a mesh. `padding` may be null.
Exchanges exchanges_of(const Function& f, const Module& local, const Target& target, const Padding* padding = nullptr);
/// E0402 if a rank sends more than `most` bytes in a run of an entry. The error names the collective that sends the most.
Status check_exchanges(const Module& local, int64_t most);

}  // namespace nabla::ir
