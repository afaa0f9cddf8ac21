// The part of a GPU's bill that follows from its kernels' code: grids, registers, and the times predicted from them.
#pragma once

#include "codegen/compile_kernels.h"
#include "ir/bill/bill.h"

namespace nabla::driver {

/// Predicts times by the schedules of kernels, before these are compiled. Nothing happens for CPUs.
void predict_by_schedules(const ir::Module& planned, const ir::Target& target, ir::Bill& bill);
/// Adds what the compiler made of the kernels, and predicts times by it. Nothing happens for CPUs.
void predict_by_code(const codegen::TargetCode& code, const ir::Target& target, ir::Bill& bill);

}  // namespace nabla::driver
