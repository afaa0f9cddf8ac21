// The rows of the procedures that stand in files of their own. Internal to procedure.cc.
#pragma once

#include <span>

#include "ir/kernel_ir/procedure.h"

namespace nabla::kernel_ir {

/// Matrices: a row is one of them; numbers are outer, its rows, 1, then what the row of the table names.
std::span<const ProcedureDef> linalg_procedures();
/// Sequences: numbers are outer, their length, 1, inverse.
std::span<const ProcedureDef> fft_procedures();
/// Attention: numbers are heads of all examples, queries, 1, then what the rows of the table name. They have code for
/// GPUs only.
std::span<const ProcedureDef> attention_procedures();

}  // namespace nabla::kernel_ir
