#include "ir/kernel_ir/tensor_map.h"

#include <algorithm>

#include "ir/kernel_ir/packs.h"

namespace nabla::kernel_ir {
namespace {

constexpr size_t kMostDimensions = 5;
constexpr int kMostOfBox = 256;
constexpr int64_t kPack = 16, kMostStride = int64_t{1} << 40, kMostSize = int64_t{1} << 32;

struct Dimension {
  int axis;
  int64_t size, stride;  // elements, bytes
  int box;
};

// Slices of a longer sum: the whole of it is the dimension, along which they follow each other.
bool is_slice(const Product& p, int axis) { return p.rest_of_k && uses_axis(p.rest_of_k, axis); }

std::optional<int64_t> number(const ir::Dim& d) { return d.is_static() ? std::optional(d.value()) : std::nullopt; }

}  // namespace

std::optional<FactorMap> factor_map(const Product& p, const FactorTile& t) {
  const Kernel& k = p.kernel;
  const std::optional<Affine> flat = flat_offset(t.load->args, k.buffers[t.load->ref].shape);
  const ir::Dim whole_k = p.rest_of_k ? p.whole_k : k.axes[p.c.k].extent;
  if (!flat || !step_of_copies(p, t) || !number(flat->constant) || !number(whole_k)) return std::nullopt;
  const int bytes = bytes_of(t.dtype), across = kWarpgroupTileBytes / bytes;
  // A slice that ends inside of a tile would read on into the next one.
  if (p.rest_of_k && !(number(k.axes[p.c.k].extent) && k.axes[p.c.k].extent.value() % across == 0)) return std::nullopt;

  const int fast_axis = t.k_fast ? p.c.k : t.other, rows_axis = t.k_fast ? t.other : p.c.k;
  std::vector<Dimension> slow;
  std::optional<Dimension> fast;
  for (const auto& [axis, coefficient] : flat->coefficients) {
    const auto size = number(axis == p.c.k ? whole_k : k.axes[axis].extent), step = number(coefficient);
    if (!size || !step || *step < 0 || *size < 1 || *size > kMostSize) return std::nullopt;
    if (is_slice(p, axis)) continue;
    Dimension d{axis, *size, *step * bytes, 1};
    if (axis == fast_axis) {
      d.box = across;
      fast = d;
      continue;
    }
    if (axis == rows_axis) d.box = t.k_fast ? t.rows : across;
    if (d.stride % kPack != 0 || d.stride >= kMostStride || d.box > kMostOfBox) return std::nullopt;
    slow.push_back(d);
  }
  if (!fast || fast->stride != bytes || flat->constant.value() * bytes % kPack != 0) return std::nullopt;
  if (slow.size() + 1 > kMostDimensions || std::ranges::none_of(slow, [](const Dimension& d) { return d.box > 1; })) return std::nullopt;
  std::ranges::sort(slow, {}, &Dimension::stride);
  for (size_t i = 1; i < slow.size(); ++i)
    if (slow[i].stride % slow[i - 1].stride != 0) return std::nullopt;

  FactorMap out{{t.load->ref, bytes, flat->constant.value() * bytes, {fast->size}, {}, {fast->box}}, {fast->axis}};
  for (const Dimension& d : slow) {
    out.map.sizes.push_back(d.size), out.map.strides.push_back(d.stride), out.map.box.push_back(d.box);
    out.axes.push_back(d.axis);
  }
  return out;
}

}  // namespace nabla::kernel_ir
