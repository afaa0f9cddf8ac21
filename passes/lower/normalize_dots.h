// Matrix products in the form that kernels and libraries take.
#pragma once

#include "ir/op_def.h"

namespace nabla::passes {

/// dot_general with several batch, free or contracted dimensions as reshapes around one with at most one of each;
/// operands whose dimensions are interleaved are transposed first. Other nodes stay as they are.
ir::Function normalize_dots(const ir::Function& function, const ir::Module& module, const ir::OpTable& ops);

}  // namespace nabla::passes
