// A call of a procedure's template, in a grid of its own.
#pragma once

#include <string>
#include <vector>

#include "codegen/print/expr_printer.h"

namespace nabla::codegen {

struct TemplateCall {
  std::string text;    ///< its dynamic shared memory is `room_`, where there is any
  std::string suffix;  ///< what follows the kernel's symbol in the grid's name
};
/// In the order of the schedule's grids.
using TemplateCalls = std::vector<TemplateCall>;

/// What the schedule says of a grid of the kernel's template.
inline const kernel_ir::TemplateMapping& template_mapping(const kernel_ir::Kernel& kernel, size_t grid) {
  return std::get<kernel_ir::TemplateMapping>(cuda_schedule_of(kernel).grids.at(grid).mapping);
}

}  // namespace nabla::codegen
