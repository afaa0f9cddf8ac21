#include "codegen/cpu/contract_printer.h"

#include <algorithm>

#include "codegen/print/store_printer.h"
#include "ir/kernel_ir/contract.h"

namespace nabla::codegen {
namespace {

using namespace kernel_ir;  // NOLINT: this file prints kernel_ir

// At most this many bytes of packed right-hand side at a time: half of a usual L2.
constexpr int64_t kPanelBytes = 512 << 10;
constexpr int64_t kDepth = 1024;  // of a panel; longer sums go through the scratch tile several times

class ContractPrinter {
 public:
  ContractPrinter(const Kernel& k, const ir::Target& target, CppWriter& out, int& next_temp)
      : k_(k), target_(target), out_(out), next_temp_(next_temp), c_(*find_contraction(k)) {
    m_ = size(c_.m), n_ = size(c_.n), depth_ = size(c_.k);
    lanes_ = vector_elements(k, target.vector_bytes);
    plan_ = plan_contraction(m_, n_, lanes_, target.vector_registers);
    rows_ = plan_.tile_rows;
    vectors_ = plan_.tile_vectors;
    columns_ = vectors_ * lanes_;
    step_ = std::min(most(depth_), kDepth);
    type_ = compute_type(c_.dtype);
    // The f32 sums of several panels are added in f64, as the blocks of other long sums (loops.h).
    tile_dtype_ = c_.dtype == DType::kF32 && most(depth_) > step_ ? DType::kF64 : c_.dtype;
    vec_ = vector_type(c_.dtype);
    int64_t cols_in_unit = plan_.by_columns ? plan_.block : most(n_);
    int64_t rows_in_unit = std::min(most(m_), plan_.by_columns ? most(m_) : plan_.block);
    int64_t group = kPanelBytes / (step_ * columns_ * bytes_of(c_.dtype));
    group_ = std::clamp<int64_t>(group, 1, (cols_in_unit + columns_ - 1) / columns_);
    // Rows of B that lie ready need no packing where too few rows of A would pay for it.
    direct_ = stride(c_.rhs, c_.n).is(1) && ir::Dim::mod(n_, columns_).is(0) && rows_in_unit <= 128 &&
              storage_type(c_.rhs->dtype) == type_;
    scratch_rows_ = (rows_in_unit + rows_ - 1) / rows_ * rows_;
  }

  void run() {
    for (const Stmt& s : k_.body)
      if (const Let* let = std::get_if<Let>(&s.node); let && k_.values[let->value].axes.empty()) scalar_let(*let);
    if (!direct_) out_.line(fmt::format("alignas(64) {} panel_[{}];", type_, group_ * step_ * columns_));
    out_.line(fmt::format("alignas(64) {} tile_[{}];", compute_type(tile_dtype_), scratch_rows_ * group_ * columns_));
    out_.open("for (long unit_ = begin; unit_ < end; ++unit_) {");
    decode_batch(plan_.blocks);
    std::string size = size_text(plan_.by_columns ? n_ : m_);
    out_.line(fmt::format("const long first_ = unit_ % {} * {}, last_ = first_ + {} < {} ? first_ + {} : {};",
                          size_text(plan_.blocks), plan_.block, plan_.block, size, plan_.block, size));
    out_.line(plan_.by_columns
                  ? fmt::format("const long m0_ = 0, m1_ = {}, n0_ = first_, n1_ = last_;", size_text(m_))
                  : fmt::format("const long m0_ = first_, m1_ = last_, n0_ = 0, n1_ = {};", size_text(n_)));
    out_.open(fmt::format("for (long j0_ = n0_; j0_ < n1_; j0_ += {}) {{", group_ * columns_));
    out_.line(fmt::format("const long j1_ = j0_ + {0} < n1_ ? j0_ + {0} : n1_;", group_ * columns_));
    out_.open(fmt::format("for (long k0_ = 0; k0_ < {}; k0_ += {}) {{", size_text(depth_), step_));
    out_.line(fmt::format("const long depth_ = k0_ + {0} < {1} ? {0} : {1} - k0_;", step_, size_text(depth_)));
    if (!direct_) pack();
    m_.is_static() ? row_blocks(m_.value()) : open_row_blocks();
    out_.close();
    epilogue();
    out_.close();
    out_.close();
  }

 private:
  // All rows of a panel, in steps of the register tile; how many are left behind the last whole one is known.
  void row_blocks(int64_t m) {
    out_.open(fmt::format("for (long i0_ = m0_; i0_ < m1_; i0_ += {}) {{", rows_));
    out_.open(fmt::format("for (long j_ = j0_; j_ < j1_; j_ += {}) {{", columns_));
    int64_t rest = m % rows_;
    if (rest && m > rows_) out_.open(fmt::format("if (i0_ + {} <= m1_) {{", rows_));
    if (m >= rows_) micro(rows_);
    if (rest && m > rows_) out_.reopen("} else {");
    if (rest) micro(static_cast<int>(rest));
    if (rest && m > rows_) out_.close();
    out_.close();
    out_.close();
  }
  // The same where the number of rows is known at run time only: tiles of fewer rows, down to one.
  void open_row_blocks() {
    std::vector<int> tiles{rows_};
    for (int rows : {4, 1})
      if (rows < rows_) tiles.push_back(rows);
    std::string step;
    for (int rows : tiles) step += rows == 1 ? "1" : fmt::format("m1_ - i0_ >= {0} ? {0} : ", rows);
    out_.open("for (long i0_ = m0_, step_; i0_ < m1_; i0_ += step_) {");
    out_.line(fmt::format("step_ = {};", step));
    out_.open(fmt::format("for (long j_ = j0_; j_ < j1_; j_ += {}) {{", columns_));
    for (size_t i = 0; i < tiles.size(); ++i) {
      std::string test = i + 1 < tiles.size() ? fmt::format("if (step_ == {}) ", tiles[i]) : "";
      if (i == 0)
        out_.open(test + "{");
      else
        out_.reopen("} else " + test + "{");
      micro(tiles[i]);
    }
    out_.close();
    out_.close();
    out_.close();
  }

  const ir::Dim& size(int axis) const { return k_.axes[axis].extent; }
  static int64_t most(const ir::Dim& size) { return size.bounds().max; }
  // Elements between neighbours along `axis`.
  ir::Dim stride(const Expr& load, int axis) const {
    const ir::Shape& shape = k_.buffers[load->ref].shape;
    ir::Dim step = 1, total = 0;
    for (int d = static_cast<int>(load->args.size()) - 1; d >= 0; --d) {
      total = total + step * as_affine(load->args[d])->of(axis);
      step = step * shape[d];
    }
    return total;
  }
  std::string base(const Expr& load) const {
    std::string out = cpp_name(k_.buffers[load->ref].name);
    for (size_t i = 0; i < c_.batch.size(); ++i)
      if (ir::Dim s = stride(load, c_.batch[i]); !s.is(0))
        out += fmt::format(" + {} * {}", cpp_name(k_.axes[c_.batch[i]].name), size_text(s));
    return out;
  }

  void scalar_let(const Let& let) {
    ExprPrinter p(k_, places_, out_, next_temp_);
    const ValueInfo& v = k_.values[let.value];
    out_.line(fmt::format("const {} {} = {};", compute_type(v.dtype), cpp_name(v.name), p.print(let.expr)));
    places_[let.value] = {};
  }

  void decode_batch(const ir::Dim& per_batch) {
    ir::Dim inner = per_batch;
    for (int i = static_cast<int>(c_.batch.size()) - 1; i >= 0; --i) {
      out_.line(fmt::format("const long {} = unit_ / {} % {};", cpp_name(k_.axes[c_.batch[i]].name), size_text(inner),
                            size_text(size(c_.batch[i]))));
      inner = inner * size(c_.batch[i]);
    }
  }

  void pack() {
    std::string sk = size_text(stride(c_.rhs, c_.k)), sn = size_text(stride(c_.rhs, c_.n));
    out_.open(fmt::format("for (long j_ = j0_; j_ < j1_; j_ += {}) {{", columns_));
    out_.line(fmt::format("{}* to_ = panel_ + (j_ - j0_) * {};", type_, step_));
    out_.line(fmt::format("const long width_ = j_ + {0} <= j1_ ? {0} : j1_ - j_;", columns_));
    out_.line(fmt::format("const auto* from_ = {} + k0_ * {} + j_ * {};", base(c_.rhs), sk, sn));
    if (sn == "1") {
      out_.open("for (long k_ = 0; k_ < depth_; ++k_) {");
      out_.line(fmt::format("for (long x_ = 0; x_ < {}; x_ += NB_L)", columns_));
      out_.line(fmt::format(
          "  nb_store(to_ + k_ * {0} + x_, x_ + NB_L <= width_ ? nb_load<{1}>(from_ + k_ * {2} + x_, nb_full{{}}) : "
          "nb_load<{1}>(from_ + k_ * {2} + x_, width_ > x_ ? width_ - x_ : 0), nb_full{{}});",
          columns_, vec_, sk));
      out_.close();
    } else {
      // B is transposed: read along k, eight columns at a time stay in cache.
      out_.open(fmt::format("for (long x_ = 0; x_ < {}; ++x_) {{", columns_));
      out_.line(
          fmt::format("if (x_ < width_) for (long k_ = 0; k_ < depth_; ++k_) to_[k_ * {} + x_] = nb_widen(from_[x_ * "
                      "{} + k_ * {}]);",
                      columns_, sn, sk));
      out_.line(fmt::format("else for (long k_ = 0; k_ < depth_; ++k_) to_[k_ * {} + x_] = 0;", columns_));
      out_.close();
    }
    out_.close();
  }

  // `rows` x `columns_` accumulators in registers over one stretch of k.
  void micro(int rows) {
    ir::Dim row_step = stride(c_.lhs, c_.m);
    std::string sm = size_text(row_step), sk = size_text(stride(c_.lhs, c_.k));
    int64_t pitch = group_ * columns_;
    out_.line(fmt::format("const auto* a_ = {} + i0_ * {} + k0_ * {};", base(c_.lhs), sm, sk));
    if (direct_)
      out_.line(fmt::format("const auto* b_ = {} + k0_ * {} + j_;", base(c_.rhs), size_text(stride(c_.rhs, c_.k))));
    else
      out_.line(fmt::format("const {}* b_ = panel_ + (j_ - j0_) * {};", type_, step_));
    out_.line(fmt::format("{}* t_ = tile_ + (i0_ - m0_) * {} + (j_ - j0_);", compute_type(tile_dtype_), pitch));
    for (int r = 0; r < rows; ++r) {
      std::string line = vec_ + " ";
      for (int v = 0; v < vectors_; ++v) line += fmt::format("{}c{}_{}_ = {{}}", v ? ", " : "", r, v);
      out_.line(line + ";");
    }
    out_.open("for (long k_ = 0; k_ < depth_; ++k_) {");
    for (int v = 0; v < vectors_; ++v)
      out_.line(fmt::format("const {0} b_{1} = nb_load<{0}>(b_ + {2}, nb_full{{}});", vec_, v, v * lanes_));
    for (int r = 0; r < rows; ++r) {
      std::string line = fmt::format("const {} a{}_ = nb_widen(a_[{}]);", type_, r, size_text(ir::Dim(r) * row_step));
      for (int v = 0; v < vectors_; ++v) line += fmt::format(" c{0}_{1}_ += a{0}_ * b_{1};", r, v);
      out_.line(line);
    }
    out_.line(fmt::format("a_ += {}, b_ += {};", sk, size_text(direct_ ? stride(c_.rhs, c_.k) : columns_)));
    out_.close();
    for (int r = 0; r < rows; ++r)
      for (int v = 0; v < vectors_; ++v) {
        std::string at = fmt::format("t_ + {}", r * pitch + v * lanes_);
        std::string sum = fmt::format("c{}_{}_", r, v);
        if (tile_dtype_ != c_.dtype) sum = fmt::format("nb_convert<{}>({})", compute_type(tile_dtype_), sum);
        if (most(depth_) > step_)
          sum = fmt::format("k0_ ? {0} + nb_load<{1}>({2}, nb_full{{}}) : {0}", sum, vector_type(tile_dtype_), at);
        out_.line(fmt::format("nb_store({}, {}, nb_full{{}});", at, sum));
      }
  }

  // The stores, over the finished tile: acc[m, n] becomes tile[r, x] with m = i0 + r and n = j0 + x.
  void epilogue() {
    Kernel k = k_;
    auto new_axis = [&](const std::string& name) {
      k.axes.push_back({name, ir::Dim(1)});
      return static_cast<int>(k.axes.size()) - 1;
    };
    int m0 = new_axis("m0_"), r = new_axis("r_"), j0 = new_axis("j0_"), x = new_axis("x_");
    int tile = static_cast<int>(k.buffers.size());
    k.buffers.push_back({"tile_", tile_dtype_, {scratch_rows_, group_ * columns_}, BufferRole::kIn});
    std::map<int, Expr> places{{c_.m, axis(m0) + axis(r)}, {c_.n, axis(j0) + axis(x)}};
    auto moved = [&](const Expr& e) {
      Expr loaded = rewrite(e, [&](const Expr& y) {
        if (y->kind != ExprKind::kValue || y->args.empty()) return Expr();
        // Other values of the epilogue are in registers, at this position.
        if (y->ref != c_.value) return value(y->dtype, y->ref, {});
        Expr sum = load(tile_dtype_, tile, {axis(r), axis(x)});
        return tile_dtype_ == c_.dtype ? sum : convert(c_.dtype, sum);
      });
      return substitute_axes(loaded, places);
    };
    out_.open("for (long r_ = 0; r_ < m1_ - m0_; ++r_) {");
    out_.open("nb_for(0, j1_ - j0_, [&](long x_, auto n) NB_INLINE {");
    for (const Stmt& s : k_.body) {
      if (const Let* let = std::get_if<Let>(&s.node); let && !let->contract && !k_.values[let->value].axes.empty()) {
        ExprPrinter p(k, places_, out_, next_temp_);
        p.lane_axis = x;
        const ValueInfo& v = k_.values[let->value];
        std::string text = p.print_vector(moved(let->expr));
        out_.line(fmt::format("const {} {} = {};", vector_type(v.dtype), cpp_name(v.name), text));
        places_[let->value] = {true, false};
      }
      const Store* store = std::get_if<Store>(&s.node);
      if (!store) continue;
      Store here = *store;
      for (Expr& i : here.indices) i = moved(i);
      here.expr = moved(here.expr);
      if (here.guard) here.guard = moved(here.guard);
      print_store(k, here, x, places_, false, out_, next_temp_);
    }
    out_.close("});");
    out_.close();
  }

  const Kernel& k_;
  const ir::Target& target_;
  CppWriter& out_;
  int& next_temp_;
  Contraction c_;
  ContractPlan plan_;
  ir::Dim m_, n_, depth_;
  int64_t step_, group_, scratch_rows_;
  int lanes_, rows_, vectors_, columns_;
  bool direct_;
  std::string type_, vec_;
  DType tile_dtype_;  ///< of the sums, between panels and in the epilogue
  std::map<int, ValuePlace> places_;
};

}  // namespace

void print_contract(const Kernel& kernel, const ir::Target& target, CppWriter& out, int& next_temp) {
  ContractPrinter(kernel, target, out, next_temp).run();
}

}  // namespace nabla::codegen
