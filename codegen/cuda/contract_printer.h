// Generated matrix products: tiles in shared memory, a register tile per thread, an epilogue per element.
#pragma once

#include <vector>

#include "codegen/print/cpp_writer.h"
#include "ir/kernel_ir/tensor_map.h"

namespace nabla::codegen {

/// Prints the body of the grid, whose blocks have so many threads; the parameters are declared. `at_packs`: all arrays begin at multiples
/// of 16 bytes. Returns the maps of what the copy engine brings, which are parameters map0_, map1_, ... more.
std::vector<kernel_ir::TensorMap> print_product(const kernel_ir::Product& product, const kernel_ir::ProductMapping& cut, int threads,
                                                bool at_packs, CppWriter& out, int& next_temp);

}  // namespace nabla::codegen
