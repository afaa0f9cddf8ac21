// Rows that a team of threads keeps in shared memory while it executes an iteration.
#pragma once

#include <vector>

#include "ir/kernel_ir/kernel.h"

namespace nabla::kernel_ir {

struct TeamRow {
  int value;   ///< into Kernel::values
  int copies;  ///< 2 of what loops carry: one for the next iteration
};
/// The rows of statements that a team executes together.
std::vector<TeamRow> team_rows(const Kernel& kernel, const Body& body);
/// The extents of its own axes.
ir::Shape row_shape(const Kernel& kernel, const ValueInfo& row);
/// Bytes of one copy at the sizes' upper bounds, a multiple of 16.
int64_t row_bytes(const Kernel& kernel, int value);
/// Bytes of shared memory that one team needs for the rows of `body`.
int64_t team_rows_bytes(const Kernel& kernel, const Body& body);

}  // namespace nabla::kernel_ir
