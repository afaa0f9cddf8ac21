// Products by warpgroups: wgmma reads tiles of the factors from shared memory, while others are copied there.
#include <algorithm>

#include "codegen/cuda/staged_product.h"

namespace nabla::codegen {

using namespace kernel_ir;  // NOLINT: this file prints kernel_ir

namespace {

/// Warpgroups stand one below the other, each with 64 rows of the tile's results and all of its columns. Tiles of the factors, 128
/// bytes of k, are brought by the copy engine where that knows the arrays, else by threads.
class WarpgroupPrinter : public StagedProduct {
 public:
  WarpgroupPrinter(const Product& p, const ProductMapping& cut, int threads, bool at_packs, CppWriter& out, int& next_temp)
      : StagedProduct(p, cut, threads, kWarpgroupTileBytes / bytes_of(*common_dtype(p)), at_packs, out, next_temp) {
    rows_ = 1, columns_ = cut.tile_columns / kFragmentColumns;
    a_.elements = cut.tile_rows * tile_k_, b_.elements = cut.tile_columns * tile_k_;
    std::optional<FactorMap> a = at_packs ? factor_map(p, a_) : std::nullopt, b = at_packs ? factor_map(p, b_) : std::nullopt;
    if (a && b) maps_ = {std::move(*a), std::move(*b)};
  }

  std::vector<TensorMap> maps() const {
    std::vector<TensorMap> out;
    for (const FactorMap& m : maps_) out.push_back(m.map);
    return out;
  }

 protected:
  /// Of a tile, which waits in the slots of all stages by turns.
  std::string slot(const std::string& tile) const {
    return by_engine() ? fmt::format("(copied_ + {}) % {}", tile, stages_) : fmt::format("{} % {}", tile, stages_);
  }
  int stage() const override { return a_.elements + b_.elements; }

  void declare() override {
    out_.line(fmt::format("NB_SHARED_TILES({}, tiles_);", type_));
    out_.line("const int lane_ = threadIdx.x % 32, warp_ = threadIdx.x / 32, warp_m_ = warp_ * 16, warp_n_ = 0;");
    out_.line(fmt::format("const int own_ = nb_wg_group() * {};", kWarpgroupRows * tile_k_));
    if (!by_engine()) return;
    out_.line(fmt::format("nb_u64* const there_ = (nb_u64*)(tiles_ + {});", stages_ * stage()));
    out_.line(fmt::format("nb_copies_begin<{}>(there_);", stages_));
    out_.line("unsigned copied_ = 0;");
  }
  void begin() {
    out_.line(fmt::format("const int tiles_of_k_ = {};", tiles_of_k(tile_k_)));
    if (!by_engine()) begin_steps();
  }
  void fill_tile(const std::string& tile) override {
    if (!by_engine()) return StagedProduct::fill_tile(tile);
    out_.open(fmt::format("if (const int tile_of_k_ = {}; threadIdx.x == 0 && tile_of_k_ < tiles_of_k_) {{", tile));
    out_.line(fmt::format("const unsigned slot_ = {};", slot("tile_of_k_")));
    out_.line(fmt::format("const int k0_ = tile_of_k_ * {};", tile_k_));
    out_.line(fmt::format("{}* const a_fill_ = tiles_ + slot_ * {};", type_, stage()));
    out_.line(fmt::format("{}* const b_fill_ = {};", type_of(b_), after_a("a_fill_", "")));
    out_.line(fmt::format("nb_copies_expect(there_ + slot_, {});", stage() * bytes_of(dtype_)));
    copy_boxes("a", "m0_", 0);
    copy_boxes("b", "n0_", 1);
    out_.close();
    out_.line("nb_wg_together();");
  }
  /// A tile is there, of which all but `left` of those asked for are, and what was multiplied before all have seen.
  void await_tile(int left) {
    if (!by_engine()) {
      out_.line(fmt::format("nb_cp_wait<{}>();", left));
      out_.line("nb_wg_see_copies();");
    } else {
      out_.line(fmt::format("nb_copies_wait(there_ + {}, (copied_ + t_) / {} % 2);", slot("t_"), stages_));
    }
    out_.line("__syncthreads();");
    out_.line(fmt::format("const {}* const a_tile_ = tiles_ + {} * {};", type_, slot("t_"), stage()));
  }
  void end() {
    if (by_engine()) out_.line("copied_ += tiles_of_k_;");
    out_.line("__syncthreads();");
  }

 private:
  // Where k is fastest, one box; else one for every 128 bytes across.
  void copy_boxes(const std::string& name, const std::string& first, int number) {
    const FactorMap& m = maps_[number];
    const FactorTile& t = number == 0 ? a_ : b_;
    const int own = static_cast<int>(std::ranges::find(m.axes, t.other) - m.axes.begin());
    for (int x = 0; x < t.rows; x += m.map.box[own]) {
      std::string at;
      for (int axis : m.axes) {
        std::string place = axis == c_.k ? from_k() : axis == t.other ? fmt::format("{} + {}", first, x) : axis_name(axis);
        at += fmt::format(", int({})", place);
      }
      out_.line(fmt::format("nb_copy_box({}_fill_ + {}, map{}_, there_ + slot_{});", name, x * tile_k_, number, at));
    }
  }
  // A slice of a longer sum begins where the rest of that does.
  std::string from_k() const { return p_.rest_of_k ? fmt::format("{} - rest_of_k_ + k0_", p_.whole_k.value()) : "k0_"; }
};

/// bf16 and f16.
class WarpgroupProduct : public WarpgroupPrinter {
  using WarpgroupPrinter::WarpgroupPrinter;

  std::string place(const FactorTile& o) const override { return fmt::format("nb_wg_place<{}>(x_, y_)", o.k_fast); }
  // While a tile is multiplied, the one before is still read, and those `stages` - 2 after it are copied: the barrier of a tile
  // says that all have what they have copied of it, and that the product of the tile before the last is done.
  void multiply() override {
    out_.line(fmt::format("float acc_[1][{}][4] = {{}};", columns_));
    begin();
    out_.line("#pragma unroll 1");
    out_.open(fmt::format("for (int t_ = 0; t_ < {}; ++t_) {{", stages_ - 2));
    fill_tile("t_");
    out_.close();
    out_.open("for (int t_ = 0; t_ < tiles_of_k_; ++t_) {");
    await_tile(stages_ - 3);
    out_.line("nb_wg_fence();");
    out_.line("#pragma unroll");
    out_.line(fmt::format("for (int s_ = 0; s_ < {}; ++s_) nb_wg_mma<{}, {}>(acc_, a_tile_ + own_, a_tile_ + {}, s_);",
                          kWarpgroupK / 16, a_.k_fast, b_.k_fast, a_.elements));
    out_.line("nb_wg_commit();");
    fill_tile(fmt::format("t_ + {}", stages_ - 2));
    out_.line("nb_wg_wait<1>();");
    out_.close();
    out_.line("nb_wg_wait<0>();");
    // Without this the compiler may read the sums before the wait: it does not know that wgmma still writes them.
    out_.line("nb_wg_hold(acc_);");
    end();
  }
};

/// 8-bit floats. Tensor cores keep about 14 bits of their sums: each tile of k is summed by itself, and f32 has the rest.
class WarpgroupProductOfBytes : public WarpgroupPrinter {
  using WarpgroupPrinter::WarpgroupPrinter;

  std::string place(const FactorTile&) const override { return "nb_wg_place_bytes(x_, y_)"; }
  // Copies are ahead as above. A warpgroup waits for its product, and another multiplies while it adds.
  void multiply() override {
    out_.line(fmt::format("float acc_[1][{0}][4] = {{}}, part_[1][{0}][4];", columns_));
    begin();
    out_.line("#pragma unroll 1");
    out_.open(fmt::format("for (int t_ = 0; t_ < {}; ++t_) {{", stages_ - 1));
    fill_tile("t_");
    out_.close();
    out_.line("#pragma unroll 1");
    out_.open("for (int t_ = 0; t_ < tiles_of_k_; ++t_) {");
    await_tile(stages_ - 2);
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
    end();
  }
};

template <class Printer>
std::vector<TensorMap> printed(const Product& p, const ProductMapping& cut, int threads, bool at_packs, CppWriter& out, int& next_temp) {
  Printer printer(p, cut, threads, at_packs, out, next_temp);
  printer.run();
  return printer.maps();
}

}  // namespace

std::vector<TensorMap> print_by_warpgroups(const Product& p, const ProductMapping& cut, int threads, bool at_packs, CppWriter& out,
                                           int& next_temp) {
  const bool bytes = bytes_of(*common_dtype(p)) == 1;
  return (bytes ? printed<WarpgroupProductOfBytes> : printed<WarpgroupProduct>)(p, cut, threads, at_packs, out, next_temp);
}

}  // namespace nabla::codegen
