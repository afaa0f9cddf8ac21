#include "tests/cuda/emulator/tensor_map.h"

namespace nabla::emulator {

const char* make_tensor_map(const TensorMapRequest& r, NbEmuTensorMap& out) {
  constexpr int kPromote256 = 3;
  if (reinterpret_cast<uintptr_t>(&out) % 64 != 0) return "the map does not begin at a multiple of 64 bytes";
  if (r.rank < 1 || r.rank > 5) return "a rank beyond 1 to 5";
  if (reinterpret_cast<uintptr_t>(r.address) % 16 != 0) return "an address that is no multiple of 16";
  if (r.data_type != kUint8 && r.data_type != kUint16) return "not emulated: other elements than of 1 and 2 bytes";
  if (r.interleave != 0 || r.fill != 0 || r.l2_promotion < 0 || r.l2_promotion > kPromote256) return "not emulated: interleaving or NaN";
  out = {kNbEmuTensorMap, static_cast<int>(r.rank), r.data_type == kUint8 ? 1 : 2, static_cast<const char*>(r.address), {}, {}, {}};
  for (uint32_t d = 0; d < r.rank; ++d) {
    if (r.sizes[d] < 1 || r.sizes[d] > uint64_t{1} << 32) return "a size beyond 1 to 2^32";
    if (r.box[d] < 1 || r.box[d] > 256) return "a box beyond 1 to 256 elements";
    if (r.element_strides[d] != 1) return "not emulated: steps of more than one element";
    out.sizes[d] = r.sizes[d], out.box[d] = r.box[d];
    out.strides[d] = d == 0 ? static_cast<uint64_t>(out.element) : r.strides[d - 1];
    if (d > 0 && (out.strides[d] % 16 != 0 || out.strides[d] >= uint64_t{1} << 40)) return "a stride that is no multiple of 16 below 2^40";
    if (d > 1 && out.strides[d] % out.strides[d - 1] != 0) return "strides that are no multiples of each other";
  }
  if (r.swizzle != kSwizzle128 || r.box[0] * out.element != 128) return "not emulated: rows of other than 128 swizzled bytes";
  return nullptr;
}

}  // namespace nabla::emulator
