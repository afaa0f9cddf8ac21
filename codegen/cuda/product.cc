#include "codegen/cuda/product.h"

#include "codegen/cuda/pack_printer.h"
#include "codegen/print/store_printer.h"

namespace nabla::codegen {

using namespace kernel_ir;  // NOLINT: this file prints kernel_ir

namespace {

constexpr int kTilesDown = 16;

}  // namespace

std::optional<ProductPrinter::Epilogue> ProductPrinter::epilogue() const {
  if (p_.parts.count(c_.m) || p_.parts.count(c_.n)) return std::nullopt;
  Epilogue out{k_, {}, {}};
  for (ValueInfo& v : out.kernel.values) v.axes.clear();
  for (const Stmt& s : k_.body) {
    if (const Let* let = std::get_if<Let>(&s.node); let && !let->contract && !k_.values[let->value].axes.empty()) {
      Let one = *let;
      one.expr = of_own_element(one.expr);
      out.body.push_back({std::move(one)});
    } else if (const Store* store = std::get_if<Store>(&s.node)) {
      Store one = *store;
      one.axes.clear();
      one.expr = of_own_element(one.expr);
      out.body.push_back({std::move(one)});
    } else if (!let) {
      return std::nullopt;
    }
  }
  std::vector<int> axes = c_.batch;
  axes.push_back(c_.m), axes.push_back(c_.n);
  out.packs = find_packs(out.kernel, axes, out.body);
  return out.packs.width > 1 ? std::optional(std::move(out)) : std::nullopt;
}

void ProductPrinter::pack(const Epilogue& e, int width, const std::string& m, const std::string& n, const std::string& value) {
  out_.line(fmt::format("const long {} = {}, {}_first_ = {};", axis_name(c_.m), m, axis_name(c_.n), n));
  out_.line(fmt::format("if ({} >= {} || {}_first_ >= {}) continue;", axis_name(c_.m), extent(c_.m), axis_name(c_.n),
                        extent(c_.n)));
  print_pack(e.kernel, width, c_.n, e.body, {{c_.value, value}}, out_, next_temp_);
}

void ProductPrinter::run() {
  ir::Dim batch = 1;
  for (int b : c_.batch) batch = batch * size(b);
  ir::Dim rows = ir::Dim::ceildiv(size(c_.m), tile_rows()), columns = ir::Dim::ceildiv(size(c_.n), tile_columns());
  declare();
  for (const Stmt& s : k_.body)
    if (const Let* let = std::get_if<Let>(&s.node); let && k_.values[let->value].axes.empty()) head(*let);
  out_.open(fmt::format("for (long tile_ = blockIdx.x; tile_ < {}; tile_ += gridDim.x) {{",
                        size_text(batch * rows * columns)));
  ir::Dim inner = rows * columns;
  if (rows.bounds().max > kTilesDown) {
    // Blocks at work at a time take a square of tiles, so that each row and column of the factors is read by many of them.
    out_.line(fmt::format("const long of_ = tile_ % {}, first_ = of_ / {} * {}, in_ = of_ % {};", size_text(inner),
                          size_text(columns * kTilesDown), kTilesDown, size_text(columns * kTilesDown)));
    out_.line(fmt::format("const long down_ = {0} - first_ < {1} ? {0} - first_ : {1};", size_text(rows), kTilesDown));
    out_.line(fmt::format("const long m0_ = (first_ + in_ % down_) * {}, n0_ = in_ / down_ * {};", tile_rows(),
                          tile_columns()));
  } else {
    out_.line(fmt::format("const long m0_ = tile_ / {1} % {0} * {2}, n0_ = tile_ % {1} * {3};", size_text(rows),
                          size_text(columns), tile_rows(), tile_columns()));
  }
  for (size_t i = c_.batch.size(); i-- > 0;) {
    out_.line(fmt::format("const long {} = tile_ / {}{};", axis_name(c_.batch[i]), size_text(inner),
                          i ? fmt::format(" % {}", size_text(size(c_.batch[i]))) : ""));
    inner = inner * size(c_.batch[i]);
  }
  if (p_.rest_of_k) {
    std::string rest = printer().print(p_.rest_of_k);
    out_.line(fmt::format("const long rest_of_k_ = {};", rest));
    out_.line(fmt::format("const long end_of_k_ = rest_of_k_ < {0} ? rest_of_k_ : {0};", extent(c_.k)));
  }
  multiply();
  finish();
  out_.close();
}

std::string ProductPrinter::end_of_k() const { return p_.rest_of_k ? "end_of_k_" : extent(c_.k); }
bool ProductPrinter::fills_tiles_of_k(int tile_k) const {
  return !p_.rest_of_k && size(c_.k).is_static() && size(c_.k).value() % tile_k == 0;
}
std::string ProductPrinter::tiles_of_k(int tile_k) const {
  if (p_.rest_of_k) return fmt::format("int((end_of_k_ + {}) / {})", tile_k - 1, tile_k);
  return size_text(ir::Dim::ceildiv(size(c_.k), tile_k));
}

void ProductPrinter::head(const Let& let) {
  const ValueInfo& v = k_.values[let.value];
  std::string text = printer().print(let.expr);
  out_.line(fmt::format("const {} {} = {};", compute_type(v.dtype), cpp_name(v.name), text));
  places_[let.value] = {};
}

void ProductPrinter::positions(int axis) {
  auto parts = p_.parts.find(axis);
  if (parts == p_.parts.end()) return;
  ir::Dim inner = 1;
  for (size_t i = parts->second.size(); i-- > 0;) {
    int part = parts->second[i];
    std::string at = fmt::format("unsigned({})", axis_name(axis));
    if (!inner.is(1)) at += fmt::format(" / unsigned({})", size_text(inner));
    if (i) at += fmt::format(" % unsigned({})", extent(part));
    out_.line(fmt::format("const long {} = {};", axis_name(part), at));
    inner = inner * size(part);
  }
}

void ProductPrinter::element(const std::string& m, const std::string& n, const std::string& value) {
  out_.line(fmt::format("const long {} = {}, {} = {};", axis_name(c_.m), m, axis_name(c_.n), n));
  out_.line(
      fmt::format("if ({} >= {} || {} >= {}) continue;", axis_name(c_.m), extent(c_.m), axis_name(c_.n), extent(c_.n)));
  positions(c_.m), positions(c_.n);
  const ValueInfo& product = k_.values[c_.value];
  out_.line(fmt::format("const {} {} = {};", compute_type(product.dtype), cpp_name(product.name), value));
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
}

}  // namespace nabla::codegen
