// Generated matrix products: tiles in shared memory, a register tile per thread, an epilogue per element.
#pragma once

#include "codegen/print/cpp_writer.h"
#include "ir/kernel_ir/product.h"

namespace nabla::codegen {

/// Prints the body of the grid, whose blocks have so many threads; the parameters are declared.
void print_product(const kernel_ir::Product& product, const kernel_ir::ProductMapping& cut, int threads,
                   CppWriter& out, int& next_temp);

}  // namespace nabla::codegen
