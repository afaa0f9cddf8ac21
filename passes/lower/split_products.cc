// Products with few results and a long sum, cut along the sum: slices of it fill the GPU, and a second grid adds them up.
#include <algorithm>
#include <cmath>

#include "ir/cost/time.h"
#include "passes/lower/named_axis.h"
#include "passes/lower/schedule_cuda.h"
#include "passes/lower/schedule_kernels.h"

namespace nabla::passes {

using namespace kernel_ir;  // NOLINT: this file rewrites kernel_ir

namespace {

constexpr int64_t kLeastUnit = 64;     // of a slice's length
constexpr int64_t kLeastSteps = 8;     // tiles along a slice, below which its first one is most of its time
constexpr int64_t kMostProductSlices = 64;
constexpr int64_t kMostProductBytes = 64 << 20;  // of all slices' sums
constexpr int64_t kMostTerms = 16;        // sums that are loaded at once, as packs
constexpr double kLeastGain = 1.1;

class ProductSplitter {
 public:
  ProductSplitter(Kernel& k, const Product& p, const ProductMapping& cut, const ir::Target& target)
      : k_(k), c_(p.c), factors_(common_dtype(p).value_or(p.c.dtype)), cut_(cut), target_(target) {}

  /// How long a slice is; 0: the product stays whole.
  int64_t length() const {
    if (c_.dtype != DType::kF32 && c_.dtype != DType::kF64) return 0;
    if (blocks(2) / 2 >= target_.cuda.multiprocessors) return 0;
    const int64_t sums = batch() * most(c_.m) * most(c_.n) * bytes_of(c_.dtype), k = most(c_.k);
    int64_t best = 0;
    double least = us(1) / kLeastGain;
    for (int64_t slices = 2; slices <= kMostProductSlices && slices * sums <= kMostProductBytes; ++slices) {
      const int64_t length = up(k, slices * unit()) * unit();
      if (length < kLeastSteps * tile_k() || (slices - 1) * length >= k) continue;
      if (double t = us(slices); t < least) best = length, least = t;
    }
    return best;
  }

  // The product's batch gets an axis more, which is its slowest; what follows it goes to a loop of its own.
  void split(int64_t length) {
    const ir::Dim whole = k_.axes[c_.k].extent;
    const int slice = add_named_axis(k_, "slice", ir::Dim::ceildiv(whole, length)), part = add_named_axis(k_, "part", length);
    const int one = add_named_axis(k_, "u", 1), parts = static_cast<int>(k_.buffers.size());
    const std::vector<int> tile = k_.values[c_.value].axes;
    std::vector<int> sliced = {slice};
    sliced.insert(sliced.end(), tile.begin(), tile.end());
    ir::Shape shape;
    for (int a : sliced) shape.push_back(k_.axes[a].extent);
    k_.buffers.push_back({fmt::format("parts{}", parts), c_.dtype, shape, BufferRole::kWorkspace});

    Expr at = axis(slice) * index(length) + axis(part), inside;
    if (!whole.is_static() || whole.value() % length != 0) inside = lt(at, dim(whole));
    const int sum = static_cast<int>(k_.values.size());
    k_.values.push_back({k_.values[c_.value].name + "_part", c_.dtype, sliced});
    For product{{one}, {}}, rest{tile, {}};
    for (Stmt& s : k_.body) {
      Let* let = std::get_if<Let>(&s.node);
      if (let && let->contract) {
        product.body.push_back({Let{sum, let->combiner, {part}, moved(let->expr, at, inside), true}});
        rest.body.push_back({combined(parts, slice, tile)});
      } else {
        rest.body.push_back(std::move(s));
      }
    }
    product.body.push_back({Store{parts, axes_as_indices(sliced), sliced, Combiner::kNone,
                                  value(c_.dtype, sum, axes_as_indices(sliced)), {}}});
    for (Stmt& s : rest.body) {
      if (Let* let = std::get_if<Let>(&s.node)) let->expr = of_own_element(let->expr), k_.values[let->value].axes.clear();
      if (Store* store = std::get_if<Store>(&s.node)) store->expr = of_own_element(store->expr), store->axes.clear();
    }
    k_.body.clear();
    k_.body.push_back({std::move(product)}), k_.body.push_back({std::move(rest)});
  }

 private:
  int64_t most(int axis) const { return std::max<int64_t>(k_.axes[axis].extent.bounds().max, 1); }
  int64_t batch() const {
    int64_t n = 1;
    for (int b : c_.batch) n *= most(b);
    return n;
  }
  int64_t tile_k() const {
    if (cut_.by == ProductMapping::By::kThreads) return kThreadTileK;
    return (cut_.by == ProductMapping::By::kWarps ? kTensorTileBytes : kWarpgroupTileBytes) / bytes_of(factors_);
  }
  // Slices are of whole tiles.
  int64_t unit() const { return std::max(kLeastUnit, tile_k()); }
  bool by_threads() const { return cut_.by == ProductMapping::By::kThreads; }
  // With slices there are enough for the largest tiles.
  int side(int64_t slices, int whole) const {
    const bool large = by_threads() && slices > 1 && most(c_.m) > 64 && most(c_.n) > 64 && bytes_of(c_.dtype) <= 4;
    return large ? 8 * kThreadSide : whole;
  }
  static int64_t up(int64_t n, int64_t side) { return (n + side - 1) / side; }
  int64_t blocks(int64_t slices) const {
    const int rows = side(slices, cut_.tile_rows), columns = side(slices, cut_.tile_columns);
    return batch() * slices * up(most(c_.m), rows) * up(most(c_.n), columns);
  }
  // Of the fullest multiprocessor, and of writing and reading the slices' sums.
  double us(int64_t slices) const {
    const double results = static_cast<double>(side(slices, cut_.tile_rows)) * side(slices, cut_.tile_columns);
    const double deep = static_cast<double>(up(most(c_.k), slices * unit()) * unit()), chip = target_.cuda.multiprocessors;
    double rate = ir::product_rate(by_threads() ? c_.dtype : factors_, target_).flops_per_us;
    if (!by_threads()) rate *= ir::kShareOfTensorCores;
    double out = std::ceil(static_cast<double>(blocks(slices)) / chip) * 2 * results * deep * chip / rate;
    const double sums = static_cast<double>(batch() * slices * most(c_.m) * most(c_.n)) * bytes_of(c_.dtype);
    return slices > 1 ? out + 2 * sums / ir::bytes_per_us(target_) + ir::kLaunchUs : out;
  }

  // A factor's position along k; what lies beyond its end is 0.
  Expr moved(const Expr& e, const Expr& at, const Expr& inside) const {
    return rewrite(e, [&](const Expr& x) {
      if (x->kind != ExprKind::kLoad) return Expr();
      std::vector<Expr> place;
      for (const Expr& i : x->args) place.push_back(substitute_axes(i, {{c_.k, at}}));
      return inside ? guarded_load(x->dtype, x->ref, place, inside, constant(x->dtype, 0)) : load(x->dtype, x->ref, place);
    });
  }
  // Few sums are added as they are loaded, so that packs of them can be; of more there is a loop.
  Let combined(int parts, int slice, const std::vector<int>& tile) const {
    auto part = [&](const Expr& at) {
      std::vector<Expr> place = {at};
      for (int a : tile) place.push_back(axis(a));
      return load(c_.dtype, parts, place);
    };
    const ir::Dim& slices = k_.axes[slice].extent;
    if (!slices.is_static() || slices.value() > kMostTerms) return {c_.value, Combiner::kSum, {slice}, part(axis(slice))};
    Expr sum = part(index(0));
    for (int64_t s = 1; s < slices.value(); ++s) sum = call("add", {sum, part(index(s))});
    return {c_.value, Combiner::kNone, {}, sum};
  }

  Kernel& k_;
  const Contraction c_;
  const DType factors_;
  const ProductMapping cut_;
  const ir::Target& target_;
};

}  // namespace

void split_products(Kernel& kernel, const ir::Target& target) {
  std::optional<Product> p = target.is_cuda() && !kernel.procedure ? find_product(kernel) : std::nullopt;
  if (!p || p->c.lhs->guard || p->c.rhs->guard) return;
  // Numbers at the head move to the loop after the product.
  bool reads_values = false;
  visit(p->let.expr, [&](const Expr& x) { reads_values |= x->kind == ExprKind::kValue; });
  if (reads_values) return;
  const Grid grid = *product_grid(kernel, target);
  ProductSplitter splitter(kernel, *p, std::get<ProductMapping>(grid.mapping), target);
  if (int64_t length = splitter.length(); length > 0) splitter.split(length);
}

}  // namespace nabla::passes
