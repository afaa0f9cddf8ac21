// GPUs by the name that their driver gives them, with the figures of their data sheets. Several of them run the code of one target:
// an H200 has the multiprocessors of an H100, and a faster memory.
#pragma once

#include <string_view>

namespace nabla::ir {

struct GpuModel {
  const char* name;  ///< words of the driver's name that no other model has, such as "H100 PCIe"
  int compute;       ///< 90: the compute capability is 9.0
  int multiprocessors;
  double memory_gbs;                  ///< bytes read and written in device memory
  double f32_tflops;                  ///< FMA units
  double tensor_tflops, f8_tflops;    ///< tensor cores, dense, f32 sums: bf16, and 8-bit floats (0: they take none)
};

/// The model that a driver calls so: "NVIDIA H200", "NVIDIA A100-SXM4-80GB". Of several that fit, the one with most words. Null: none of
/// the table.
const GpuModel* find_gpu(std::string_view driver_name);

}  // namespace nabla::ir
