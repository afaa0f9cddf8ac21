#include "passes/lower/launch.h"

#include <fmt/format.h>

namespace nabla::passes {

ir::Attrs launch_attrs(const std::string& kernel, const std::vector<ir::Type>& results) {
  std::string types;
  ir::Shape sizes;
  for (const ir::Type& t : results) {
    types += fmt::format("{}{}[", types.empty() ? "" : ";", name_of(t.dtype));
    for (size_t d = 0; d < t.shape.size(); ++d) {
      types += (d ? "," : "") + (t.shape[d].is_static() ? t.shape[d].str() : "?");
      if (!t.shape[d].is_static()) sizes.push_back(t.shape[d]);
    }
    types += "]";
  }
  return {{"kernel", kernel}, {"results", types}, {"sizes", sizes}};
}

kernel_ir::KernelPtr DistinctKernels::find_or_add(const kernel_ir::KernelPtr& kernel) {
  kernel_ir::Kernel nameless = *kernel;
  nameless.name = "";
  for (size_t i = 0; i < nameless.buffers.size(); ++i) nameless.buffers[i].name = "b" + std::to_string(i);
  return first_.try_emplace(kernel_ir::print(nameless), kernel).first->second;
}

}  // namespace nabla::passes
