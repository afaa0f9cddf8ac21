// What a strategy makes of a module: layouts, and the bytes that ranks exchange and keep.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "ir/module.h"
#include "ir/remark.h"
#include "tests/pass_options.h"

namespace nabla::strategy_tests {

using Options = OptionTexts;

/// Of the text; fails the test where there is none.
ir::Module parsed(const std::string& text);

struct Applied {
  std::string layouts;  ///< of the state, then of the inputs
  std::vector<ir::Remark> remarks;
};
Applied applied(const ir::Module& m, const Options& options);

struct Exchanged {
  std::map<std::string, int64_t> payload;  ///< bytes of whole buffers in a run of `step`, by op and axes
  std::map<std::string, int64_t> calls;    ///< the same collectives, counted
  int64_t state = 0;                       ///< bytes of a rank
};
/// `sync`: options of partition.
Exchanged exchanged(const ir::Module& m, Options options, const Options& sync);
Exchanged exchanged(const ir::Module& m, Options options, const std::string& grad_sync = "");

}  // namespace nabla::strategy_tests
