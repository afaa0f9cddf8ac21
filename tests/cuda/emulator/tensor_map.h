// Tensor maps, as a driver makes them.
#pragma once

#include <cstdint>

#include "tests/cuda/emulator/abi.h"

namespace nabla::emulator {

/// Of the enumerations of the CUDA driver API: data types and swizzles.
constexpr int kUint8 = 0, kUint16 = 1, kSwizzle128 = 3;

/// The arguments of cuTensorMapEncodeTiled, in its order.
struct TensorMapRequest {
  int data_type;
  uint32_t rank;
  void* address;
  const uint64_t *sizes, *strides;  ///< elements; bytes, of all dimensions but the first
  const uint32_t *box, *element_strides;
  int interleave, swizzle, l2_promotion, fill;
};

/// Null: made. Else which rule of the CUDA driver API the request breaks, or that it asks for what the emulator has not: elements of one
/// or two bytes whose rows in shared memory are 128 bytes, swizzled.
const char* make_tensor_map(const TensorMapRequest& request, NbEmuTensorMap& out);

}  // namespace nabla::emulator
