#include "codegen/cuda/scatter_printer.h"

#include <algorithm>

namespace nabla::codegen {

using namespace kernel_ir;  // NOLINT: this file prints kernel_ir

namespace {

constexpr int kWarps = kScatterThreads / 32;
constexpr int kPerWarp = 256;          // updates that a warp looks at in one step
constexpr int kAhead = 8;              // updates whose values are on their way together

class ScatterPrinter {
 public:
  ScatterPrinter(const Kernel& k, const Scatter& s, const ScatterMapping& cut, CppWriter& out, int& next_temp)
      : k_(k), s_(s), out_(out), next_temp_(next_temp), row_tiles_(cut.row_tiles), across_(cut.tile_columns) {
    for (const Stmt& stmt : k.body)
      if (const Let* let = std::get_if<Let>(&stmt.node)) places_[let->value] = {};
    columns_ = points(s.columns), updates_ = points(s.updates);
    column_tiles_ = ir::Dim::ceildiv(columns_, across_);
    tile_ = ir::Dim::ceildiv(s.rows, row_tiles_);
  }

  void run() {
    ir::Dim tiles = column_tiles_ * row_tiles_;
    out_.line(fmt::format("__shared__ unsigned short found_[{}][{}];", kWarps, kPerWarp));
    out_.line(fmt::format("__shared__ int count_[{}];", kWarps));
    out_.line("const int lane_ = threadIdx.x % 32, warp_ = threadIdx.x / 32;");
    out_.open(fmt::format("for (long tile_ = blockIdx.x; tile_ < {}; tile_ += gridDim.x) {{", size_text(tiles)));
    out_.line(fmt::format("const long first_ = tile_ / {} * {};", size_text(column_tiles_), size_text(tile_)));
    out_.line(fmt::format("const long last_ = first_ + {0} < {1} ? first_ + {0} : {1};", size_text(tile_),
                          size_text(s_.rows)));
    out_.line(fmt::format("const {} column_ = tile_ % {} * {} + threadIdx.x % {};", type(s_.columns),
                          size_text(column_tiles_), across_, across_));
    out_.open(fmt::format("for ({0} base_ = 0; base_ < {1}; base_ += {2}) {{", type(s_.updates), size_text(updates_),
                          kWarps * kPerWarp));
    find();
    out_.line("__syncthreads();");
    combine();
    out_.line("__syncthreads();");
    out_.close();
    out_.close();
  }

 private:
  ir::Dim points(const std::vector<int>& axes) const {
    ir::Dim n = 1;
    for (int a : axes) n = n * k_.axes[a].extent;
    return n;
  }
  // 32 bits where they suffice: GPUs divide those several times faster.
  const char* type(const std::vector<int>& axes) const { return points(axes).bounds().max < 1 << 30 ? "int" : "long"; }
  ExprPrinter printer() { return ExprPrinter(k_, places_, out_, next_temp_); }
  // The axes where they stand at `counter`.
  void positions(const std::vector<int>& axes, const std::string& counter) {
    ir::Dim inner = 1;
    for (size_t i = axes.size(); i-- > 0;) {
      const ir::Dim& extent = k_.axes[axes[i]].extent;
      std::string at = inner.is(1) ? counter : fmt::format("{} / {}({})", counter, type(axes), size_text(inner));
      if (i) at += fmt::format(" % {}({})", type(axes), size_text(extent));
      out_.line(fmt::format("const long {} = {};", cpp_name(k_.axes[axes[i]].name), at));
      inner = inner * extent;
    }
  }
  bool of_updates(const Expr& e) const {
    return std::none_of(s_.columns.begin(), s_.columns.end(), [&](int a) { return uses_axis(e, a); });
  }

  // Each warp lists those of its updates, in order, that name a row of the block's.
  void find() {
    out_.line("int own_ = 0;");
    out_.line("#pragma unroll");
    out_.open(fmt::format("for (int i_ = 0; i_ < {}; ++i_) {{", kPerWarp / 32));
    out_.line(fmt::format("const int in_ = i_ * 32 + lane_;"));
    out_.line(fmt::format("const {} at_ = base_ + warp_ * {} + in_;", type(s_.updates), kPerWarp));
    out_.line("bool mine_ = false;");
    out_.open(fmt::format("if (at_ < {}) {{", size_text(updates_)));
    positions(s_.updates, "at_");
    bool guarded = s_.store.guard && of_updates(s_.store.guard);
    if (guarded) {
      std::string guard = printer().print(s_.store.guard);
      out_.open(fmt::format("if ({}) {{", guard));
    }
    std::string row = printer().print(s_.row);
    out_.line(fmt::format("const long row_ = {};", row));
    out_.line("mine_ = row_ >= first_ && row_ < last_;");
    if (guarded) out_.close();
    out_.close();
    out_.line("const unsigned votes_ = __ballot_sync(0xffffffffu, mine_);");
    out_.line("if (mine_) found_[warp_][own_ + __popc(votes_ & ((1u << lane_) - 1))] = in_;");
    out_.line("own_ += __popc(votes_);");
    out_.close();
    out_.line("if (lane_ == 0) count_[warp_] = own_;");
  }

  // A thread combines its column of every `kScatterThreads / across_`th row.
  void combine() {
    const Store& s = s_.store;
    const Buffer& b = k_.buffers[s.buffer];
    std::string storage = storage_type(b.dtype), place = cpp_name(b.name) + "[to_[l_]]", value = "v_[l_]";
    out_.open(fmt::format("if (column_ < {}) {{", size_text(columns_)));
    positions(s_.columns, "column_");
    out_.open(fmt::format("for (int w_ = 0; w_ < {}; ++w_) {{", kWarps));
    out_.line("const int all_ = count_[w_];");
    out_.open(fmt::format("for (int e_ = 0; e_ < all_; e_ += {}) {{", kAhead));
    out_.line(fmt::format("{} v_[{}];", compute_type(s.expr->dtype), kAhead));
    bool narrow = ir::Type(b.dtype, b.shape).count().bounds().max < 1 << 30;
    out_.line(fmt::format("{} to_[{}];", narrow ? "int" : "long", kAhead));
    out_.line("#pragma unroll");
    out_.open(fmt::format("for (int l_ = 0; l_ < {}; ++l_) {{", kAhead));
    out_.line("v_[l_] = {}, to_[l_] = -1;");
    out_.open("if (e_ + l_ < all_) {");
    out_.line(fmt::format("const {} at_ = base_ + w_ * {} + found_[w_][e_ + l_];", type(s_.updates), kPerWarp));
    positions(s_.updates, "at_");
    int groups = kScatterThreads / across_;
    std::string mine = groups > 1 ? printer().print(s_.row) : "";
    if (groups > 1) mine = fmt::format("({} - first_) % {} == threadIdx.x / {}", mine, groups, across_);
    if (s.guard && !of_updates(s.guard))  // else it was asked for the list
      mine = fmt::format("({}){}{}", printer().print(s.guard), mine.empty() ? "" : " && ", mine);
    out_.open(mine.empty() ? "{" : fmt::format("if ({}) {{", mine));
    std::string text = printer().print(s.expr);
    out_.line(fmt::format("v_[l_] = {};", text));
    text = printer().offset(s.indices, b.shape);
    out_.line(fmt::format("to_[l_] = {};", text));
    out_.close();
    out_.close();
    out_.close();
    out_.line("#pragma unroll");
    out_.open(fmt::format("for (int l_ = 0; l_ < {}; ++l_) {{", kAhead));
    if (s.combiner != Combiner::kNone)
      value = fmt::format("nb_{}<{}>(nb_widen({}), {})", scalar_of(s.combiner), compute_type(b.dtype), place, value);
    out_.line(fmt::format("if (to_[l_] >= 0) {} = nb_narrow({}{{}}, {});", place, storage, value));
    out_.close();
    out_.close();
    out_.close();
    out_.close();
  }

  const Kernel& k_;
  const Scatter& s_;
  CppWriter& out_;
  int& next_temp_;
  std::map<int, ValuePlace> places_;
  ir::Dim columns_, updates_, column_tiles_, tile_;
  int64_t row_tiles_;
  int across_;  // threads along columns
};

}  // namespace

void print_scatter(const Kernel& kernel, const Scatter& scatter, const ScatterMapping& cut, CppWriter& out,
                   int& next_temp) {
  ScatterPrinter(kernel, scatter, cut, out, next_temp).run();
}

}  // namespace nabla::codegen
