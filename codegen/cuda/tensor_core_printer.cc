// Products of halves on tensor cores: tiles with k fastest in shared memory, fragments in registers.
#include <algorithm>

#include "codegen/cuda/pack_printer.h"
#include "codegen/cuda/product.h"

namespace nabla::codegen {

using namespace kernel_ir;  // NOLINT: this file prints kernel_ir

namespace {

constexpr int kTileK = 32, kPitch = kTileK + 8;  // elements; eight more, so that rows do not meet in one bank
constexpr int kPack = 8;                         // elements of 16 bytes

// The dtype that both factors have in memory, where their conversions keep every bit.
std::optional<DType> halves(const Product& p) {
  auto exact = [&](Expr e, const Expr& load) {
    for (; e.id() != load.id(); e = e->args[0])
      if (e->kind != ExprKind::kCall || e->fn->name != "convert" ||
          (e->dtype != DType::kF32 && e->dtype != load->dtype))
        return false;
    return !load->guard;
  };
  DType d = p.kernel.buffers[p.c.lhs->ref].dtype;
  bool both = p.kernel.buffers[p.c.rhs->ref].dtype == d && exact(p.lhs, p.c.lhs) && exact(p.rhs, p.c.rhs);
  return both && (d == DType::kBF16 || d == DType::kF16) ? std::optional(d) : std::nullopt;
}

/// Warps stand in a rectangle; each keeps `rows_` x `columns_` fragments of 16 x 8 results (mma.m16n8k16).
class TensorCoreProduct : public ProductPrinter {
 public:
  TensorCoreProduct(const Product& p, CppWriter& out, int& next_temp) : ProductPrinter(p, out, next_temp) {
    bool large = size(c_.m).bounds().max > 64 && size(c_.n).bounds().max > 64;
    rows_ = large ? 4 : 2, warps_across_ = large ? 4 : 2;
    half_ = storage_type(*halves(p));
  }

 private:
  int threads() const override { return 32 * kWarpsDown * warps_across_; }
  int tile_rows() const override { return kWarpsDown * rows_ * 16; }
  int tile_columns() const override { return warps_across_ * kColumns * 8; }

  void declare() override {
    out_.line(fmt::format("__shared__ __align__(16) {0} a_tile_[{1}][{3}], b_tile_[{2}][{3}];", half_, tile_rows(),
                          tile_columns(), kPitch));
    out_.line("const int lane_ = threadIdx.x % 32, warp_ = threadIdx.x / 32;");
    out_.line(fmt::format("const int warp_m_ = warp_ / {} * {}, warp_n_ = warp_ % {} * {};", warps_across_, rows_ * 16,
                          warps_across_, kColumns * 8));
  }

  // ---- Tiles: 16 bytes a thread where sizes and addresses allow it, else element by element
  void load_tile(const std::string& tile, const Expr& load, int other, const std::string& first, int rows) {
    std::string buffer = cpp_name(k_.buffers[load->ref].name);
    int fast = walks(load, c_.k) ? c_.k : other;
    std::optional<Affine> flat = flat_offset(load->args, k_.buffers[load->ref].shape);
    bool packs = flat && flat->of(fast).is(1) && packs_divide(*flat, fast, kPack) && size(fast).is_static() &&
                 size(fast).value() % kPack == 0;
    if (packs) {
      out_.open(fmt::format("if (nb_is_aligned({})) {{", buffer));
      load_by(tile, load, other, first, rows, fast, kPack);
      out_.reopen("} else {");
    }
    load_by(tile, load, other, first, rows, fast, 1);
    if (packs) out_.close();
  }
  void load_by(const std::string& tile, const Expr& load, int other, const std::string& first, int rows, int fast,
               int width) {
    bool k_fast = fast == c_.k;
    int along = (k_fast ? kTileK : rows) / width;  // packs along the fast axis
    out_.open(fmt::format("for (int p_ = threadIdx.x; p_ < {}; p_ += {}) {{", rows * kTileK / width, threads()));
    std::string near = fmt::format("p_ % {}{}", along, width > 1 ? fmt::format(" * {}", width) : "");
    std::string far = fmt::format("p_ / {}", along);
    out_.line(fmt::format("const int x_ = {}, y_ = {};", k_fast ? far : near, k_fast ? near : far));
    out_.line(fmt::format("const long {} = {} + x_, {} = k0_ + y_;", axis_name(other), first, axis_name(c_.k)));
    std::string inside =
        fmt::format("{} < {} && {} < {}", axis_name(other), extent(other), axis_name(c_.k), extent(c_.k));
    std::string at = printer().offset(load->args, k_.buffers[load->ref].shape);
    std::string buffer = cpp_name(k_.buffers[load->ref].name);
    if (width == 1) {
      out_.line(fmt::format("{} v_ = {{}};", half_));
      out_.line(fmt::format("if ({}) v_ = {}[{}];", inside, buffer, at));
      out_.line(fmt::format("{}[x_][y_] = v_;", tile));
    } else {
      out_.line(fmt::format("nb_pack<{}, {}> v_ = {{}};", half_, width));
      out_.line(fmt::format("if ({}) v_ = nb_load_pack<{}>({} + {});", inside, width, buffer, at));
      out_.line(k_fast ? fmt::format("nb_store_pack(&{}[x_][y_], v_);", tile)
                       : fmt::format("for (int l_ = 0; l_ < {}; ++l_) {}[x_ + l_][y_] = v_.at[l_];", width, tile));
    }
    out_.close();
  }

  void multiply() override {
    out_.line(fmt::format("float acc_[{}][{}][4] = {{}};", rows_, kColumns));
    out_.open(fmt::format("for (long k0_ = 0; k0_ < {}; k0_ += {}) {{", extent(c_.k), kTileK));
    load_tile("a_tile_", c_.lhs, c_.m, "m0_", tile_rows());
    load_tile("b_tile_", c_.rhs, c_.n, "n0_", tile_columns());
    out_.line("__syncthreads();");
    out_.line("#pragma unroll");
    out_.open(fmt::format("for (int k_ = 0; k_ < {}; k_ += 16) {{", kTileK));
    out_.line(fmt::format("unsigned a_[{}][4], b_[{}][2];", rows_, kColumns));
    out_.open(fmt::format("for (int i_ = 0; i_ < {}; ++i_) {{", rows_));
    out_.line(fmt::format("const {}* at_ = &a_tile_[warp_m_ + i_ * 16 + lane_ / 4][k_ + lane_ % 4 * 2];", half_));
    out_.line(
        fmt::format("a_[i_][0] = nb_two(at_), a_[i_][1] = nb_two(at_ + {}), a_[i_][2] = nb_two(at_ + 8);", 8 * kPitch));
    out_.line(fmt::format("a_[i_][3] = nb_two(at_ + {});", 8 * kPitch + 8));
    out_.close();
    out_.open(fmt::format("for (int j_ = 0; j_ < {}; ++j_) {{", kColumns));
    out_.line(fmt::format("const {}* at_ = &b_tile_[warp_n_ + j_ * 8 + lane_ / 4][k_ + lane_ % 4 * 2];", half_));
    out_.line("b_[j_][0] = nb_two(at_), b_[j_][1] = nb_two(at_ + 8);");
    out_.close();
    out_.line(fmt::format("for (int i_ = 0; i_ < {}; ++i_)", rows_));
    out_.line(fmt::format("  for (int j_ = 0; j_ < {}; ++j_) nb_mma_16816(acc_[i_][j_], a_[i_], b_[j_], {}{{}});",
                          kColumns, half_));
    out_.close();
    out_.line("__syncthreads();");
    out_.close();
  }

  void finish() override {
    out_.line("#pragma unroll");
    out_.open(fmt::format("for (int e_ = 0; e_ < {}; ++e_) {{", rows_ * kColumns * 4));
    out_.line(fmt::format("const int i_ = e_ / {}, j_ = e_ / 4 % {}, q_ = e_ % 4;", 4 * kColumns, kColumns));
    element("m0_ + warp_m_ + i_ * 16 + lane_ / 4 + q_ / 2 * 8", "n0_ + warp_n_ + j_ * 8 + lane_ % 4 * 2 + q_ % 2",
            "acc_[i_][j_][q_]");
    out_.close();
  }

  static constexpr int kWarpsDown = 2, kColumns = 4;
  int rows_, warps_across_;
  std::string half_;
};

}  // namespace

bool fits_tensor_cores(const Product& p) {
  auto most = [&](int axis) { return p.kernel.axes[axis].extent.bounds().max; };
  bool worth = most(p.c.m) >= 16 && most(p.c.n) >= 8 && most(p.c.k) >= 16;
  return worth && compute_type(p.c.dtype) == "float" && halves(p);
}

void print_on_tensor_cores(const Product& p, CppWriter& out, int& next_temp, CudaGrid& grid) {
  TensorCoreProduct(p, out, next_temp).run(grid);
}

}  // namespace nabla::codegen
