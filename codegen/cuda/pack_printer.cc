#include "codegen/cuda/pack_printer.h"

#include "codegen/cuda/pack_reader.h"

namespace nabla::codegen {

using namespace kernel_ir;  // NOLINT: this file prints kernel_ir

namespace {

// One iteration per pack; the lane axis stands at the pack's first element.
void open_packs(const Kernel& k, const Packs& packs, const std::vector<int>& axes, CppWriter& out) {
  ir::Dim points = 1;
  for (int a : axes) points = points * k.axes[a].extent;
  points = ir::Dim::floordiv(points, packs.width);
  std::string count = points.is_static() ? size_text(points) : "int(" + size_text(points) + ")";
  out.open(fmt::format("for (int u_ = nb_team<1>(); u_ < {}; u_ += nb_teams<1>()) {{", count));
  ir::Dim inner = 1;
  for (size_t i = axes.size(); i-- > 0;) {
    ir::Dim extent = k.axes[axes[i]].extent;
    bool lane = axes[i] == axes.back();
    if (lane) extent = ir::Dim::floordiv(extent, packs.width);
    auto sized = [](const ir::Dim& d) { return d.is_static() ? size_text(d) : "int(" + size_text(d) + ")"; };
    std::string at = inner.is(1) ? "u_" : fmt::format("u_ / {}", sized(inner));
    if (i) at += fmt::format(" % {}", sized(extent));
    std::string axis = cpp_name(k.axes[axes[i]].name);
    out.line(lane ? fmt::format("const long {}_first_ = {} * {};", axis, i ? "(" + at + ")" : at, packs.width)
                  : fmt::format("const long {} = {};", axis, at));
    inner = inner * extent;
  }
}

class PackPrinter {
 public:
  PackPrinter(const Kernel& k, int width, int lane, CppWriter& out, int& next_temp)
      : k_(k), reader_(k_, width, lane, true, out, next_temp), out_(out), next_temp_(next_temp) {}

  void run(const Body& body, const std::map<int, std::string>& given) {
    for (const Stmt& s : k_.body)
      if (const Let* let = std::get_if<Let>(&s.node)) places_[let->value] = {};
    for (const Stmt& s : body) {
      const Let* let = std::get_if<Let>(&s.node);
      reader_.load(let ? let->expr : std::get<Store>(s.node).expr);
    }
    for (const Stmt& s : body)
      if (const Store* store = std::get_if<Store>(&s.node)) reader_.declare(place(*store), pack(*store));
    reader_.open(places_);
    for (const auto& [value, text] : given) {
      out_.line(fmt::format("const {} {} = {};", compute_type(k_.values[value].dtype), cpp_name(k_.values[value].name), text));
      places_[value] = {};
    }
    for (const Stmt& s : body) element(s);
    out_.close();
    for (const Stmt& s : body)
      if (const Store* store = std::get_if<Store>(&s.node)) reader_.store(place(*store), pack(*store));
  }

 private:
  PackPlace place(const Store& s) const { return buffer_place(k_, s.buffer, s.indices); }
  std::string pack(const Store& s) const { return cpp_name(k_.buffers[s.buffer].name) + "_pack_"; }

  void element(const Stmt& s) {
    ExprPrinter p(k_, places_, out_, next_temp_);
    if (const Let* let = std::get_if<Let>(&s.node)) {
      const ValueInfo& v = k_.values[let->value];
      std::string text = p.print(reader_.element(let->expr));
      out_.line(fmt::format("const {} {} = {};", compute_type(v.dtype), cpp_name(v.name), text));
      places_[let->value] = {};
      return;
    }
    const Store& store = std::get<Store>(s.node);
    std::string text = p.print(reader_.element(store.expr));
    out_.line(fmt::format("{}.at[l_] = nb_narrow({}{{}}, {});", pack(store), storage_type(k_.buffers[store.buffer].dtype), text));
  }

  Kernel k_;  // It has a value more for each pack.
  PackReader reader_;
  CppWriter& out_;
  int& next_temp_;
  std::map<int, ValuePlace> places_;
};

}  // namespace

void print_packs(const Kernel& k, const Packs& packs, const std::vector<int>& axes, const Body& body, CppWriter& out,
                 int& next_temp) {
  open_packs(k, packs, axes, out);
  PackPrinter(k, packs.width, axes.back(), out, next_temp).run(body, {});
  out.close();
}

void print_pack(const Kernel& k, int width, int lane, const Body& body, const std::map<int, std::string>& given,
                CppWriter& out, int& next_temp) {
  PackPrinter(k, width, lane, out, next_temp).run(body, given);
}

}  // namespace nabla::codegen
