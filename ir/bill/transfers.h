// Copies between host memory and GPU memory in a run of an entry.
#pragma once

#include <string>
#include <vector>

#include "ir/module.h"
#include "ir/target.h"

namespace nabla::ir {

struct CopiedLeaf {
  std::string name;
  int64_t bytes = 0;
  int64_t copies = 1;
  LocationRef location;
};
/// All copies of a run in one direction.
struct Transfers {
  int64_t bytes = 0, copies = 0;
  double us = 0;                   ///< the least time that the link needs
  std::vector<CopiedLeaf> leaves;  ///< in the order of their first copies
};
/// Returns the copies in one direction. If there are none, `copies` is 0. Requires a planned module for a GPU.
Transfers transfers_of(const Module& planned, const Entry& entry, const Target& target, bool to_host);

}  // namespace nabla::ir
