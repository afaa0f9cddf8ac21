// How the rows of a procedure are cut into units, and the scratch memory that units need.
#pragma once

#include "ir/kernel_ir/kernel.h"
#include "ir/kernel_ir/procedure_template.h"

namespace nabla::passes {

constexpr int64_t kMostUnits = 1024;
constexpr int64_t kMostScratchUnits = 8;  ///< of a CPU, where each has scratch memory of its own

/// `unit` rows each; the last one may have fewer.
struct RowUnits {
  int64_t unit;
  ir::Dim units;
};
/// At most so many, of two microseconds or more where rows are short. How long units are follows from the upper bounds
/// of sizes, how many there are from the sizes themselves.
RowUnits units_of_rows(const kernel_ir::Procedure& procedure, int64_t most_units);
/// Estimated nanoseconds that a row takes; at least 1.
double row_work(const kernel_ir::Procedure& procedure);
/// Bytes of a unit's own scratch memory; 0: none.
int64_t scratch_of_unit(const kernel_ir::Procedure& procedure, const kernel_ir::ProcedureTemplate& how);
/// Adds the workspace buffers that the template takes.
void add_workspaces(kernel_ir::Kernel& kernel, const kernel_ir::ProcedureTemplate& how, const ir::Dim& units);

}  // namespace nabla::passes
