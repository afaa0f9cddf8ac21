#include "codegen/cuda/contract_printer.h"

#include "codegen/cuda/product.h"

namespace nabla::codegen {

using namespace kernel_ir;  // NOLINT: this file prints kernel_ir

namespace {

constexpr int kTileK = 16, kSide = 16;  // threads stand in a square of kSide

/// Any dtype, by multiply-adds. Every thread keeps `reg` x `reg` elements, kSide apart, so that neighbouring threads
/// store to neighbouring places.
class PlainProduct : public ProductPrinter {
 public:
  PlainProduct(const Product& p, const ProductMapping& cut, int threads, CppWriter& out, int& next_temp)
      : ProductPrinter(p, cut, threads, out, next_temp), reg_(cut.tile_rows / kSide), tile_(cut.tile_rows) {}

 private:
  void declare() override {
    out_.line(fmt::format("__shared__ {} a_tile_[{}][{}], b_tile_[{}][{}];", compute_type(c_.dtype), kTileK, tile_ + 1,
                          kTileK, tile_ + 1));
    out_.line(fmt::format("const int row_ = threadIdx.x / {0}, column_ = threadIdx.x % {0};", kSide));
  }
  // Neighbouring threads read neighbouring places: those along k where that is the operand's fastest axis.
  void load_tile(const std::string& tile, const Expr& factor, const Expr& load, int other, const std::string& first) {
    bool k_fast = p_.walks(load, p_.last_of(c_.k)) && !p_.walks(load, p_.last_of(other));
    out_.open(fmt::format("for (int p_ = threadIdx.x; p_ < {}; p_ += {}) {{", kTileK * tile_, threads_));
    std::string fast = k_fast ? fmt::format("p_ % {}", kTileK) : fmt::format("p_ / {}", tile_);
    std::string slow = k_fast ? fmt::format("p_ / {}", kTileK) : fmt::format("p_ % {}", tile_);
    out_.line(fmt::format("const int x_ = {}, y_ = {};", slow, fast));
    out_.line(fmt::format("const long {} = {} + x_, {} = k0_ + y_;", axis_name(other), first, axis_name(c_.k)));
    out_.line(fmt::format("{} v_ = 0;", compute_type(c_.dtype)));
    out_.open(
        fmt::format("if ({} < {} && {} < {}) {{", axis_name(other), extent(other), axis_name(c_.k), extent(c_.k)));
    positions(other), positions(c_.k);
    std::string text = printer().print(factor);
    out_.line(fmt::format("v_ = {};", text));
    out_.close();
    out_.line(fmt::format("{}[y_][x_] = v_;", tile));
    out_.close();
  }
  void multiply() override {
    out_.line(fmt::format("{0} acc_[{1}][{1}] = {{}};", compute_type(c_.dtype), reg_));
    out_.open(fmt::format("for (long k0_ = 0; k0_ < {}; k0_ += {}) {{", extent(c_.k), kTileK));
    load_tile("a_tile_", p_.lhs, c_.lhs, c_.m, "m0_");
    load_tile("b_tile_", p_.rhs, c_.rhs, c_.n, "n0_");
    out_.line("__syncthreads();");
    out_.open(fmt::format("for (int k_ = 0; k_ < {}; ++k_) {{", kTileK));
    out_.line(fmt::format("{} a_[{}], b_[{}];", compute_type(c_.dtype), reg_, reg_));
    out_.open(fmt::format("for (int i_ = 0; i_ < {}; ++i_) {{", reg_));
    out_.line(fmt::format("a_[i_] = a_tile_[k_][row_ + i_ * {0}], b_[i_] = b_tile_[k_][column_ + i_ * {0}];", kSide));
    out_.close();
    out_.line(fmt::format("for (int i_ = 0; i_ < {0}; ++i_)", reg_));
    out_.line(fmt::format("  for (int j_ = 0; j_ < {0}; ++j_) acc_[i_][j_] += a_[i_] * b_[j_];", reg_));
    out_.close();
    out_.line("__syncthreads();");
    out_.close();
  }
  void finish() override {
    out_.open(fmt::format("for (int i_ = 0; i_ < {}; ++i_) {{", reg_));
    out_.open(fmt::format("for (int j_ = 0; j_ < {}; ++j_) {{", reg_));
    element(fmt::format("m0_ + row_ + i_ * {}", kSide), fmt::format("n0_ + column_ + j_ * {}", kSide), "acc_[i_][j_]");
    out_.close();
    out_.close();
  }

  int reg_, tile_;
};

}  // namespace

void print_product(const Product& p, const ProductMapping& cut, int threads, CppWriter& out, int& next_temp) {
  if (cut.by == ProductMapping::By::kWarpgroups) return print_by_warpgroups(p, cut, threads, out, next_temp);
  if (cut.by == ProductMapping::By::kWarps) return print_on_tensor_cores(p, cut, threads, out, next_temp);
  PlainProduct(p, cut, threads, out, next_temp).run();
}

}  // namespace nabla::codegen
