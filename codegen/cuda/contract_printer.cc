#include "codegen/cuda/contract_printer.h"

#include <algorithm>

#include "codegen/cuda/product.h"
#include "ir/kernel_ir/contract.h"

namespace nabla::codegen {

using namespace kernel_ir;  // NOLINT: this file prints kernel_ir

namespace {

constexpr int kTileK = 16, kSide = 16;  // threads stand in a square of kSide

const Let* product_of(const Kernel& k) {
  for (const Stmt& s : k.body)
    if (const Let* let = std::get_if<Let>(&s.node); let && let->contract) return let;
  return nullptr;
}

/// Any dtype, by multiply-adds. Every thread keeps `reg` x `reg` elements, kSide apart, so that neighbouring threads
/// store to neighbouring places.
class PlainProduct : public ProductPrinter {
 public:
  PlainProduct(const Product& p, CppWriter& out, int& next_temp) : ProductPrinter(p, out, next_temp) {
    int64_t m = size(c_.m).bounds().max, n = size(c_.n).bounds().max;
    reg_ = m > 32 && n > 32 ? 4 : m > 16 || n > 16 ? 2 : 1;
    // Windows often have few results, and much to sum for each: smaller tiles then keep more of the GPU at work.
    while (!p.parts.empty() && reg_ > 2 && tiles(kSide * reg_) < 2 * p.target.cuda.multiprocessors) reg_ /= 2;
    tile_ = kSide * reg_;
  }

 private:
  double tiles(int side) const {
    ir::Dim all = ir::Dim::ceildiv(size(c_.m), side) * ir::Dim::ceildiv(size(c_.n), side);
    for (int b : c_.batch) all = all * size(b);
    return static_cast<double>(all.bounds().max);
  }
  int threads() const override { return kSide * kSide; }
  int tile_rows() const override { return tile_; }
  int tile_columns() const override { return tile_; }

  void declare() override {
    out_.line(fmt::format("__shared__ {} a_tile_[{}][{}], b_tile_[{}][{}];", compute_type(c_.dtype), kTileK, tile_ + 1,
                          kTileK, tile_ + 1));
    out_.line(fmt::format("const int row_ = threadIdx.x / {0}, column_ = threadIdx.x % {0};", kSide));
  }
  // Neighbouring threads read neighbouring places: those along k where that is the operand's fastest axis.
  void load_tile(const std::string& tile, const Expr& factor, const Expr& load, int other, const std::string& first) {
    bool k_fast = walks(load, last_of(c_.k)) && !walks(load, last_of(other));
    out_.open(fmt::format("for (int p_ = threadIdx.x; p_ < {}; p_ += {}) {{", kTileK * tile_, threads()));
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

bool has_product(const Kernel& k) {
  const Let* product = product_of(k);
  if (!product || !find_contraction(k)) return false;
  const std::vector<int>& tile = k.values[product->value].axes;
  auto own_element = [&](const Expr& e) {
    bool own = true;
    visit(e, [&](const Expr& x) {
      own &= x->kind != ExprKind::kValue || x->args.empty() || x->args == axes_as_indices(tile);
    });
    return own;
  };
  return std::all_of(k.body.begin(), k.body.end(), [&](const Stmt& s) {
    if (const Let* let = std::get_if<Let>(&s.node)) {
      const std::vector<int>& axes = k.values[let->value].axes;
      if (let == product) return true;
      return own_element(let->expr) && let->combiner == Combiner::kNone && (axes.empty() || axes == tile);
    }
    const Store* store = std::get_if<Store>(&s.node);
    return store && store->axes == tile && !may_meet(*store) && !store->guard && own_element(store->expr);
  });
}

void print_product(const Kernel& k, const ir::Target& target, CppWriter& out, int& next_temp, CudaGrid& grid) {
  const Let& let = *product_of(k);
  Contraction c = *find_contraction(k);
  Expr first = let.expr->args[0];
  while (first->kind == ExprKind::kCall && first->fn->name == "convert") first = first->args[0];
  bool turned = first.id() != c.lhs.id();
  Product p{k, let, c, let.expr->args[turned ? 1 : 0], let.expr->args[turned ? 0 : 1], target};
  print_in_tiles(p, out, next_temp, grid);
}

void print_in_tiles(const Product& p, CppWriter& out, int& next_temp, CudaGrid& grid) {
  if (fits_tensor_cores(p)) return print_on_tensor_cores(p, out, next_temp, grid);
  PlainProduct(p, out, next_temp).run(grid);
}

}  // namespace nabla::codegen
