// Element-wise combinations of what ranks have.
#pragma once

#include <cstdint>
#include <span>

#include "runtime/format/program_generated.h"

namespace nabla::comm {

/// Elements [begin, end) of all `parts`, combined in their order, written to the same places of every array of `to`,
/// which may be among the parts. 8- and 16-bit floats are combined in f32 and rounded once; integers wrap; max and min
/// of floats are NaN where one of them is.
void combine(format::Reduction reduction, format::DType dtype, std::span<const void* const> parts,
             std::span<void* const> to, int64_t begin, int64_t end);

}  // namespace nabla::comm
