// A matrix product as cuBLASLt describes it: along columns, D = epilogue(op(A) op(B) + C + bias).
#pragma once

#include <atomic>
#include <cstdint>
#include <string>

#include "runtime/base/dtype.h"

namespace nabla::fake_cublaslt {

/// cublasLtMatrixLayout_t: columns of `rows` elements, `ld` apart.
struct Layout {
  int type = 0;
  uint64_t rows = 0, columns = 0;
  int64_t ld = 0;
  int32_t batch = 1;
  int64_t stride = 0;
  /// Bytes from the first element to past the last.
  uint64_t bytes() const;
};

/// cublasLtMatmulDesc_t
struct Desc {
  int compute = 0, scale = 0;
  int32_t transpose_a = 0, transpose_b = 0;
  uint32_t epilogue = 1;
  const void* bias = nullptr;
};

/// One call; pointers are device addresses.
struct Problem {
  Desc desc;
  Layout a, b, d;
  const void *pa = nullptr, *pb = nullptr;
  void* pd = nullptr;
  const void* pc = nullptr;  ///< null: C counts nothing
  int delay_ms = 0;          ///< that the GPU idles

  /// What the manual forbids; empty: nothing.
  std::string fault() const;
  bool of_bytes() const;  ///< a factor is of 8-bit floats
  /// Sums of f32 (f64 for f64) in the order of k.
  void compute() const;
  uint64_t m() const { return d.rows; }
  uint64_t n() const { return d.columns; }
  uint64_t k() const { return desc.transpose_a ? a.rows : a.columns; }
};

/// So many of the next products take 6 ms more, as on a chip whose clocks are still low.
extern std::atomic<int> cold_products;

/// Of a cudaDataType_t; false: none of those that are known here.
bool dtype_of(int type, DType& out);

}  // namespace nabla::fake_cublaslt
