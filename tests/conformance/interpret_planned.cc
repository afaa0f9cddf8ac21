#include "tests/conformance/interpret_planned.h"

#include <algorithm>
#include <cstring>

#include "ir/kernel_ir/kernel.h"
#include "tests/conformance/planned_run.h"

namespace nabla::conformance {
namespace {

void interpret(const kernel_ir::Kernel& k, const std::vector<PlacedBuffer>& placed) {
  std::vector<Literal> memory(placed.size());
  std::vector<Literal*> buffers(placed.size());
  for (size_t i = 0; i < placed.size(); ++i) {
    const DType dtype = k.buffers[i].dtype;
    size_t first = 0;
    while (placed[first].at != placed[i].at) ++first;
    // An operand may be read in two shapes.
    bool same = first < i && memory[first].dtype() == dtype && memory[first].size() > 0 &&
                memory[first].shape() == placed[i].extents;
    if (!same) memory[i] = Literal::from_bytes(dtype, placed[i].extents, placed[i].at);
    buffers[i] = same ? buffers[first] : &memory[i];
  }
  kernel_ir::interpret(k, buffers);
  for (size_t i = 0; i < placed.size(); ++i)
    if (placed[i].result) std::memcpy(placed[i].at, buffers[i]->data(), buffers[i]->size_bytes());
}

}  // namespace

Result<std::vector<Literal>> interpret_planned(const ir::Module& module, std::string_view entry,
                                               const std::vector<Literal>& inputs, std::vector<Literal>& state) {
  auto launch = [&](size_t kernel, const std::vector<PlacedBuffer>& placed) {
    interpret(*module.kernels[kernel], placed);
  };
  return run_planned(module, entry, inputs, state, {}, launch);
}

}  // namespace nabla::conformance
