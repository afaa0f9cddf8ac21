// Fuzzes the reader of cubins and what is computed from their facts: whatever the bytes, a value or a diagnostic.
#include <cstddef>
#include <cstdint>

#include "codegen/cuda/occupancy.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const nabla::ir::Target target = nabla::ir::find_target("sm_90a").value();
  auto kernels = nabla::codegen::read_cubin({reinterpret_cast<const char*>(data), size});
  if (!kernels.ok()) return 0;
  for (const nabla::codegen::CubinKernel& k : *kernels)
    if (nabla::codegen::occupancy(k, target, k.max_threads, 1024).blocks > 32) __builtin_trap();
  return 0;
}
