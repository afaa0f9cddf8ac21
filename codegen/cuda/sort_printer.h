// Sorts whose rows blocks keep in shared memory, whole or in parts.
#pragma once

#include "codegen/cuda/template_grid.h"

namespace nabla::codegen {

/// One call: a block holds what it must keep of a row.
TemplateCalls block_sort_calls(const kernel_ir::Kernel& kernel);
/// Per key, the least significant first, a call that sorts parts of rows, and one for each doubling of the parts'
/// length.
TemplateCalls merge_sort_calls(const kernel_ir::Kernel& kernel);

}  // namespace nabla::codegen
