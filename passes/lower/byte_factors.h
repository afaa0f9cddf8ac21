// Products of 8-bit floats that a program converts to multiply them.
#pragma once

#include "ir/target.h"
#include "passes/lower/tensor_graph.h"

namespace nabla::passes {

/// A matrix product of two factors that are, each, 8-bit floats or such as were converted to f16, bf16 or f32, reads them as they lie in
/// memory, where tensor cores of the target multiply them: the conversions keep every value. The product keeps its own dtype.
void read_byte_factors(TensorGraph& graph, const ir::Target& target);

}  // namespace nabla::passes
