#include "codegen/cuda/turn_printer.h"

#include <algorithm>

#include "codegen/print/store_printer.h"

namespace nabla::codegen {

using namespace kernel_ir;  // NOLINT: this file prints kernel_ir

namespace {

constexpr int kSide = kTurnedTile, kRows = kTurnedThreads / kSide;  // of a tile, and of the threads that walk it

class TurnPrinter {
 public:
  TurnPrinter(const Kernel& k, const Turned& turned, const std::vector<int>& axes, CppWriter& out, int& next_temp)
      : k_(k), turned_(turned), lane_(axes.back()), out_(out), next_temp_(next_temp) {
    for (int a : axes)
      if (a != lane_ && a != turned.across) outer_.push_back(a);
    for (const Stmt& s : k.body)
      if (const Let* let = std::get_if<Let>(&s.node)) places_[let->value] = {};
  }

  void run(const Body& body) {
    for (size_t i = 0; i < turned_.loads.size(); ++i) {
      const Buffer& b = k_.buffers[turned_.loads[i]->ref];
      out_.line(fmt::format("__shared__ {} {}[{}][{}];", storage_type(b.dtype), tile(i), kSide, turned_pitch(bytes_of(b.dtype))));
    }
    out_.line(fmt::format("const int row_ = threadIdx.x / {0}, column_ = threadIdx.x % {0};", kSide));
    open_tiles();
    open_rows(lane_, turned_.across);
    for (size_t i = 0; i < turned_.loads.size(); ++i) {
      const Expr& load = turned_.loads[i];
      const Buffer& b = k_.buffers[load->ref];
      std::string at = printer().offset(load->args, b.shape);
      out_.line(fmt::format("{}[s_][column_] = {}[{}];", tile(i), cpp_name(b.name), at));
    }
    close_rows();
    out_.line("__syncthreads();");
    open_rows(turned_.across, lane_);
    elements(body);
    close_rows();
    out_.line("__syncthreads();");
    out_.close();
  }

 private:
  std::string axis(int a) const { return cpp_name(k_.axes[a].name); }
  const ir::Dim& extent(int a) const { return k_.axes[a].extent; }
  std::string tile(size_t i) const { return fmt::format("tile{}_", i); }
  ExprPrinter printer() { return ExprPrinter(k_, places_, out_, next_temp_); }

  // Declares the outer axes, and where the tile begins.
  void open_tiles() {
    ir::Dim across = ir::Dim::ceildiv(extent(turned_.across), kSide), along = ir::Dim::ceildiv(extent(lane_), kSide);
    ir::Dim inner = across * along, all = inner;
    for (int a : outer_) all = all * extent(a);
    out_.open(fmt::format("for (long t_ = blockIdx.x; t_ < {}; t_ += gridDim.x) {{", size_text(all)));
    out_.line(fmt::format("const long {}_first_ = t_ % {} * {};", axis(lane_), size_text(along), kSide));
    out_.line(fmt::format("const long {}_first_ = t_ / {} % {} * {};", axis(turned_.across), size_text(along), size_text(across), kSide));
    for (size_t i = outer_.size(); i-- > 0;) {
      out_.line(fmt::format("const long {} = t_ / {}{};", axis(outer_[i]), size_text(inner),
                            i ? fmt::format(" % {}", size_text(extent(outer_[i]))) : ""));
      inner = inner * extent(outer_[i]);
    }
  }
  // Neighbouring threads are neighbours along `columns`, and warps go down `rows`.
  void open_rows(int rows, int columns) {
    out_.line("#pragma unroll");
    out_.open(fmt::format("for (int s_ = row_; s_ < {}; s_ += {}) {{", kSide, kRows));
    out_.line(fmt::format("const long {0} = {0}_first_ + s_, {1} = {1}_first_ + column_;", axis(rows), axis(columns)));
    out_.open(fmt::format("if ({} < {} && {} < {}) {{", axis(rows), size_text(extent(rows)), axis(columns), size_text(extent(columns))));
  }
  void close_rows() { out_.close(), out_.close(); }

  void elements(const Body& body) {
    std::vector<int> values;
    for (size_t i = 0; i < turned_.loads.size(); ++i) {
      std::string name = fmt::format("e{}_", next_temp_++);
      DType dtype = turned_.loads[i]->dtype;
      out_.line(fmt::format("const {} {} = nb_widen({}[column_][s_]);", compute_type(dtype), name, tile(i)));
      k_.values.push_back({name, dtype, {}});
      values.push_back(static_cast<int>(k_.values.size()) - 1);
      places_[values.back()] = {};
    }
    auto read = [&](const Expr& e) {
      return rewrite(e, [&](const Expr& x) {
        auto found = std::ranges::find(turned_.loads, x);
        return found == turned_.loads.end() ? Expr() : value(x->dtype, values[static_cast<size_t>(found - turned_.loads.begin())], {});
      });
    };
    for (const Stmt& s : body) {
      if (const Let* let = std::get_if<Let>(&s.node)) {
        const ValueInfo& v = k_.values[let->value];
        std::string text = printer().print(read(let->expr));
        out_.line(fmt::format("const {} {} = {};", compute_type(v.dtype), cpp_name(v.name), text));
        places_[let->value] = {};
      } else {
        Store one = std::get<Store>(s.node);
        one.expr = read(one.expr);
        print_store(k_, one, -1, places_, false, out_, next_temp_);
      }
    }
  }

  Kernel k_;  // It has a value more for each load that is turned.
  const Turned& turned_;
  int lane_;
  std::vector<int> outer_;
  CppWriter& out_;
  int& next_temp_;
  std::map<int, ValuePlace> places_;
};

}  // namespace

void print_turned(const Kernel& kernel, const Turned& turned, const std::vector<int>& axes, const Body& body, CppWriter& out,
                  int& next_temp) {
  TurnPrinter(kernel, turned, axes, out, next_temp).run(body);
}

}  // namespace nabla::codegen
