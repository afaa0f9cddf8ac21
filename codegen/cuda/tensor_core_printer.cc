// Products on tensor cores: tiles copied ahead into shared memory, fragments in registers.
#include <algorithm>

#include "codegen/cuda/pack_printer.h"
#include "codegen/cuda/product.h"

namespace nabla::codegen {

using namespace kernel_ir;  // NOLINT: this file prints kernel_ir

namespace {

constexpr int kTileBytes = 64, kStepBytes = 32;  // of k: in a tile, and in one mma
constexpr int kSystemShared = 1 << 10;           // that every block takes beside its own

// The dtype that both factors have in memory, where their conversions keep every bit.
std::optional<DType> common_dtype(const Product& p) {
  auto exact = [&](Expr e, const Expr& load) {
    for (; e.id() != load.id(); e = e->args[0])
      if (e->kind != ExprKind::kCall || e->fn->name != "convert" ||
          (e->dtype != DType::kF32 && e->dtype != load->dtype))
        return false;
    return !load->guard || (load->fill->kind == ExprKind::kConst && load->fill->number == 0);
  };
  DType d = p.kernel.buffers[p.c.lhs->ref].dtype;
  bool both = p.kernel.buffers[p.c.rhs->ref].dtype == d && exact(p.lhs, p.c.lhs) && exact(p.rhs, p.c.rhs);
  bool known = d == DType::kBF16 || d == DType::kF16 || (d == DType::kF32 && p.target.tf32);
  return both && known ? std::optional(d) : std::nullopt;
}

/// Warps stand in a rectangle; each keeps `rows_` x `columns_` fragments of 16 x 8 results. A step of mma takes 32
/// bytes of k: 16 halves (m16n8k16) or 8 f32 (m16n8k8 of tf32), whose fragments are the same registers.
class TensorCoreProduct : public ProductPrinter {
 public:
  TensorCoreProduct(const Product& p, CppWriter& out, int& next_temp) : ProductPrinter(p, out, next_temp) {
    bool large = size(c_.m).bounds().max > 64 && size(c_.n).bounds().max > 64;
    rows_ = large ? 4 : 2, warps_across_ = large ? 4 : 2;
    dtype_ = *common_dtype(p), type_ = storage_type(dtype_);
    pack_ = 16 / bytes_of(dtype_), tile_k_ = kTileBytes / bytes_of(dtype_);
    a_ = operand("a", c_.lhs, c_.m, tile_rows()), b_ = operand("b", c_.rhs, c_.n, tile_columns());
    // Three tiles, of which two are on their way, where two blocks can have them.
    stages_ = copies() ? 3 : 2;
    if (2 * (shared_bytes() + kSystemShared) > p.target.cuda.shared_bytes) stages_ = 2;
  }

 private:
  /// A factor and its tile: rows of k where the factor's neighbours in memory lie along k, else columns of it.
  struct Operand {
    std::string name;
    Expr load;
    int other;  // axis
    int rows;   // of the tile, along `other`
    bool k_fast, packs;
    int pitch;  // elements; so that rows do not meet in one bank
    int elements;
  };
  Operand operand(const char* name, const Expr& load, int other, int rows) {
    Operand o{name, load, other, rows, walks(load, last_of(c_.k)) || !walks(load, last_of(other)), false, 0, 0};
    int fast = last_of(o.k_fast ? c_.k : other);
    std::optional<Affine> flat = flat_offset(load->args, k_.buffers[load->ref].shape);
    o.packs = flat && flat->of(fast).is(1) && packs_divide(*flat, fast, pack_) && size(fast).is_static() &&
              size(fast).value() % pack_ == 0 && !(load->guard && uses_axis(load->guard, fast));
    o.pitch = o.k_fast ? tile_k_ + pack_ : rows + 8;
    o.elements = (o.k_fast ? rows : tile_k_) * o.pitch;
    return o;
  }

  int threads() const override { return 32 * kWarpsDown * warps_across_; }
  int tile_rows() const override { return kWarpsDown * rows_ * 16; }
  int tile_columns() const override { return warps_across_ * kColumns * 8; }
  int stage() const { return a_.elements + b_.elements; }
  int shared_bytes() const override { return stages_ * stage() * bytes_of(dtype_); }
  int beside() const override { return 2; }
  bool copies() const { return a_.packs || b_.packs; }

  void declare() override {
    out_.line(fmt::format("NB_SHARED({}, tiles_);", type_));
    out_.line("const int lane_ = threadIdx.x % 32, warp_ = threadIdx.x / 32;");
    out_.line(fmt::format("const int warp_m_ = warp_ / {} * {}, warp_n_ = warp_ % {} * {};", warps_across_, rows_ * 16,
                          warps_across_, kColumns * 8));
  }

  // ---- Tiles: 16 bytes a copy where sizes and addresses allow it, else element by element
  void fill(const Operand& o) {
    if (o.packs) {
      out_.open(fmt::format("if (nb_is_aligned({})) {{", cpp_name(k_.buffers[o.load->ref].name)));
      fill_by(o, pack_);
      out_.reopen("} else {");
    }
    fill_by(o, 1);
    if (o.packs) out_.close();
  }
  void fill_by(const Operand& o, int width) {
    int along = (o.k_fast ? tile_k_ : o.rows) / width;  // packs along the fast axis
    if (width == 1) out_.line("#pragma unroll 2");      // more would take registers from the sums
    out_.open(fmt::format("for (int c_ = 0; c_ < {}; ++c_) {{", o.rows * tile_k_ / width / threads()));
    out_.line(fmt::format("const int p_ = c_ * {} + int(threadIdx.x);", threads()));
    std::string near = fmt::format("p_ % {}{}", along, width > 1 ? fmt::format(" * {}", width) : "");
    std::string far = fmt::format("p_ / {}", along);
    out_.line(fmt::format("const int x_ = {}, y_ = {};", o.k_fast ? far : near, o.k_fast ? near : far));
    out_.line(fmt::format("const long {} = {}0_ + x_, {} = k0_ + y_;", axis_name(o.other), o.name == "a" ? "m" : "n",
                          axis_name(c_.k)));
    out_.line(fmt::format("{}* const to_ = {}_fill_ + {} * {} + {};", type_, o.name, o.k_fast ? "x_" : "y_", o.pitch,
                          o.k_fast ? "y_" : "x_"));
    positions(o.other), positions(c_.k);
    std::string inside =
        fmt::format("{} < {} && {} < {}", axis_name(o.other), extent(o.other), axis_name(c_.k), extent(c_.k));
    if (o.load->guard) inside += fmt::format(" && ({})", printer().print(o.load->guard));
    std::string at = printer().offset(o.load->args, k_.buffers[o.load->ref].shape);
    std::string buffer = cpp_name(k_.buffers[o.load->ref].name);
    if (width == 1) {
      out_.line(fmt::format("{} v_ = {{}};", type_));
      out_.line(fmt::format("if ({}) v_ = {}[{}];", inside, buffer, at));
      out_.line("*to_ = v_;");
    } else {
      out_.line(fmt::format("if ({}) nb_cp_async_16(to_, {} + {});", inside, buffer, at));
      out_.line(fmt::format("else nb_store_pack(to_, nb_pack<{}, {}>{{}});", type_, width));
    }
    out_.close();
  }
  // Tile t is filled while tile t - stages + 1 is multiplied: one barrier a step, after which all have what they have
  // copied, and nobody reads any more the tile that is filled next.
  void multiply() override {
    out_.line(fmt::format("float acc_[{}][{}][4] = {{}};", rows_, kColumns));
    out_.line(fmt::format("const int steps_ = {};", size_text(ir::Dim::ceildiv(size(c_.k), tile_k_))));
    out_.open(fmt::format("for (int t_ = 0; t_ < steps_ + {}; ++t_) {{", stages_ - 1));
    out_.open(fmt::format("if (t_ >= {}) {{", stages_ - 1));
    if (copies()) out_.line(fmt::format("nb_cp_wait<{}>();", stages_ - 2));
    out_.line("__syncthreads();");
    out_.close();
    out_.open("if (t_ < steps_) {");
    out_.line(fmt::format("const long k0_ = long(t_) * {};", tile_k_));
    out_.line(fmt::format("{}* const a_fill_ = tiles_ + t_ % {} * {};", type_, stages_, stage()));
    out_.line(fmt::format("{}* const b_fill_ = a_fill_ + {};", type_, a_.elements));
    fill(a_);
    fill(b_);
    out_.close();
    if (copies()) out_.line("nb_cp_commit();");
    out_.line(fmt::format("if (t_ < {}) continue;", stages_ - 1));
    out_.line(fmt::format("const {}* const a_tile_ = tiles_ + (t_ + 1) % {} * {};", type_, stages_, stage()));
    out_.line(fmt::format("const {}* const b_tile_ = a_tile_ + {};", type_, a_.elements));
    step();
    out_.close();
    out_.line("__syncthreads();");
  }

  // ---- Fragments
  void step() {
    out_.line("#pragma unroll");
    out_.open(fmt::format("for (int k_ = 0; k_ < {}; k_ += {}) {{", tile_k_, kStepBytes / bytes_of(dtype_)));
    out_.line(fmt::format("unsigned a_[{}][4], b_[{}][2];", rows_, kColumns));
    out_.open(fmt::format("for (int i_ = 0; i_ < {}; ++i_) {{", rows_));
    load_a();
    if (tf32()) out_.line("for (int r_ = 0; r_ < 4; ++r_) a_[i_][r_] = nb_to_tf32(a_[i_][r_]);");
    out_.close();
    out_.open(fmt::format("for (int j_ = 0; j_ < {}; j_ += 2) {{", kColumns));
    load_b();
    if (tf32())
      out_.line("for (int r_ = 0; r_ < 4; ++r_) b_[j_ + r_ / 2][r_ % 2] = nb_to_tf32(b_[j_ + r_ / 2][r_ % 2]);");
    out_.close();
    out_.line(fmt::format("for (int i_ = 0; i_ < {}; ++i_)", rows_));
    std::string mma = tf32() ? "nb_mma_1688_tf32(acc_[i_][j_], a_[i_], b_[j_])"
                             : fmt::format("nb_mma_16816(acc_[i_][j_], a_[i_], b_[j_], {}{{}})", type_);
    out_.line(fmt::format("  for (int j_ = 0; j_ < {}; ++j_) {};", kColumns, mma));
    out_.close();
  }
  bool tf32() const { return dtype_ == DType::kF32; }
  // Of four 8 x 8 matrices (8 x 4 of f32) each lane names a row: of a k half, then of the other half of the results.
  void load_a() {
    if (a_.k_fast) {
      out_.line(
          fmt::format("nb_ldmatrix_x4(a_[i_], a_tile_ + (warp_m_ + i_ * 16 + lane_ % 16) * {} + k_ + lane_ / 16 * {});",
                      a_.pitch, pack_));
    } else if (!tf32()) {
      out_.line(fmt::format(
          "const int row_ = k_ + lane_ % 8 + lane_ / 16 * 8, column_ = warp_m_ + i_ * 16 + lane_ / 8 % 2 * 8;"));
      out_.line(fmt::format("nb_ldmatrix_x4_trans(a_[i_], a_tile_ + row_ * {} + column_);", a_.pitch));
    } else {
      out_.line(
          fmt::format("const float* at_ = a_tile_ + (k_ + lane_ % 4) * {} + warp_m_ + i_ * 16 + lane_ / 4;", a_.pitch));
      out_.line(fmt::format("for (int r_ = 0; r_ < 4; ++r_) a_[i_][r_] = nb_word(at_ + r_ / 2 * {} + r_ % 2 * 8);",
                            4 * a_.pitch));
    }
  }
  void load_b() {
    if (b_.k_fast) {
      out_.line("const int row_ = warp_n_ + j_ * 8 + lane_ % 8 + lane_ / 16 * 8;");
      out_.line(fmt::format("nb_ldmatrix_x4(b_[j_], b_tile_ + row_ * {} + k_ + lane_ / 8 % 2 * {});", b_.pitch, pack_));
    } else if (!tf32()) {
      out_.line("const int row_ = k_ + lane_ % 16, column_ = warp_n_ + j_ * 8 + lane_ / 16 * 8;");
      out_.line(fmt::format("nb_ldmatrix_x4_trans(b_[j_], b_tile_ + row_ * {} + column_);", b_.pitch));
    } else {
      out_.line(
          fmt::format("const float* at_ = b_tile_ + (k_ + lane_ % 4) * {} + warp_n_ + j_ * 8 + lane_ / 4;", b_.pitch));
      out_.line(fmt::format(
          "for (int r_ = 0; r_ < 4; ++r_) b_[j_ + r_ / 2][r_ % 2] = nb_word(at_ + r_ % 2 * {} + r_ / 2 * 8);",
          4 * b_.pitch));
    }
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
  int rows_, warps_across_, pack_, tile_k_, stages_ = 2;
  DType dtype_;
  std::string type_;
  Operand a_, b_;
};

}  // namespace

bool fits_tensor_cores(const Product& p) {
  auto most = [&](int axis) { return p.kernel.axes[axis].extent.bounds().max; };
  bool worth = most(p.c.m) >= 16 && most(p.c.n) >= 8 && most(p.c.k) >= 16;
  return worth && compute_type(p.c.dtype) == "float" && common_dtype(p);
}

void print_on_tensor_cores(const Product& p, CppWriter& out, int& next_temp, CudaGrid& grid) {
  TensorCoreProduct(p, out, next_temp).run(grid);
}

}  // namespace nabla::codegen
