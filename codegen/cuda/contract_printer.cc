#include "codegen/cuda/contract_printer.h"

#include <algorithm>

#include "codegen/cuda/product.h"
#include "ir/kernel_ir/packs.h"

namespace nabla::codegen {

using namespace kernel_ir;  // NOLINT: this file prints kernel_ir

namespace {

constexpr int kWarpsAcross = 2, kLanesDown = 4, kLanesAcross = 8;  // of 256 threads

/// Any dtype, by multiply-adds. A warp keeps 4 x 8 threads' results, a thread `reg` x `reg` of them as squares of packs: it
/// reads packs of both tiles, where k is slowest, and stores packs. Tiles are copied `stages` - 1 ahead, or computed one ahead
/// in registers.
class PlainProduct : public ProductPrinter {
 public:
  PlainProduct(const Product& p, const ProductMapping& cut, int threads, bool at_packs, CppWriter& out, int& next_temp)
      : ProductPrinter(p, cut, threads, at_packs, out, next_temp),
        bytes_(thread_tile_bytes(c_.dtype)),
        reg_(cut.tile_rows / kThreadSide),
        side_(cut.tile_rows),
        pack_(std::min(reg_, 16 / std::max(bytes_, 4))),
        pitch_(thread_pitch(side_, bytes_)),
        stages_(cut.stages),
        type_(compute_type(c_.dtype)),
        a_(tile("a", p.lhs, c_.lhs, c_.m)),
        b_(tile("b", p.rhs, c_.rhs, c_.n)) {}

 private:
  struct Tile {
    std::string name;
    Expr factor, load;
    int other;                       // the factor's axis beside k
    bool k_fast, copied;             // neighbours lie along k; moved as they are, by cp.async
    std::optional<int64_t> along_k, along_other;  // distances in memory, where both are the same everywhere
    bool steps() const { return copied && along_k && along_other; }
    bool packs;                      // copied 16 bytes at a time
  };
  Tile tile(const std::string& name, const Expr& factor, const Expr& load, int other) const {
    const bool k_fast = p_.walks(load, p_.last_of(c_.k)) && !p_.walks(load, p_.last_of(other));
    Tile t{name, factor, load, other, k_fast, is_copied(p_, factor), {}, {}, false};
    const bool plain = !load->guard && !p_.parts.count(c_.k) && !p_.parts.count(other);
    if (plain) t.along_k = stride(load, c_.k), t.along_other = stride(load, other);
    const FactorTile whole = name == "a" ? lhs_tile(p_, side_) : rhs_tile(p_, side_);
    t.packs = t.steps() && !t.k_fast && whole.packs && elements() * bytes_ >= 16;
    return t;
  }
  std::optional<int64_t> stride(const Expr& load, int axis) const {
    return stride_along(load->args, k_.buffers[load->ref].shape, axis, [&](const Expr& e) { return uses_axis(e, axis); });
  }
  int elements() const { return side_ * kThreadTileK / threads_; }  // of a tile, of each thread
  int stage() const { return 2 * kThreadTileK * pitch_; }
  bool copies() const { return a_.copied || b_.copied; }
  std::string first(const Tile& t) const { return t.name + "_from_"; }
  std::string origin(const Tile& t) const { return t.name == "a" ? "m0_" : "n0_"; }

  void declare() override {
    out_.line(fmt::format("NB_SHARED({}, tiles_);", type_));
    out_.line("const int lane_ = threadIdx.x % 32, warp_ = threadIdx.x / 32;");
    // Lanes beside each other share a pack of one factor, the next but one of the other.
    out_.line(fmt::format("const int row_ = warp_ / {} * {} + (lane_ % 2 + lane_ / 16 * 2) * {};", kWarpsAcross,
                          kLanesDown * reg_, pack_));
    out_.line(fmt::format("const int column_ = warp_ % {} * {} + lane_ / 2 % {} * {};", kWarpsAcross, kLanesAcross * reg_,
                          kLanesAcross, pack_));
  }
  // After the one barrier of a tile all have what they have copied of it, and nobody reads any more the tile before, which is
  // filled next.
  void multiply() override {
    out_.line(fmt::format("{0} acc_[{1}][{1}] = {{}};", type_, reg_));
    out_.line(fmt::format("const int tiles_of_k_ = {};", tiles_of_k(kThreadTileK)));
    for (const Tile* t : {&a_, &b_})
      if (t->steps()) begin_steps(*t);
    out_.line("#pragma unroll 1");
    out_.open(fmt::format("for (int t_ = 0; t_ < {}; ++t_) {{", stages_ - 1));
    fill_tile("t_");
    store_computed("t_");
    out_.close();
    out_.open("for (int t_ = 0; t_ < tiles_of_k_; ++t_) {");
    if (copies()) out_.line(fmt::format("nb_cp_wait<{}>();", stages_ - 2));
    out_.line("__syncthreads();");
    const std::string next = fmt::format("t_ + {}", stages_ - 1);
    fill_tile(next);
    multiply_tile();
    store_computed(next);
    out_.close();
    out_.line("__syncthreads();");
  }
  void multiply_tile() {
    const int packs = reg_ / pack_;
    out_.line(fmt::format("const {}* const a_tile_ = tiles_ + t_ % {} * {} + row_;", type_, stages_, stage()));
    out_.line(fmt::format("const {}* const b_tile_ = tiles_ + t_ % {} * {} + {} + column_;", type_, stages_, stage(), stage() / 2));
    out_.line("#pragma unroll");
    out_.open(fmt::format("for (int k_ = 0; k_ < {}; ++k_) {{", kThreadTileK));
    out_.line(fmt::format("nb_pack<{0}, {1}> a_[{2}], b_[{2}];", type_, pack_, packs));
    out_.open(fmt::format("for (int g_ = 0; g_ < {}; ++g_) {{", packs));
    out_.line(fmt::format("a_[g_] = nb_load_pack<{}>(a_tile_ + k_ * {} + g_ * {});", pack_, pitch_, kLanesDown * pack_));
    out_.line(fmt::format("b_[g_] = nb_load_pack<{}>(b_tile_ + k_ * {} + g_ * {});", pack_, pitch_, kLanesAcross * pack_));
    out_.close();
    out_.line(fmt::format("for (int i_ = 0; i_ < {0}; ++i_)", reg_));
    out_.line(fmt::format("  for (int j_ = 0; j_ < {}; ++j_)", reg_));
    out_.line(fmt::format("    acc_[i_][j_] += a_[i_ / {0}].at[i_ % {0}] * b_[j_ / {0}].at[j_ % {0}];", pack_));
    out_.close();
  }

  // ---- Tiles
  // Which element, or pack, of a tile is this thread's c_: x_ along the factor's own axis, y_ along k. A warp takes whole
  // sectors, and puts what lies along k into different banks.
  void place(const Tile& t, int width, const std::string& c) {
    if (t.k_fast) {
      out_.line(fmt::format("const int x_ = lane_ / 8 + warp_ / 2 * 4 + {} * {}, y_ = lane_ % 8 + warp_ % 2 * 8;", c, kThreadSide));
    } else {
      out_.line(fmt::format("const int p_ = {} * {} + int(threadIdx.x);", c, threads_));
      out_.line(fmt::format("const int x_ = p_ % {0} * {1}, y_ = p_ / {0};", side_ / width, width));
    }
  }
  int width(const Tile& t) const { return t.packs ? 16 / bytes_ : 1; }
  // From one of a thread's copies to the next.
  int next_x(const Tile& t) const { return t.k_fast ? kThreadSide : 0; }
  int next_y(const Tile& t) const { return t.k_fast ? 0 : threads_ * width(t) / side_; }

  // Where a thread's copies begin, and which of their rows are there: once for a tile of the result.
  void begin_steps(const Tile& t) {
    out_.line(fmt::format("const {}* {};", type_, first(t)));
    out_.line(fmt::format("int {}_there_;", t.name));
    out_.open("{");
    place(t, width(t), "0");
    out_.line(fmt::format("const long {} = {} + x_, {} = y_;", axis_name(t.other), origin(t), axis_name(c_.k)));
    out_.line(fmt::format("{} = {};", first(t), address(t)));
    // How many of its copies: those of columns are all there, or none.
    std::string left = fmt::format("{} - {}", extent(t.other), axis_name(t.other));
    out_.line(t.k_fast ? fmt::format("{0}_there_ = int({1} <= 0 ? 0 : ({1} - 1) / {2} + 1);", t.name, left, kThreadSide)
                       : fmt::format("{}_there_ = {} > 0;", t.name, left));
    out_.close();
  }
  void fill_tile(const std::string& tile) {
    for (const Tile* t : {&a_, &b_})
      if (!t->copied) out_.line(fmt::format("{} {}_next_[{}];", type_, t->name, elements()));
    out_.open(fmt::format("if (const int tile_of_k_ = {}; tile_of_k_ < tiles_of_k_) {{", tile));
    out_.line(fmt::format("const long k0_ = long(tile_of_k_) * {};", kThreadTileK));
    out_.line(fmt::format("{}* const a_fill_ = tiles_ + tile_of_k_ % {} * {};", type_, stages_, stage()));
    out_.line(fmt::format("{}* const b_fill_ = a_fill_ + {};", type_, stage() / 2));
    for (const Tile* t : {&a_, &b_}) t->copied ? copy(*t) : compute(*t);
    out_.close();
    if (copies()) out_.line("nb_cp_commit();");
  }
  void copy(const Tile& t) {
    if (!t.steps()) return copy_each(t);
    if (!t.packs) return copy_by_steps(t);
    by_packs({t.load->ref}, [&] { copy_by_steps(t); }, [&] { copy_each(t); });
  }
  void copy_by_steps(const Tile& t) {
    out_.line("#pragma unroll");
    out_.open(fmt::format("for (int c_ = 0; c_ < {}; ++c_) {{", elements() / width(t)));
    place(t, width(t), "0");
    std::string there = t.k_fast ? fmt::format("c_ < {}_there_", t.name) : t.name + "_there_";
    if (!fills_tiles_of_k(kThreadTileK)) there += fmt::format(" && k0_ + y_ + c_ * {} < {}", next_y(t), end_of_k());
    const int64_t step = next_x(t) * *t.along_other + next_y(t) * *t.along_k;
    out_.line(fmt::format("nb_cp_async_if<{}>({}_fill_ + y_ * {} + x_ + c_ * {}, {} + k0_ * {} + c_ * {}L, {});",
                          width(t) * bytes_, t.name, pitch_, next_y(t) * pitch_ + next_x(t), first(t), *t.along_k, step, there));
    out_.close();
  }
  // Of the element at the axes' positions.
  std::string address(const Tile& t) {
    const Buffer& b = k_.buffers[t.load->ref];
    return fmt::format("{} + {}", cpp_name(b.name), printer().offset(t.load->args, b.shape));
  }
  std::string inside(const Tile& t) const {
    return fmt::format("{} < {} && {} < {}", axis_name(t.other), extent(t.other), axis_name(c_.k), end_of_k());
  }
  void copy_each(const Tile& t) {
    out_.line("#pragma unroll 1");
    out_.open(fmt::format("for (int c_ = 0; c_ < {}; ++c_) {{", elements()));
    place(t, 1, "c_");
    out_.line(fmt::format("const long {} = {} + x_, {} = k0_ + y_;", axis_name(t.other), origin(t), axis_name(c_.k)));
    positions(t.other), positions(c_.k);
    std::string there = inside(t);
    if (t.load->guard) there += fmt::format(" && ({})", printer().print(t.load->guard));
    out_.line(fmt::format("const bool there_ = {};", there));
    out_.line(fmt::format("nb_cp_async_if<{}>({}_fill_ + y_ * {} + x_, there_ ? {} : {}, there_);", bytes_, t.name, pitch_,
                          address(t), cpp_name(k_.buffers[t.load->ref].name)));
    out_.close();
  }
  // What is no copy waits in registers while the tile before is multiplied.
  void compute(const Tile& t) {
    out_.line("#pragma unroll");
    out_.open(fmt::format("for (int c_ = 0; c_ < {}; ++c_) {{", elements()));
    place(t, 1, "c_");
    out_.line(fmt::format("const long {} = {} + x_, {} = k0_ + y_;", axis_name(t.other), origin(t), axis_name(c_.k)));
    out_.line(fmt::format("{}_next_[c_] = 0;", t.name));
    out_.open(fmt::format("if ({}) {{", inside(t)));
    positions(t.other), positions(c_.k);
    std::string text = printer().print(t.factor);
    out_.line(fmt::format("{}_next_[c_] = {};", t.name, text));
    out_.close();
    out_.close();
  }
  void store_computed(const std::string& tile) {
    if (a_.copied && b_.copied) return;
    out_.open(fmt::format("if (const int tile_of_k_ = {}; tile_of_k_ < tiles_of_k_) {{", tile));
    for (const Tile* t : {&a_, &b_}) {
      if (t->copied) continue;
      out_.line("#pragma unroll");
      out_.open(fmt::format("for (int c_ = 0; c_ < {}; ++c_) {{", elements()));
      place(*t, 1, "c_");
      out_.line(fmt::format("tiles_[tile_of_k_ % {} * {} + {} + y_ * {} + x_] = {}_next_[c_];", stages_, stage(),
                            t == &a_ ? 0 : stage() / 2, pitch_, t->name));
      out_.close();
    }
    out_.close();
  }

  // ---- Results
  std::string row() const { return fmt::format("m0_ + row_ + i_ / {0} * {1} + i_ % {0}", pack_, kLanesDown * pack_); }
  std::string column() const { return fmt::format("n0_ + column_ + j_ / {0} * {1} + j_ % {0}", pack_, kLanesAcross * pack_); }
  void finish() override {
    std::optional<Epilogue> e = epilogue();
    const int width = e ? std::min(e->packs.width, pack_) : 1;
    auto one_by_one = [&] {
      open_results(1);
      element(row(), column(), "acc_[i_][j_]");
      close_results();
    };
    if (width == 1) return one_by_one();
    auto packs = [&] {
      open_results(width);
      pack(*e, width, row(), column(), "acc_[i_][j_ + l_]");
      close_results();
    };
    by_packs(e->packs.buffers, packs, one_by_one);
  }
  void open_results(int width) {
    out_.line("#pragma unroll");
    out_.open(fmt::format("for (int i_ = 0; i_ < {}; ++i_) {{", reg_));
    out_.line("#pragma unroll");
    out_.open(fmt::format("for (int j_ = 0; j_ < {}; j_ += {}) {{", reg_, width));
  }
  void close_results() {
    out_.close();
    out_.close();
  }

  int bytes_, reg_, side_;
  int pack_;  // elements that a thread reads at a time
  int pitch_, stages_;
  std::string type_;
  Tile a_, b_;
};

}  // namespace

std::vector<TensorMap> print_product(const Product& p, const ProductMapping& cut, int threads, bool at_packs, CppWriter& out,
                                     int& next_temp) {
  if (cut.by == ProductMapping::By::kWarpgroups) return print_by_warpgroups(p, cut, threads, at_packs, out, next_temp);
  if (cut.by == ProductMapping::By::kWarps)
    print_on_tensor_cores(p, cut, threads, at_packs, out, next_temp);
  else
    PlainProduct(p, cut, threads, at_packs, out, next_temp).run();
  return {};
}

}  // namespace nabla::codegen
