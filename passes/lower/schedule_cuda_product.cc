// Which tiles the blocks of a matrix product compute.
#include <algorithm>

#include "ir/kernel_ir/tensor_map.h"
#include "ir/kernel_ir/window_product.h"
#include "passes/lower/schedule_cuda.h"

namespace nabla::passes {

using namespace kernel_ir;  // NOLINT: this file schedules kernel_ir

namespace {

constexpr int kStagesAlone = 6;  // 197 KB of tiles of 128 x 128

class ProductScheduler {
 public:
  ProductScheduler(const Product& p, const ir::Target& target) : p_(p), target_(target) {}

  // f32 sums of bf16 or of f16, of 8-bit floats where tensor cores take them, or of f32 where the target may round factors to tf32.
  bool fits_tensor_cores() const {
    bool worth = most(p_.c.m) >= 16 && most(p_.c.n) >= 8 && most(p_.c.k) >= 16;
    std::optional<DType> d = common_dtype(p_);
    bool known = d && (d == DType::kBF16 || d == DType::kF16 || (d == DType::kF32 && target_.tf32) ||
                       (is_byte_float(*d) && target_.cuda.multiplies_bytes()));
    return worth && is_float(p_.c.dtype) && p_.c.dtype != DType::kF64 && known;
  }
  // Sums in registers, of tiles that are not mostly empty.
  bool windows_pay() const {
    return fits_tensor_cores() ||
           (most(p_.c.m) >= 16 && most(p_.c.n) >= 8 && most(p_.c.k) >= 16 && is_float(p_.c.dtype));
  }
  Grid grid() const {
    if (!fits_tensor_cores()) return by_multiply_adds();
    return fits_warpgroups() ? by_warpgroups() : on_tensor_cores();
  }

 private:
  const ir::Dim& size(int axis) const { return p_.kernel.axes[axis].extent; }
  int64_t most(int axis) const { return size(axis).bounds().max; }
  ir::Dim batch() const {
    ir::Dim n = 1;
    for (int b : p_.c.batch) n = n * size(b);
    return n;
  }
  ir::Dim tiles(int rows, int columns) const {
    return batch() * ir::Dim::ceildiv(size(p_.c.m), rows) * ir::Dim::ceildiv(size(p_.c.n), columns);
  }
  Grid of(const ProductMapping& m, int threads, int shared_bytes, int beside) const {
    return {m, block_count(tiles(m.tile_rows, m.tile_columns)), threads, shared_bytes, beside};
  }

  // Factors of halves whose tiles are copied by packs that move evenly along k, on a chip that has wgmma; of 8-bit floats those that lie
  // with k fastest, for wgmma turns none.
  bool fits_warpgroups() const {
    const int bytes = bytes_of(*common_dtype(p_));
    bool large = most(p_.c.m) > 64 && most(p_.c.n) > 64 && most(p_.c.k) >= kWarpgroupTileBytes / bytes;
    if (!has_warpgroups(target_) || bytes > 2 || !large) return false;
    FactorTile a = lhs_tile(p_, 128), b = rhs_tile(p_, 128);
    return (bytes == 2 || (a.k_fast && b.k_fast)) && step_of_copies(p_, a) && step_of_copies(p_, b);
  }
  Grid by_warpgroups() const {
    // Of 8-bit floats registers hold the sums of a tile of k beside those of all, and leave no room for a second block.
    if (bytes_of(*common_dtype(p_)) == 1)
      return of({ProductMapping::By::kWarpgroups, 128, 128, 6}, 2 * kWarpgroupThreads, warpgroup_shared_bytes(6, 128 + 128), 1);
    // The wider tile reads its factors less often, and leaves no room for a second block.
    bool wide = most(p_.c.n) > 128 && tiles(128, 256).bounds().min >= target_.cuda.multiprocessors;
    int rows = 128, columns = wide ? 256 : 128, beside = wide ? 1 : 2, stages = wide ? 4 : 3;
    // If there are no more blocks than multiprocessors, each runs alone on one: the memory of a second block holds tiles on their way.
    if (!wide && tiles(rows, columns).bounds().max <= target_.cuda.multiprocessors) beside = 1, stages = kStagesAlone;
    int threads = rows / kWarpgroupRows * kWarpgroupThreads;
    return of({ProductMapping::By::kWarpgroups, rows, columns, stages}, threads, warpgroup_shared_bytes(stages, rows + columns), beside);
  }

  Grid by_multiply_adds() const {
    int64_t m = most(p_.c.m), n = most(p_.c.n);
    int reg = m > 32 && n > 32 ? 4 : m > 16 || n > 16 ? 2 : 1;
    // Twice as many results for what a thread reads, where that leaves work for nearly all and sums fit registers.
    bool many = 8 * tiles(8 * kThreadSide, 8 * kThreadSide).bounds().min >= 7 * target_.cuda.multiprocessors;
    if (m > 64 && n > 64 && many && p_.parts.empty() && bytes_of(p_.c.dtype) <= 4) reg = 8;
    auto all = [&](int side) { return static_cast<double>(tiles(side, side).bounds().max); };
    // Windows often have few results, and much to sum for each: smaller tiles then keep more of the GPU at work.
    while (!p_.parts.empty() && reg > 2 && all(kThreadSide * reg) < 2 * target_.cuda.multiprocessors) reg /= 2;
    const int side = kThreadSide * reg, bytes = thread_tile_bytes(p_.c.dtype), beside = reg == 8 ? 2 : 1;
    const int stage = 2 * kThreadTileK * thread_pitch(side, bytes) * bytes;
    // Two tiles on their way. What must be computed goes through registers, one ahead.
    int stages = is_copied(p_, p_.lhs) && is_copied(p_, p_.rhs) ? 3 : 2;
    while (stages > 2 && 2 * (stages * stage + kSystemShared) > target_.cuda.shared_bytes) --stages;
    return of({ProductMapping::By::kThreads, side, side, stages}, kThreadSide * kThreadSide, stages * stage, beside);
  }
  // Warps stand in two rows. One that keeps 64 x 64 results reads least of its tiles, and the block leaves no room for
  // another: that pays where there are tiles enough for every multiprocessor.
  Grid on_tensor_cores() const {
    bool large = most(p_.c.m) > 64 && most(p_.c.n) > 64;
    // Fragments of bytes are turned, or converted, in registers of their own, which leave none for wider tiles or a second block.
    const bool bytes = bytes_of(*common_dtype(p_)) == 1;
    bool many = tiles(128, 256).bounds().min >= 2 * target_.cuda.multiprocessors;
    bool widest = large && p_.parts.empty() && most(p_.c.n) > 128 && many && !bytes;
    int down = large ? 4 : 2, warps_across = large ? 4 : 2, across = widest ? 8 : 4, beside = widest || (bytes && large) ? 1 : 2;
    ProductMapping m{ProductMapping::By::kWarps, kWarpsDown * down * kFragmentRows, warps_across * across * kFragmentColumns};
    FactorTile a = lhs_tile(p_, m.tile_rows), b = rhs_tile(p_, m.tile_columns);
    int stage = (a.elements + b.elements) * bytes_of(*common_dtype(p_));
    // Up to four tiles, of which all but one are on their way.
    m.stages = a.packs || b.packs ? (beside == 1 ? 4 : 3) : 2;
    while (m.stages > 2 && (beside * (m.stages * stage + kSystemShared) > target_.cuda.shared_bytes ||
                            m.stages * stage > target_.cuda.block_shared_bytes))
      --m.stages;
    int warps = kWarpsDown * warps_across, results = warps * kFragmentRows * epilogue_pitch(across) * 4;
    return of(m, 32 * warps, std::max(m.stages * stage, results), beside);
  }

  const Product& p_;
  const ir::Target& target_;
};

}  // namespace

std::optional<Grid> product_grid(const Kernel& kernel, const ir::Target& target) {
  if (std::optional<Product> product = find_product(kernel)) return ProductScheduler(*product, target).grid();
  std::unique_ptr<WindowProduct> windows = find_window_product(kernel);
  if (!windows) return std::nullopt;
  Product product = windows->product();
  ProductScheduler scheduler(product, target);
  return scheduler.windows_pay() ? std::optional(scheduler.grid()) : std::nullopt;
}

}  // namespace nabla::passes
