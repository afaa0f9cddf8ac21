#include "codegen/cuda/staged_product.h"

#include <algorithm>

#include "ir/kernel_ir/packs.h"

namespace nabla::codegen {

using namespace kernel_ir;  // NOLINT: this file prints kernel_ir

StagedProduct::StagedProduct(const Product& p, const ProductMapping& cut, int threads, int tile_k, bool at_packs, CppWriter& out,
                             int& next_temp)
    : ProductPrinter(p, cut, threads, at_packs, out, next_temp),
      stages_(cut.stages),
      tile_k_(tile_k),
      dtype_(*common_dtype(p)),
      type_(storage_type(dtype_)),
      a_(lhs_tile(p, cut.tile_rows)),
      b_(rhs_tile(p, cut.tile_columns)) {
  pack_ = 16 / bytes_of(dtype_);
}

std::string StagedProduct::after_a(const std::string& a_tile, const std::string& constant) const {
  std::string at = fmt::format("{} + {}", a_tile, a_.elements);
  return a_.dtype == b_.dtype ? at : fmt::format("({}{}*)({})", constant, type_of(b_), at);
}

void StagedProduct::fill_tile(const std::string& tile) {
  out_.open(fmt::format("if (const int tile_of_k_ = {}; tile_of_k_ < tiles_of_k_) {{", tile));
  out_.line(fmt::format("const long k0_ = long(tile_of_k_) * {};", tile_k_));
  out_.line(fmt::format("{}* const a_fill_ = tiles_ + tile_of_k_ % {} * {};", type_, stages_, stage()));
  out_.line(fmt::format("{}* const b_fill_ = {};", type_of(b_), after_a("a_fill_", "")));
  fill("a", a_);
  fill("b", b_);
  out_.close();
  if (copies()) out_.line("nb_cp_commit();");
}

// Which pack of a tile is this thread's copy c_: x_ along the factor's own axis, y_ along k.
void StagedProduct::place_of_copy(const FactorTile& o) {
  int along = (o.k_fast ? tile_k_ : o.rows) / pack_;
  out_.line(fmt::format("const int p_ = c_ * {} + int(threadIdx.x);", threads_));
  std::string near = fmt::format("p_ % {} * {}", along, pack_), far = fmt::format("p_ / {}", along);
  out_.line(fmt::format("const int x_ = {}, y_ = {};", o.k_fast ? far : near, o.k_fast ? near : far));
}
// Where a thread's copies begin, and whether their rows are there: once for a tile of the result.
void StagedProduct::begin_steps(const std::string& name, const FactorTile& o) {
  if (!step_of_copies(p_, o)) return;
  std::string buffer = cpp_name(k_.buffers[o.load->ref].name), axis = axis_name(o.other);
  out_.line(fmt::format("const {}* {}_from_[{}];", type_of(o), name, copies_of(o)));
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
void StagedProduct::fill_by_steps(const std::string& name, const FactorTile& o, const ir::Dim& step) {
  out_.line("#pragma unroll");
  out_.open(fmt::format("for (int c_ = 0; c_ < {}; ++c_) {{", copies_of(o)));
  place_of_copy(o);
  std::string to = fmt::format("{}_fill_ + {}", name, place(o));
  std::string from = fmt::format("{}_from_[c_] + k0_ * {}", name, size_text(step));
  if (fills_tiles_of_k(tile_k_))
    out_.line(fmt::format("nb_cp_async_if<16>({}, {}, {}_there_[c_]);", to, from, name));
  else  // what lies beyond the end of k is not read: its address is that of the first step
    out_.line(fmt::format("{{ const bool in_ = k0_ + y_ < {}; nb_cp_async_if<16>({}, in_ ? {} : {}_from_[c_], in_ && {}_there_[c_]); }}",
                          end_of_k(), to, from, name, name));
  out_.close();
}
void StagedProduct::fill(const char* name, const FactorTile& o) {
  auto one_by_one = [&] { fill_by(name, o, 1); };
  if (!o.packs) return one_by_one();
  auto packs = [&] {
    std::optional<ir::Dim> step = step_of_copies(p_, o);
    step ? fill_by_steps(name, o, *step) : fill_by(name, o, pack_);
  };
  by_packs({o.load->ref}, packs, one_by_one);
}
void StagedProduct::fill_by(const std::string& name, const FactorTile& o, int width) {
  int along = (o.k_fast ? tile_k_ : o.rows) / width;  // packs along the fast axis
  if (width == 1) out_.line("#pragma unroll 2");      // more would take registers from the sums
  out_.open(fmt::format("for (int c_ = 0; c_ < {}; ++c_) {{", o.rows * tile_k_ / width / threads_));
  out_.line(fmt::format("const int p_ = c_ * {} + int(threadIdx.x);", threads_));
  std::string near = fmt::format("p_ % {}{}", along, width > 1 ? fmt::format(" * {}", width) : "");
  std::string far = fmt::format("p_ / {}", along);
  out_.line(fmt::format("const int x_ = {}, y_ = {};", o.k_fast ? far : near, o.k_fast ? near : far));
  out_.line(fmt::format("const long {} = {}0_ + x_, {} = k0_ + y_;", axis_name(o.other), name == "a" ? "m" : "n",
                        axis_name(c_.k)));
  out_.line(fmt::format("{}* const to_ = {}_fill_ + {};", type_of(o), name, place(o)));
  positions(o.other), positions(c_.k);
  std::string inside =
      fmt::format("{} < {} && {} < {}", axis_name(o.other), extent(o.other), axis_name(c_.k), end_of_k());
  if (o.load->guard) inside += fmt::format(" && ({})", printer().print(o.load->guard));
  std::string at = printer().offset(o.load->args, k_.buffers[o.load->ref].shape);
  std::string buffer = cpp_name(k_.buffers[o.load->ref].name);
  if (width == 1) {
    out_.line(fmt::format("{} v_ = {{}};", type_of(o)));
    out_.line(fmt::format("if ({}) v_ = {}[{}];", inside, buffer, at));
    out_.line("*to_ = v_;");
  } else {
    out_.line(fmt::format("if ({}) nb_cp_async_16(to_, {} + {});", inside, buffer, at));
    out_.line(fmt::format("else nb_store_pack(to_, nb_pack<{}, {}>{{}});", type_of(o), width));
  }
  out_.close();
}
// 16 rows of a warp at a time go through shared memory, so that each lane stores packs of a row.
void StagedProduct::finish() {
  std::optional<Epilogue> e = epilogue();
  if (!e) return finish_by_elements();
  by_packs(e->packs.buffers, [&] { finish_by_packs(*e); }, [&] { finish_by_elements(); });
}
void StagedProduct::finish_by_packs(const Epilogue& e) {
  int width = e.packs.width, along = columns_ * kFragmentColumns, pitch = epilogue_pitch(columns_);
  out_.line(fmt::format("float* const room_ = (float*)tiles_ + warp_ * {};", kFragmentRows * pitch));
  out_.line("#pragma unroll");
  out_.open(fmt::format("for (int i_ = 0; i_ < {}; ++i_) {{", rows_));
  if (rows_ > 1) out_.line("__syncwarp();");  // all have read the 16 rows before
  const int first = twined_rows_ ? 2 * pitch : pitch, second = twined_rows_ ? pitch : 8 * pitch;  // a lane's two rows
  out_.line("#pragma unroll");
  if (twined_columns_) {
    out_.open(fmt::format("for (int j_ = 0; j_ < {}; j_ += 2) {{", columns_));
    out_.line(fmt::format("float* const to_ = room_ + lane_ / 4 * {} + j_ * 8 + lane_ % 4 * 4;", first));
    for (int row : {0, 2})
      out_.line(fmt::format("nb_store_pack(to_{0}, nb_pack<float, 4>{{acc_[i_][j_][{1}], acc_[i_][j_ + 1][{1}], "
                            "acc_[i_][j_][{2}], acc_[i_][j_ + 1][{2}]}});",
                            row ? fmt::format(" + {}", second) : "", row, row + 1));
  } else {
    out_.open(fmt::format("for (int j_ = 0; j_ < {}; ++j_) {{", columns_));
    out_.line(fmt::format("float* const to_ = room_ + lane_ / 4 * {} + j_ * 8 + lane_ % 4 * 2;", first));
    out_.line("nb_store_pack(to_, nb_pack<float, 2>{acc_[i_][j_][0], acc_[i_][j_][1]});");
    out_.line(fmt::format("nb_store_pack(to_ + {}, nb_pack<float, 2>{{acc_[i_][j_][2], acc_[i_][j_][3]}});", second));
  }
  out_.close();
  out_.line("__syncwarp();");
  out_.open(fmt::format("for (int p_ = lane_; p_ < {}; p_ += 32) {{", kFragmentRows * along / width));
  out_.line(fmt::format("const int x_ = p_ / {0}, y_ = p_ % {0} * {1};", along / width, width));
  int wide = std::min(width, 4);
  out_.line(fmt::format("nb_pack<float, {}> sums_[{}];", wide, width / wide));
  out_.line(fmt::format("for (int h_ = 0; h_ < {0}; ++h_) sums_[h_] = nb_load_pack<{1}>(room_ + x_ * {2} + y_ + h_ * {1});",
                        width / wide, wide, pitch));
  pack(e, width, "m0_ + warp_m_ + i_ * 16 + x_", "n0_ + warp_n_ + y_", fmt::format("sums_[l_ / {0}].at[l_ % {0}]", wide));
  out_.close();
  out_.close();
  if (by_engine()) out_.line("nb_wg_see_copies();");  // the engine is shown what threads have done in shared memory
  out_.line("__syncthreads();");
}
void StagedProduct::finish_by_elements() {
  out_.line("#pragma unroll");
  out_.open(fmt::format("for (int e_ = 0; e_ < {}; ++e_) {{", rows_ * columns_ * 4));
  out_.line(fmt::format("const int i_ = e_ / {}, j_ = e_ / 4 % {}, q_ = e_ % 4;", 4 * columns_, columns_));
  std::string row = twined_rows_ ? "lane_ / 4 * 2 + q_ / 2" : "lane_ / 4 + q_ / 2 * 8";
  std::string column = twined_columns_ ? "j_ / 2 * 16 + lane_ % 4 * 4 + q_ % 2 * 2 + j_ % 2" : "j_ * 8 + lane_ % 4 * 2 + q_ % 2";
  element("m0_ + warp_m_ + i_ * 16 + " + row, "n0_ + warp_n_ + " + column, "acc_[i_][j_][q_]");
  out_.close();
}

}  // namespace nabla::codegen
