// GPUs by the name that their driver gives them, with the figures of their data sheets. Several of them run the code of one target:
// an H200 has the multiprocessors of an H100, and a faster memory.
#pragma once

#include <string_view>

#include "ir/target.h"

namespace nabla::ir {

struct GpuModel {
  const char* name;  ///< the part of the driver's name that identifies the model, such as "H100 PCIe"
  int compute;       ///< 90: the compute capability is 9.0
  int multiprocessors;
  double memory_gbs;                  ///< bytes read and written in device memory
  double f32_tflops;                  ///< FMA units
  double tensor_tflops, f8_tflops;    ///< tensor cores, dense, f32 sums: bf16, and 8-bit floats (0: they take none)
};

/// The model of the GPU whose driver reports this name: "NVIDIA H200", "NVIDIA A100-SXM4-80GB". If several rows match, the one with the
/// most words is returned. Null if no row matches.
const GpuModel* find_gpu(std::string_view driver_name);

/// The model that predictions for a GPU target are made for: the one in the target's name ("sm_90a:H200"), else the one whose data sheet
/// the target's figures come from ("sm_90a": an H100). Null if the figures are those of no model of the table (sm_86).
const GpuModel* predicted_gpu(const Target& target);
/// Gives the target the figures of a model of its compute capability, such as "H200" or "RTX 4090". E0404 for any other name.
Status predict_for(Target& target, std::string_view gpu);

}  // namespace nabla::ir
