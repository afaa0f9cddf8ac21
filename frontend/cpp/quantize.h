// Numbers in few bits with a scale per block.
#pragma once

#include "frontend/cpp/array.h"

namespace nabla {

/// Values in a narrow dtype and the scales that they are multiplied by, one per block of the last dimension.
struct Quantized {
  Tensor values, scales;
};
/// Blocks of `block` neighbours in the last dimension, which it divides: the largest magnitude of a block becomes the
/// largest number of `dtype` (i8, f8e4m3 or f8e5m2; 127 for i8). Integers are rounded to nearest even.
Quantized quantize(const Arg& x, int64_t block, DType dtype = DType::kI8);
/// values * scales in the scales' dtype.
Tensor dequantize(const Arg& values, const Arg& scales);
/// dequantize(quantize(x)), through which derivatives pass as if it were x: the straight-through estimator.
Tensor fake_quantize(const Arg& x, int64_t block, DType dtype = DType::kI8);

/// Four-bit codes of the NF4 codebook (Dettmers et al., "QLoRA", 2023), two per byte: u8 [n / 2] and f32 scales
/// [n / block] for n elements in row-major order; an even `block` divides n.
Quantized quantize_nf4(const Arg& w, int64_t block = 64);
Tensor dequantize_nf4(const Quantized& q, const Shape& shape);

}  // namespace nabla
