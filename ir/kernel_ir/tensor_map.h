// Boxes of a product's factors that the copy engine of sm_90 (TMA) brings into shared memory.
#pragma once

#include <optional>
#include <vector>

#include "ir/kernel_ir/product.h"

namespace nabla::kernel_ir {

/// An array as the engine walks it: what a CUtensorMap is made of, at the launch, besides the array's address. Dimensions begin with
/// the fastest one.
struct TensorMap {
  int buffer = -1;
  int element_bytes = 0;
  int64_t offset = 0;            ///< bytes, of the first element
  std::vector<int64_t> sizes;    ///< elements; what lies beyond reads as 0
  std::vector<int64_t> strides;  ///< bytes, of all dimensions but the fastest
  std::vector<int> box;          ///< elements; a row of it is 128 bytes, whose parts of 16 are swizzled
};

/// The map of a factor's tiles. `axes`: along which of the product's each dimension runs. A tile of `rows` along the factor's own
/// axis is one box where k is fastest; else a box has 128 bytes of that axis, and others follow.
struct FactorMap {
  TensorMap map;
  std::vector<int> axes;
};

/// How the factor's tiles of 128 bytes of k are copied; nullopt where sizes are not all known, or not such that the driver makes a
/// map of them (CUDA driver API, cuTensorMapEncodeTiled): up to five dimensions, strides that are multiples of 16 bytes and of each other.
/// The array must begin at a multiple of 16 bytes.
std::optional<FactorMap> factor_map(const Product& product, const FactorTile& tile);

/// Of a block that multiplies by warpgroups: tiles of both factors with so many rows together, after which a barrier for each (mbarrier)
/// says that the engine has copied it.
constexpr int kCopyBarrierBytes = 8;
constexpr int warpgroup_shared_bytes(int stages, int rows) { return stages * (rows * kWarpgroupTileBytes + kCopyBarrierBytes); }

}  // namespace nabla::kernel_ir
