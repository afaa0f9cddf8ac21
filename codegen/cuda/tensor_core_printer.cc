// Products on tensor cores: tiles copied ahead into shared memory, fragments in registers.
#include <algorithm>
#include <optional>

#include "codegen/cuda/product.h"
#include "ir/kernel_ir/packs.h"

namespace nabla::codegen {

using namespace kernel_ir;  // NOLINT: this file prints kernel_ir

namespace {

constexpr int kStepBytes = 32;  // of k, in one mma

/// Warps stand in a rectangle; each keeps `rows_` x `columns_` fragments of 16 x 8 results. A step of mma takes 32
/// bytes of k: 16 halves (m16n8k16) or 8 f32 (m16n8k8 of tf32), whose fragments are the same registers.
class TensorCoreProduct : public ProductPrinter {
 public:
  TensorCoreProduct(const Product& p, const ProductMapping& cut, int threads, CppWriter& out, int& next_temp)
      : ProductPrinter(p, cut, threads, out, next_temp),
        rows_(cut.tile_rows / (kWarpsDown * kFragmentRows)),
        warps_across_(threads / (32 * kWarpsDown)),
        columns_(cut.tile_columns / (warps_across_ * kFragmentColumns)),
        stages_(cut.stages),
        dtype_(*common_dtype(p)),
        type_(storage_type(dtype_)),
        a_(lhs_tile(p, cut.tile_rows)),
        b_(rhs_tile(p, cut.tile_columns)) {
    pack_ = 16 / bytes_of(dtype_), tile_k_ = kTensorTileBytes / bytes_of(dtype_);
  }

 private:
  int stage() const { return a_.elements + b_.elements; }
  bool copies() const { return a_.packs || b_.packs; }

  void declare() override {
    out_.line(fmt::format("NB_SHARED({}, tiles_);", type_));
    out_.line("const int lane_ = threadIdx.x % 32, warp_ = threadIdx.x / 32;");
    out_.line(fmt::format("const int warp_m_ = warp_ / {} * {}, warp_n_ = warp_ % {} * {};", warps_across_, rows_ * 16,
                          warps_across_, columns_ * 8));
  }

  // ---- Tiles: 16 bytes a copy where sizes and addresses allow it, else element by element
  // Do the places that a thread copies from move with k by the same step everywhere?
  std::optional<ir::Dim> step_of(const FactorTile& o) const {
    if (!o.packs || o.load->guard || p_.parts.count(c_.k) || p_.parts.count(o.other)) return std::nullopt;
    std::optional<Affine> flat = flat_offset(o.load->args, k_.buffers[o.load->ref].shape);
    return flat ? std::optional(flat->of(c_.k)) : std::nullopt;
  }
  int copies_of(const FactorTile& o) const { return o.rows * tile_k_ / pack_ / threads_; }
  // Which pack of a tile is this thread's copy c_: x_ along the factor's own axis, y_ along k.
  void place_of_copy(const FactorTile& o) {
    int along = (o.k_fast ? tile_k_ : o.rows) / pack_;
    out_.line(fmt::format("const int p_ = c_ * {} + int(threadIdx.x);", threads_));
    std::string near = fmt::format("p_ % {} * {}", along, pack_), far = fmt::format("p_ / {}", along);
    out_.line(fmt::format("const int x_ = {}, y_ = {};", o.k_fast ? far : near, o.k_fast ? near : far));
  }
  // Where a thread's copies begin, and whether their rows are there: once for a tile of the result.
  void begin_steps(const std::string& name, const FactorTile& o) {
    if (!step_of(o)) return;
    std::string buffer = cpp_name(k_.buffers[o.load->ref].name), axis = axis_name(o.other);
    out_.line(fmt::format("const {}* {}_from_[{}];", type_, name, copies_of(o)));
    out_.line(fmt::format("bool {}_there_[{}];", name, copies_of(o)));
    out_.line("#pragma unroll");
    out_.open(fmt::format("for (int c_ = 0; c_ < {}; ++c_) {{", copies_of(o)));
    place_of_copy(o);
    out_.line(fmt::format("{}_there_[c_] = {}0_ + x_ < {};", name, name == "a" ? "m" : "n", extent(o.other)));
    out_.line(fmt::format("const long {} = {}_there_[c_] ? {}0_ + x_ : 0, {} = y_;", axis, name,
                          name == "a" ? "m" : "n", axis_name(c_.k)));
    out_.line(fmt::format("{}_from_[c_] = {} + {};", name, buffer,
                          printer().offset(o.load->args, k_.buffers[o.load->ref].shape)));
    out_.close();
  }
  void fill_by_steps(const std::string& name, const FactorTile& o, const ir::Dim& step) {
    out_.line("#pragma unroll");
    out_.open(fmt::format("for (int c_ = 0; c_ < {}; ++c_) {{", copies_of(o)));
    place_of_copy(o);
    std::string to = fmt::format("{}_fill_ + {} * {} + {}", name, o.k_fast ? "x_" : "y_", o.pitch, o.k_fast ? "y_" : "x_");
    std::string from = fmt::format("{}_from_[c_] + k0_ * {}", name, size_text(step));
    const ir::Dim& k = size(c_.k);
    if (k.is_static() && k.value() % tile_k_ == 0)
      out_.line(fmt::format("nb_cp_async_16_if({}, {}, {}_there_[c_]);", to, from, name));
    else  // what lies beyond the end of k is not read: its address is that of the first step
      out_.line(fmt::format("{{ const bool in_ = k0_ + y_ < {}; nb_cp_async_16_if({}, in_ ? {} : {}_from_[c_], in_ && {}_there_[c_]); }}",
                            extent(c_.k), to, from, name, name));
    out_.close();
  }
  void fill(const char* name, const FactorTile& o) {
    if (o.packs) {
      out_.open(fmt::format("if (nb_is_aligned({})) {{", cpp_name(k_.buffers[o.load->ref].name)));
      if (std::optional<ir::Dim> step = step_of(o))
        fill_by_steps(name, o, *step);
      else
        fill_by(name, o, pack_);
      out_.reopen("} else {");
    }
    fill_by(name, o, 1);
    if (o.packs) out_.close();
  }
  void fill_by(const std::string& name, const FactorTile& o, int width) {
    int along = (o.k_fast ? tile_k_ : o.rows) / width;  // packs along the fast axis
    if (width == 1) out_.line("#pragma unroll 2");      // more would take registers from the sums
    out_.open(fmt::format("for (int c_ = 0; c_ < {}; ++c_) {{", o.rows * tile_k_ / width / threads_));
    out_.line(fmt::format("const int p_ = c_ * {} + int(threadIdx.x);", threads_));
    std::string near = fmt::format("p_ % {}{}", along, width > 1 ? fmt::format(" * {}", width) : "");
    std::string far = fmt::format("p_ / {}", along);
    out_.line(fmt::format("const int x_ = {}, y_ = {};", o.k_fast ? far : near, o.k_fast ? near : far));
    out_.line(fmt::format("const long {} = {}0_ + x_, {} = k0_ + y_;", axis_name(o.other), name == "a" ? "m" : "n",
                          axis_name(c_.k)));
    out_.line(fmt::format("{}* const to_ = {}_fill_ + {} * {} + {};", type_, name, o.k_fast ? "x_" : "y_", o.pitch,
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
  // Tiles are filled `stages` - 1 ahead. After the one barrier of a tile all have what they have copied, and nobody reads any
  // more the tile before, which is filled next. A warp with registers for it loads fragments a step of mma ahead, those of the
  // next tile after that tile's barrier.
  void multiply() override {
    const int step = kStepBytes / bytes_of(dtype_), steps = tile_k_ / step;
    const bool ahead = columns_ > 4;
    out_.line(fmt::format("float acc_[{}][{}][4] = {{}};", rows_, columns_));
    out_.line(fmt::format("unsigned a_at_[{0}][{1}][4], b_at_[{0}][{2}][2];", ahead ? 2 : 1, rows_, columns_));
    out_.line(fmt::format("const int tiles_of_k_ = {};", size_text(ir::Dim::ceildiv(size(c_.k), tile_k_))));
    begin_steps("a", a_);
    begin_steps("b", b_);
    out_.open(fmt::format("for (int t_ = 0; t_ < {}; ++t_) {{", stages_ - 1));
    fill_tile("t_");
    out_.close();
    if (ahead) {
      wait();
      out_.open("{");
      load_fragments("0", "0", "0");
      out_.close();
    }
    out_.open("for (int t_ = 0; t_ < tiles_of_k_; ++t_) {");
    if (!ahead) {
      wait();
      fill_tile(fmt::format("t_ + {}", stages_ - 1));
    }
    out_.line("#pragma unroll");
    out_.open(fmt::format("for (int s_ = 0; s_ < {}; ++s_) {{", steps));
    if (ahead) {
      out_.open(fmt::format("if (s_ == {}) {{", steps - 1));
      wait();
      out_.close();
      out_.open(fmt::format("if (s_ < {} || t_ + 1 < tiles_of_k_) {{", steps - 1));
      load_fragments("(s_ + 1) % 2", fmt::format("t_ + (s_ + 1) / {}", steps), fmt::format("(s_ + 1) % {} * {}", steps, step));
      out_.close();
      out_.open("if (s_ == 0) {");
      fill_tile(fmt::format("t_ + {}", stages_ - 1));
      out_.close();
    } else {
      load_fragments("0", "t_", fmt::format("s_ * {}", step));
    }
    multiply_fragments(ahead ? "s_ % 2" : "0");
    out_.close();
    out_.close();
    out_.line("__syncthreads();");
  }
  void wait() {
    if (copies()) out_.line(fmt::format("nb_cp_wait<{}>();", stages_ - 2));
    out_.line("__syncthreads();");
  }
  void fill_tile(const std::string& tile) {
    out_.open(fmt::format("if (const int tile_of_k_ = {}; tile_of_k_ < tiles_of_k_) {{", tile));
    out_.line(fmt::format("const long k0_ = long(tile_of_k_) * {};", tile_k_));
    out_.line(fmt::format("{}* const a_fill_ = tiles_ + tile_of_k_ % {} * {};", type_, stages_, stage()));
    out_.line(fmt::format("{}* const b_fill_ = a_fill_ + {};", type_, a_.elements));
    fill("a", a_);
    fill("b", b_);
    out_.close();
    if (copies()) out_.line("nb_cp_commit();");
  }

  // ---- Fragments
  void load_fragments(const std::string& to, const std::string& tile, const std::string& k) {
    out_.line(fmt::format("const {}* const a_tile_ = tiles_ + ({}) % {} * {};", type_, tile, stages_, stage()));
    out_.line(fmt::format("const {}* const b_tile_ = a_tile_ + {};", type_, a_.elements));
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
    mma = tf32() ? "nb_mma_1688_tf32" + mma + ")" : fmt::format("nb_mma_16816{}, {}{{}})", mma, type_);
    out_.line("#pragma unroll");
    out_.line(fmt::format("for (int i_ = 0; i_ < {}; ++i_)", rows_));
    out_.line("#pragma unroll");
    out_.line(fmt::format("  for (int j_ = 0; j_ < {}; ++j_) {};", columns_, mma));
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

  // 16 rows of a warp at a time go through shared memory, so that each lane stores packs of a row.
  void finish() override {
    std::optional<Epilogue> e = epilogue();
    if (e) {
      std::string aligned;
      for (int buffer : e->packs.buffers)
        aligned += fmt::format("{}nb_is_aligned({})", aligned.empty() ? "" : " && ", cpp_name(k_.buffers[buffer].name));
      out_.open(fmt::format("if ({}) {{", aligned));
      finish_by_packs(*e);
      out_.reopen("} else {");
    }
    finish_by_elements();
    if (e) out_.close();
  }
  void finish_by_packs(const Epilogue& e) {
    int width = e.packs.width, along = columns_ * kFragmentColumns, pitch = epilogue_pitch(columns_);
    out_.line(fmt::format("float* const room_ = (float*)tiles_ + warp_ * {};", kFragmentRows * pitch));
    out_.line("#pragma unroll");
    out_.open(fmt::format("for (int i_ = 0; i_ < {}; ++i_) {{", rows_));
    out_.line("__syncwarp();");
    out_.line("#pragma unroll");
    out_.open(fmt::format("for (int j_ = 0; j_ < {}; ++j_) {{", columns_));
    out_.line(fmt::format("float* const to_ = room_ + lane_ / 4 * {} + j_ * 8 + lane_ % 4 * 2;", pitch));
    out_.line("nb_store_pack(to_, nb_pack<float, 2>{acc_[i_][j_][0], acc_[i_][j_][1]});");
    out_.line(fmt::format("nb_store_pack(to_ + {}, nb_pack<float, 2>{{acc_[i_][j_][2], acc_[i_][j_][3]}});", 8 * pitch));
    out_.close();
    out_.line("__syncwarp();");
    out_.open(fmt::format("for (int p_ = lane_; p_ < {}; p_ += 32) {{", kFragmentRows * along / width));
    out_.line(fmt::format("const int x_ = p_ / {0}, y_ = p_ % {0} * {1};", along / width, width));
    int wide = std::min(width, 4);
    out_.line(fmt::format("nb_pack<float, {}> sums_[{}];", wide, width / wide));
    out_.line(fmt::format("for (int h_ = 0; h_ < {0}; ++h_) sums_[h_] = nb_load_pack<{1}>(room_ + x_ * {2} + y_ + h_ * {1});",
                          width / wide, wide, pitch));
    pack(e, "m0_ + warp_m_ + i_ * 16 + x_", "n0_ + warp_n_ + y_", fmt::format("sums_[l_ / {0}].at[l_ % {0}]", wide));
    out_.close();
    out_.close();
    out_.line("__syncthreads();");
  }
  void finish_by_elements() {
    out_.line("#pragma unroll");
    out_.open(fmt::format("for (int e_ = 0; e_ < {}; ++e_) {{", rows_ * columns_ * 4));
    out_.line(fmt::format("const int i_ = e_ / {}, j_ = e_ / 4 % {}, q_ = e_ % 4;", 4 * columns_, columns_));
    element("m0_ + warp_m_ + i_ * 16 + lane_ / 4 + q_ / 2 * 8", "n0_ + warp_n_ + j_ * 8 + lane_ % 4 * 2 + q_ % 2",
            "acc_[i_][j_][q_]");
    out_.close();
  }

  int rows_, warps_across_, columns_, stages_, pack_, tile_k_;
  DType dtype_;
  std::string type_;
  FactorTile a_, b_;
};

}  // namespace

void print_on_tensor_cores(const Product& p, const ProductMapping& cut, int threads, CppWriter& out, int& next_temp) {
  TensorCoreProduct(p, cut, threads, out, next_temp).run();
}

}  // namespace nabla::codegen
