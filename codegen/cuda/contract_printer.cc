#include "codegen/cuda/contract_printer.h"

#include <algorithm>

#include "codegen/cpu/contract_printer.h"
#include "ir/kernel_ir/contract.h"

namespace nabla::codegen {

using namespace kernel_ir;  // NOLINT: this file prints kernel_ir

namespace {

constexpr int kThreads = 256, kTileK = 16, kSide = 16;  // threads stand in a square of kSide

const Let* product_of(const Kernel& k) {
  for (const Stmt& s : k.body)
    if (const Let* let = std::get_if<Let>(&s.node); let && let->contract) return let;
  return nullptr;
}

/// A product C[m, n] = sum(k) A B of one kernel. Every thread keeps `reg` x `reg` elements, kSide apart, so that
/// neighbouring threads store to neighbouring places.
class ProductPrinter {
 public:
  ProductPrinter(const Kernel& k, const Contraction& c, const Let& let, CppWriter& out, int& next_temp)
      : k_(k), c_(c), let_(let), out_(out), next_temp_(next_temp) {
    reg_ = most(c.m) > 32 && most(c.n) > 32 ? 4 : most(c.m) > 16 || most(c.n) > 16 ? 2 : 1;
    tile_ = kSide * reg_;
  }

  void run(CudaGrid& grid) {
    ir::Dim batch = 1;
    for (int b : c_.batch) batch = batch * size(b);
    ir::Dim rows = ir::Dim::ceildiv(size(c_.m), tile_), columns = ir::Dim::ceildiv(size(c_.n), tile_);
    grid.threads = kThreads;
    grid.blocks = ir::Dim::max(ir::Dim::min(batch * rows * columns, 1 << 20), 1);
    std::string type = compute_type(c_.dtype);
    out_.line(
        fmt::format("__shared__ {} a_tile_[{}][{}], b_tile_[{}][{}];", type, kTileK, tile_ + 1, kTileK, tile_ + 1));
    for (const Stmt& s : k_.body)
      if (const Let* let = std::get_if<Let>(&s.node); let && k_.values[let->value].axes.empty()) head(*let);
    out_.line(fmt::format("const int row_ = threadIdx.x / {0}, column_ = threadIdx.x % {0};", kSide));
    out_.open(fmt::format("for (long tile_ = blockIdx.x; tile_ < {}; tile_ += gridDim.x) {{",
                          size_text(batch * rows * columns)));
    out_.line(fmt::format("const long m0_ = tile_ / {1} % {0} * {2}, n0_ = tile_ % {1} * {2};", size_text(rows),
                          size_text(columns), tile_));
    ir::Dim inner = rows * columns;
    for (size_t i = c_.batch.size(); i-- > 0;) {
      out_.line(fmt::format("const long {} = tile_ / {}{};", axis_name(c_.batch[i]), size_text(inner),
                            i ? fmt::format(" % {}", size_text(size(c_.batch[i]))) : ""));
      inner = inner * size(c_.batch[i]);
    }
    out_.line(fmt::format("{} acc_[{}][{}] = {{}};", type, reg_, reg_));
    multiply();
    epilogue();
    out_.close();
  }

 private:
  const ir::Dim& size(int axis) const { return k_.axes[axis].extent; }
  std::string extent(int axis) const { return size_text(size(axis)); }
  int64_t most(int axis) const { return size(axis).bounds().max; }
  std::string axis_name(int axis) const { return cpp_name(k_.axes[axis].name); }

  void head(const Let& let) {
    const ValueInfo& v = k_.values[let.value];
    ExprPrinter p(k_, places_, out_, next_temp_);
    std::string text = p.print(let.expr);
    out_.line(fmt::format("const {} {} = {};", compute_type(v.dtype), cpp_name(v.name), text));
    places_[let.value] = {};
  }

  // Neighbouring threads read neighbouring places: those along k where that is the operand's fastest axis.
  bool k_is_fast(const Expr& load, int other) {
    ExprPrinter p(k_, places_, out_, next_temp_);
    p.lane_axis = c_.k;
    std::optional<int64_t> along_k = p.lane_stride(load->args, k_.buffers[load->ref].shape);
    ExprPrinter q(k_, places_, out_, next_temp_);
    q.lane_axis = other;
    std::optional<int64_t> along = q.lane_stride(load->args, k_.buffers[load->ref].shape);
    return along_k == 1 && along != 1;
  }
  void load_tile(const std::string& tile, const Expr& factor, const Expr& load, int other, const std::string& first) {
    bool k_fast = k_is_fast(load, other);
    out_.open(fmt::format("for (int p_ = threadIdx.x; p_ < {}; p_ += {}) {{", kTileK * tile_, kThreads));
    std::string fast = k_fast ? fmt::format("p_ % {}", kTileK) : fmt::format("p_ / {}", tile_);
    std::string slow = k_fast ? fmt::format("p_ / {}", kTileK) : fmt::format("p_ % {}", tile_);
    out_.line(fmt::format("const int x_ = {}, y_ = {};", slow, fast));
    out_.line(fmt::format("const long {} = {} + x_, {} = k0_ + y_;", axis_name(other), first, axis_name(c_.k)));
    out_.line(fmt::format("{} v_ = 0;", compute_type(c_.dtype)));
    out_.open(
        fmt::format("if ({} < {} && {} < {}) {{", axis_name(other), extent(other), axis_name(c_.k), extent(c_.k)));
    ExprPrinter p(k_, places_, out_, next_temp_);
    std::string text = p.print(factor);
    out_.line(fmt::format("v_ = {};", text));
    out_.close();
    out_.line(fmt::format("{}[y_][x_] = v_;", tile));
    out_.close();
  }
  void multiply() {
    const Expr &a = let_.expr->args[0], &b = let_.expr->args[1];
    auto under = [](Expr e) {
      while (e->kind == ExprKind::kCall && e->fn->name == "convert") e = e->args[0];
      return e;
    };
    bool turned = under(a).id() != c_.lhs.id();
    out_.open(fmt::format("for (long k0_ = 0; k0_ < {}; k0_ += {}) {{", extent(c_.k), kTileK));
    load_tile("a_tile_", turned ? b : a, c_.lhs, c_.m, "m0_");
    load_tile("b_tile_", turned ? a : b, c_.rhs, c_.n, "n0_");
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
  void epilogue() {
    out_.open(fmt::format("for (int i_ = 0; i_ < {}; ++i_) {{", reg_));
    out_.open(fmt::format("for (int j_ = 0; j_ < {}; ++j_) {{", reg_));
    out_.line(fmt::format("const long {0} = m0_ + row_ + i_ * {2}, {1} = n0_ + column_ + j_ * {2};", axis_name(c_.m),
                          axis_name(c_.n), kSide));
    out_.line(fmt::format("if ({} >= {} || {} >= {}) continue;", axis_name(c_.m), extent(c_.m), axis_name(c_.n),
                          extent(c_.n)));
    const ValueInfo& product = k_.values[c_.value];
    out_.line(fmt::format("const {} {} = acc_[i_][j_];", compute_type(product.dtype), cpp_name(product.name)));
    places_[c_.value] = {};
    for (const Stmt& s : k_.body) {
      if (const Let* let = std::get_if<Let>(&s.node); let && !let->contract && !k_.values[let->value].axes.empty())
        head(*let);
      if (const Store* store = std::get_if<Store>(&s.node)) {
        Store one = *store;
        one.axes.clear();
        print_store(k_, one, -1, places_, false, out_, next_temp_);
      }
    }
    out_.close();
    out_.close();
  }

  const Kernel& k_;
  const Contraction& c_;
  const Let& let_;
  CppWriter& out_;
  int& next_temp_;
  int reg_, tile_;
  std::map<int, ValuePlace> places_;
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

void print_product(const Kernel& k, CppWriter& out, int& next_temp, CudaGrid& grid) {
  Contraction c = *find_contraction(k);
  ProductPrinter(k, c, *product_of(k), out, next_temp).run(grid);
}

}  // namespace nabla::codegen
