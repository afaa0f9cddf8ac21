// Products by warpgroups: wgmma reads tiles of the factors from shared memory, while others are copied there.
#include "codegen/cuda/staged_product.h"

namespace nabla::codegen {

using namespace kernel_ir;  // NOLINT: this file prints kernel_ir

namespace {

/// Warpgroups stand one below the other, each with 64 rows of the tile's results and all of its columns.
class WarpgroupProduct : public StagedProduct {
 public:
  WarpgroupProduct(const Product& p, const ProductMapping& cut, int threads, CppWriter& out, int& next_temp)
      : StagedProduct(p, cut, threads, kWarpgroupK, out, next_temp) {
    rows_ = 1, columns_ = cut.tile_columns / kFragmentColumns;
    a_.elements = cut.tile_rows * kWarpgroupK, b_.elements = cut.tile_columns * kWarpgroupK;
  }

 private:
  int stage() const override { return a_.elements + b_.elements; }
  std::string place(const FactorTile& o) const override { return fmt::format("nb_wg_place<{}>(x_, y_)", o.k_fast); }

  void declare() override {
    out_.line(fmt::format("NB_SHARED_TILES({}, tiles_);", type_));
    out_.line("const int lane_ = threadIdx.x % 32, warp_ = threadIdx.x / 32, warp_m_ = warp_ * 16, warp_n_ = 0;");
    out_.line(fmt::format("const int own_ = nb_wg_group() * {};", kWarpgroupRows * kWarpgroupK));
  }
  // While a tile is multiplied, the one before is still read, and those `stages` - 2 after it are copied: the barrier of a tile
  // says that all have what they have copied of it, and that the product of the tile before the last is done.
  void multiply() override {
    out_.line(fmt::format("float acc_[1][{}][4] = {{}};", columns_));
    out_.line(fmt::format("const int tiles_of_k_ = {};", tiles_of_k(tile_k_)));
    begin_steps();
    out_.line("#pragma unroll 1");
    out_.open(fmt::format("for (int t_ = 0; t_ < {}; ++t_) {{", stages_ - 2));
    fill_tile("t_");
    out_.close();
    out_.open("for (int t_ = 0; t_ < tiles_of_k_; ++t_) {");
    out_.line(fmt::format("nb_cp_wait<{}>();", stages_ - 3));
    out_.line("nb_wg_see_copies();");
    out_.line("__syncthreads();");
    out_.line(fmt::format("const {}* const a_tile_ = tiles_ + t_ % {} * {};", type_, stages_, stage()));
    out_.line("nb_wg_fence();");
    out_.line("#pragma unroll");
    out_.line(fmt::format("for (int s_ = 0; s_ < {}; ++s_) nb_wg_mma<{}, {}>(acc_, a_tile_ + own_, a_tile_ + {}, s_);",
                          kWarpgroupK / 16, a_.k_fast, b_.k_fast, a_.elements));
    out_.line("nb_wg_commit();");
    fill_tile(fmt::format("t_ + {}", stages_ - 2));
    out_.line("nb_wg_wait<1>();");
    out_.close();
    out_.line("nb_wg_wait<0>();");
    out_.line("__syncthreads();");
  }
};

/// The same of 8-bit floats. Tensor cores keep about 14 bits of their sums: each tile of k is summed by itself, and f32 has the rest.
class WarpgroupProductOfBytes : public StagedProduct {
 public:
  WarpgroupProductOfBytes(const Product& p, const ProductMapping& cut, int threads, CppWriter& out, int& next_temp)
      : StagedProduct(p, cut, threads, kWarpgroupTileBytes, out, next_temp) {
    rows_ = 1, columns_ = cut.tile_columns / kFragmentColumns;
    a_.elements = cut.tile_rows * kWarpgroupTileBytes, b_.elements = cut.tile_columns * kWarpgroupTileBytes;
  }

 private:
  int stage() const override { return a_.elements + b_.elements; }
  std::string place(const FactorTile&) const override { return "nb_wg_place_bytes(x_, y_)"; }

  void declare() override {
    out_.line(fmt::format("NB_SHARED_TILES({}, tiles_);", type_));
    out_.line("const int lane_ = threadIdx.x % 32, warp_ = threadIdx.x / 32, warp_m_ = warp_ * 16, warp_n_ = 0;");
    out_.line(fmt::format("const int own_ = nb_wg_group() * {};", kWarpgroupRows * kWarpgroupTileBytes));
  }
  // Copies are ahead as above. A warpgroup waits for its product, and another multiplies while it adds.
  void multiply() override {
    out_.line(fmt::format("float acc_[1][{0}][4] = {{}}, part_[1][{0}][4];", columns_));
    out_.line(fmt::format("const int tiles_of_k_ = {};", tiles_of_k(tile_k_)));
    begin_steps();
    out_.line("#pragma unroll 1");
    out_.open(fmt::format("for (int t_ = 0; t_ < {}; ++t_) {{", stages_ - 1));
    fill_tile("t_");
    out_.close();
    out_.line("#pragma unroll 1");
    out_.open("for (int t_ = 0; t_ < tiles_of_k_; ++t_) {");
    out_.line(fmt::format("nb_cp_wait<{}>();", stages_ - 2));
    out_.line("nb_wg_see_copies();");
    out_.line("__syncthreads();");
    out_.line(fmt::format("const {}* const a_tile_ = tiles_ + t_ % {} * {};", type_, stages_, stage()));
    out_.line(fmt::format("const {}* const b_tile_ = {};", type_of(b_), after_a("a_tile_", "const ")));
    out_.line("nb_wg_fence();");
    out_.line("#pragma unroll");
    out_.line(fmt::format("for (int s_ = 0; s_ < {}; ++s_) nb_wg_mma_bytes(part_, a_tile_ + own_, b_tile_, s_);",
                          kWarpgroupTileBytes / 32));
    out_.line("nb_wg_commit();");
    fill_tile(fmt::format("t_ + {}", stages_ - 1));
    out_.line("nb_wg_wait<0>();");
    out_.line("nb_wg_hold(part_);");
    out_.line("nb_wg_add(acc_, part_);");
    out_.close();
    out_.line("__syncthreads();");
  }
};

}  // namespace

void print_by_warpgroups(const Product& p, const ProductMapping& cut, int threads, CppWriter& out, int& next_temp) {
  if (bytes_of(*common_dtype(p)) == 1) return WarpgroupProductOfBytes(p, cut, threads, out, next_temp).run();
  WarpgroupProduct(p, cut, threads, out, next_temp).run();
}

}  // namespace nabla::codegen
