// A call of a procedure's template, as one grid.
#pragma once

#include <string>
#include <vector>

#include "codegen/cuda/printer.h"
#include "codegen/print/expr_printer.h"

namespace nabla::codegen {

struct TemplateGrid {
  std::string call;    ///< its dynamic shared memory is `room_`, where there is any
  std::string suffix;  ///< what follows the kernel's symbol in the grid's name
  CudaGrid launch;     ///< without the symbol
};
/// In the order in which they run.
using TemplateGrids = std::vector<TemplateGrid>;

}  // namespace nabla::codegen
