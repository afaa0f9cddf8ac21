// Products on tensor cores by mma of a warp: tiles copied ahead into shared memory, fragments in registers.
#include "codegen/cuda/staged_product.h"

namespace nabla::codegen {

using namespace kernel_ir;  // NOLINT: this file prints kernel_ir

namespace {

constexpr int kStepBytes = 32;  // of k, in one mma

/// Warps stand in a rectangle. A step of mma takes 32 bytes of k: 32 8-bit floats (m16n8k32), 16 halves (m16n8k16) or 8 f32
/// (m16n8k8 of tf32), whose fragments are the same registers.
class TensorCoreProduct : public StagedProduct {
 public:
  TensorCoreProduct(const Product& p, const ProductMapping& cut, int threads, bool at_packs, CppWriter& out, int& next_temp)
      : StagedProduct(p, cut, threads, kTensorTileBytes / bytes_of(*common_dtype(p)), at_packs, out, next_temp),
        warps_across_(threads / (32 * kWarpsDown)) {
    rows_ = cut.tile_rows / (kWarpsDown * kFragmentRows);
    columns_ = cut.tile_columns / (warps_across_ * kFragmentColumns);
    twined_rows_ = bytes() && !a_.k_fast, twined_columns_ = bytes() && !b_.k_fast;
  }

 private:
  int stage() const override { return a_.elements + b_.elements; }
  std::string place(const FactorTile& o) const override {
    return fmt::format("{} * {} + {}", o.k_fast ? "x_" : "y_", o.pitch, o.k_fast ? "y_" : "x_");
  }

  void declare() override {
    out_.line(fmt::format("NB_SHARED({}, tiles_);", type_));
    out_.line("const int lane_ = threadIdx.x % 32, warp_ = threadIdx.x / 32;");
    out_.line(fmt::format("const int warp_m_ = warp_ / {} * {}, warp_n_ = warp_ % {} * {};", warps_across_, rows_ * 16,
                          warps_across_, columns_ * 8));
  }
  // Tiles are filled `stages` - 1 ahead. After the one barrier of a tile all have what they have copied, and nobody reads any
  // more the tile before, which is filled next.
  void multiply() override {
    const int step = kStepBytes / bytes_of(dtype_), steps = tile_k_ / step;
    const bool ahead = columns_ > 4;
    out_.line(fmt::format("float acc_[{}][{}][4] = {{}};", rows_, columns_));
    out_.line(fmt::format("unsigned a_at_[{0}][{1}][4], b_at_[{0}][{2}][2];", ahead ? 2 : 1, rows_, columns_));
    out_.line(fmt::format("const int tiles_of_k_ = {};", tiles_of_k(tile_k_)));
    begin_steps();
    ahead ? multiply_ahead(step, steps) : multiply_at_once(step, steps);
    out_.line("__syncthreads();");
  }
  // Copies stand in one place: another would take registers from the sums.
  void multiply_at_once(int step, int steps) {
    out_.open(fmt::format("for (int t_ = 0; t_ < tiles_of_k_ + {}; ++t_) {{", stages_ - 1));
    out_.open(fmt::format("if (t_ >= {}) {{", stages_ - 1));
    wait();
    out_.close();
    fill_tile("t_");
    out_.line(fmt::format("if (t_ < {}) continue;", stages_ - 1));
    out_.line("#pragma unroll");
    out_.open(fmt::format("for (int s_ = 0; s_ < {}; ++s_) {{", steps));
    load_fragments("0", fmt::format("t_ - {}", stages_ - 1), fmt::format("s_ * {}", step));
    multiply_fragments("0");
    out_.close();
    out_.close();
  }
  // A warp with registers for it loads fragments a step of mma ahead, those of the next tile after that tile's barrier.
  void multiply_ahead(int step, int steps) {
    out_.line("#pragma unroll 1");
    out_.open(fmt::format("for (int t_ = 0; t_ < {}; ++t_) {{", stages_ - 1));
    fill_tile("t_");
    out_.close();
    wait();
    out_.open("{");
    load_fragments("0", "0", "0");
    out_.close();
    out_.open("for (int t_ = 0; t_ < tiles_of_k_; ++t_) {");
    out_.line("#pragma unroll");
    out_.open(fmt::format("for (int s_ = 0; s_ < {}; ++s_) {{", steps));
    out_.open(fmt::format("if (s_ == {}) {{", steps - 1));
    wait();
    out_.close();
    out_.open(fmt::format("if (s_ < {} || t_ + 1 < tiles_of_k_) {{", steps - 1));
    load_fragments("(s_ + 1) % 2", fmt::format("t_ + (s_ + 1) / {}", steps), fmt::format("(s_ + 1) % {} * {}", steps, step));
    out_.close();
    out_.open("if (s_ == 0) {");
    fill_tile(fmt::format("t_ + {}", stages_ - 1));
    out_.close();
    multiply_fragments("s_ % 2");
    out_.close();
    out_.close();
  }
  void wait() {
    if (copies()) out_.line(fmt::format("nb_cp_wait<{}>();", stages_ - 2));
    out_.line("__syncthreads();");
  }
  // ---- Fragments
  void load_fragments(const std::string& to, const std::string& tile, const std::string& k) {
    out_.line(fmt::format("const {}* const a_tile_ = tiles_ + ({}) % {} * {};", type_, tile, stages_, stage()));
    out_.line(fmt::format("const {}* const b_tile_ = {};", type_of(b_), after_a("a_tile_", "const ")));
    out_.line(fmt::format("const int k_ = {};", k));
    out_.line(fmt::format("unsigned (&a_)[{}][4] = a_at_[{}], (&b_)[{}][2] = b_at_[{}];", rows_, to, columns_, to));
    out_.line("#pragma unroll");
    out_.open(fmt::format("for (int i_ = 0; i_ < {}; ++i_) {{", rows_));
    load_a();
    if (tf32()) out_.line("for (int r_ = 0; r_ < 4; ++r_) a_[i_][r_] = nb_to_tf32(a_[i_][r_]);");
    out_.close();
    out_.line("#pragma unroll");
    out_.open(fmt::format("for (int j_ = 0; j_ < {}; j_ += 2) {{", columns_));
    load_b();
    if (tf32())
      out_.line("for (int r_ = 0; r_ < 4; ++r_) b_[j_ + r_ / 2][r_ % 2] = nb_to_tf32(b_[j_ + r_ / 2][r_ % 2]);");
    out_.close();
  }
  void multiply_fragments(const std::string& from) {
    std::string mma = fmt::format("(acc_[i_][j_], a_at_[{0}][i_], b_at_[{0}][j_]", from);
    mma = tf32()    ? "nb_mma_1688_tf32" + mma + ")"
          : bytes() ? fmt::format("nb_mma_16832{}, {}{{}}, {}{{}})", mma, type_, type_of(b_))
                    : fmt::format("nb_mma_16816{}, {}{{}})", mma, type_);
    out_.line("#pragma unroll");
    out_.line(fmt::format("for (int i_ = 0; i_ < {}; ++i_)", rows_));
    out_.line("#pragma unroll");
    out_.line(fmt::format("  for (int j_ = 0; j_ < {}; ++j_) {};", columns_, mma));
  }
  bool tf32() const { return dtype_ == DType::kF32; }
  bool bytes() const { return bytes_of(dtype_) == 1; }
  // Of four 8 x 8 matrices (8 x 4 of f32) each lane names a row: of a k half, then of the other half of the results.
  void load_a() {
    if (a_.k_fast) {
      out_.line(
          fmt::format("nb_ldmatrix_x4(a_[i_], a_tile_ + (warp_m_ + i_ * 16 + lane_ % 16) * {} + k_ + lane_ / 16 * {});",
                      a_.pitch, pack_));
    } else if (bytes()) {
      out_.line(fmt::format("nb_ldmatrix_x4_bytes_trans(a_[i_], a_tile_ + k_ * {0} + warp_m_ + i_ * 16, {0});", a_.pitch));
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
    } else if (bytes()) {
      out_.line("unsigned y_[4];");
      out_.line(fmt::format("nb_ldmatrix_x4_bytes_trans(y_, b_tile_ + k_ * {0} + warp_n_ + j_ * 8, {0});", b_.pitch));
      out_.line("for (int r_ = 0; r_ < 4; ++r_) b_[j_ + r_ % 2][r_ / 2] = y_[r_];");
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

  int warps_across_;
};

}  // namespace

void print_on_tensor_cores(const Product& p, const ProductMapping& cut, int threads, bool at_packs, CppWriter& out, int& next_temp) {
  TensorCoreProduct(p, cut, threads, at_packs, out, next_temp).run();
}

}  // namespace nabla::codegen
