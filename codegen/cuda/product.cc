#include "codegen/cuda/product.h"

#include "codegen/print/store_printer.h"

namespace nabla::codegen {

using namespace kernel_ir;  // NOLINT: this file prints kernel_ir

void ProductPrinter::run() {
  ir::Dim batch = 1;
  for (int b : c_.batch) batch = batch * size(b);
  ir::Dim rows = ir::Dim::ceildiv(size(c_.m), tile_rows()), columns = ir::Dim::ceildiv(size(c_.n), tile_columns());
  declare();
  for (const Stmt& s : k_.body)
    if (const Let* let = std::get_if<Let>(&s.node); let && k_.values[let->value].axes.empty()) head(*let);
  out_.open(fmt::format("for (long tile_ = blockIdx.x; tile_ < {}; tile_ += gridDim.x) {{",
                        size_text(batch * rows * columns)));
  out_.line(fmt::format("const long m0_ = tile_ / {1} % {0} * {2}, n0_ = tile_ % {1} * {3};", size_text(rows),
                        size_text(columns), tile_rows(), tile_columns()));
  ir::Dim inner = rows * columns;
  for (size_t i = c_.batch.size(); i-- > 0;) {
    out_.line(fmt::format("const long {} = tile_ / {}{};", axis_name(c_.batch[i]), size_text(inner),
                          i ? fmt::format(" % {}", size_text(size(c_.batch[i]))) : ""));
    inner = inner * size(c_.batch[i]);
  }
  multiply();
  finish();
  out_.close();
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
