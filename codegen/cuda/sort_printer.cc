#include "codegen/cuda/sort_printer.h"

#include <algorithm>

namespace nabla::codegen {

using namespace kernel_ir;  // NOLINT: this file prints kernel_ir

SortGrid sort_grid(const Kernel& kernel, const ir::Target& target) {
  const Procedure& p = *kernel.procedure;
  int64_t elements = elements_sorted_by_a_block(p, target.cuda.block_shared_bytes);
  SortGrid out;
  ir::Dim rows = p.numbers[0] * p.numbers[2];
  out.launch.threads = static_cast<int>(std::clamp<int64_t>(elements / 2, 32, 1024));
  out.launch.shared_bytes = static_cast<int>(elements * kSortedBytes);
  out.launch.blocks = ir::Dim::max(ir::Dim::min(rows, 1 << 20), 1);
  std::string args = size_text(rows);
  for (size_t i = 1; i < p.numbers.size(); ++i) args += ", " + size_text(p.numbers[i]);
  for (BufferRole role : {BufferRole::kOut, BufferRole::kIn})
    for (const Buffer& b : kernel.buffers)
      if (b.role == role) args += ", " + cpp_name(b.name);
  out.call = fmt::format("nb_block_{}((nb_sorted*)room_, {}, {});", p.def->name, elements, args);
  return out;
}

}  // namespace nabla::codegen
