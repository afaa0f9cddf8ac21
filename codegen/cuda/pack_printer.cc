#include "codegen/cuda/pack_printer.h"

#include <algorithm>

#include "codegen/print/store_printer.h"

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
      : k_(k), width_(width), lane_(lane), out_(out), next_temp_(next_temp) {}

  void run(const Body& body, const std::map<int, std::string>& given) {
    for (const Stmt& s : k_.body)
      if (const Let* let = std::get_if<Let>(&s.node)) places_[let->value] = {};
    for (const Stmt& s : body) {
      const Let* let = std::get_if<Let>(&s.node);
      load_packs(let ? let->expr : std::get<Store>(s.node).expr);
    }
    for (const Stmt& s : body)
      if (const Store* store = std::get_if<Store>(&s.node))
        out_.line(fmt::format("nb_pack<{}, {}> {}_pack_;", storage(store->buffer), width_, name(store->buffer)));
    out_.line("#pragma unroll");
    out_.open(fmt::format("for (int l_ = 0; l_ < {}; ++l_) {{", width_));
    std::string axis = cpp_name(k_.axes[lane_].name);
    out_.line(fmt::format("const long {0} = {0}_first_ + l_;", axis));
    for (const auto& [value, text] : given) {
      out_.line(fmt::format("const {} {} = {};", compute_type(k_.values[value].dtype), cpp_name(k_.values[value].name), text));
      places_[value] = {};
    }
    for (const auto& [key, value] : loaded_) {
      const ValueInfo& v = k_.values[value];
      out_.line(fmt::format("const {} {} = nb_widen({}pack_.at[l_]);", compute_type(v.dtype), v.name, v.name));
      places_[value] = {};
    }
    for (const Stmt& s : body) element(s);
    out_.close();
    for (const Stmt& s : body)
      if (const Store* store = std::get_if<Store>(&s.node))
        out_.line(fmt::format("nb_store_pack({} + {}, {}_pack_);", name(store->buffer),
                              first_offset(store->indices, store->buffer), name(store->buffer)));
  }

 private:
  std::string name(int buffer) const { return cpp_name(k_.buffers[buffer].name); }
  std::string storage(int buffer) const { return storage_type(k_.buffers[buffer].dtype); }

  // The offset of the pack's first element.
  std::string first_offset(const std::vector<Expr>& at, int buffer) {
    Affine flat = *flat_offset(at, k_.buffers[buffer].shape);
    std::string out;
    for (const auto& [axis, c] : flat.coefficients) {
      std::string axis_text = cpp_name(k_.axes[axis].name) + (axis == lane_ ? "_first_" : "");
      out += (out.empty() ? "" : " + ") + axis_text + (c.is(1) ? "" : " * " + size_text(c));
    }
    return flat.constant.is(0) ? out : out + " + " + size_text(flat.constant);
  }
  bool in_pack(const Expr& x) const {
    if (x->kind != ExprKind::kLoad || x->guard) return false;
    std::optional<Affine> flat = flat_offset(x->args, k_.buffers[x->ref].shape);
    return flat && walks(*flat, lane_);
  }
  void load_packs(const Expr& e) {
    visit(e, [&](const Expr& x) {
      if (!in_pack(x)) return;
      for (const auto& [load, value] : loaded_)
        if (load == x) return;
      std::string value = fmt::format("e{}_", next_temp_++);
      out_.line(fmt::format("const nb_pack<{0}, {1}> {2}pack_ = nb_load_pack<{1}>({3} + {4});", storage(x->ref),
                            width_, value, name(x->ref), first_offset(x->args, x->ref)));
      k_.values.push_back({value, x->dtype, {}});
      loaded_.emplace_back(x, static_cast<int>(k_.values.size()) - 1);
    });
  }
  Expr from_packs(const Expr& e) const {
    return rewrite(e, [&](const Expr& x) {
      for (const auto& [load, value] : loaded_)
        if (load == x) return kernel_ir::value(x->dtype, value, {});
      return Expr();
    });
  }
  void element(const Stmt& s) {
    ExprPrinter p(k_, places_, out_, next_temp_);
    if (const Let* let = std::get_if<Let>(&s.node)) {
      const ValueInfo& v = k_.values[let->value];
      std::string text = p.print(from_packs(let->expr));
      out_.line(fmt::format("const {} {} = {};", compute_type(v.dtype), cpp_name(v.name), text));
      places_[let->value] = {};
      return;
    }
    const Store& store = std::get<Store>(s.node);
    std::string text = p.print(from_packs(store.expr));
    out_.line(fmt::format("{}_pack_.at[l_] = nb_narrow({}{{}}, {});", name(store.buffer), storage(store.buffer), text));
  }

  Kernel k_;  // with a value more per pack
  int width_, lane_;
  CppWriter& out_;
  int& next_temp_;
  std::map<int, ValuePlace> places_;
  std::vector<std::pair<Expr, int>> loaded_;  // loads and the values that stand for them
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
