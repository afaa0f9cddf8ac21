#include "codegen/cuda/pack_printer.h"

#include <algorithm>

#include "codegen/print/store_printer.h"

namespace nabla::codegen {

using namespace kernel_ir;  // NOLINT: this file prints kernel_ir

namespace {

class PackPrinter {
 public:
  PackPrinter(const Kernel& k, const Packs& packs, const std::vector<int>& axes, CppWriter& out, int& next_temp)
      : k_(k), packs_(packs), axes_(axes), lane_(axes.back()), out_(out), next_temp_(next_temp) {}

  void run(const Body& body) {
    open();
    for (const Stmt& s : body) {
      const Let* let = std::get_if<Let>(&s.node);
      load_packs(let ? let->expr : std::get<Store>(s.node).expr);
    }
    for (const Stmt& s : body)
      if (const Store* store = std::get_if<Store>(&s.node))
        out_.line(fmt::format("nb_pack<{}, {}> {}_pack_;", storage(store->buffer), packs_.width, name(store->buffer)));
    out_.line("#pragma unroll");
    out_.open(fmt::format("for (int l_ = 0; l_ < {}; ++l_) {{", packs_.width));
    std::string axis = cpp_name(k_.axes[lane_].name);
    out_.line(fmt::format("const long {0} = {0}_first_ + l_;", axis));
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
    out_.close();
  }

 private:
  std::string name(int buffer) const { return cpp_name(k_.buffers[buffer].name); }
  std::string storage(int buffer) const { return storage_type(k_.buffers[buffer].dtype); }

  // One iteration per pack; the lane axis stands at the pack's first element.
  void open() {
    ir::Dim points = 1;
    for (int a : axes_) points = points * k_.axes[a].extent;
    points = ir::Dim::floordiv(points, packs_.width);
    std::string count = points.is_static() ? size_text(points) : "int(" + size_text(points) + ")";
    out_.open(fmt::format("for (int u_ = nb_team<1>(); u_ < {}; u_ += nb_teams<1>()) {{", count));
    ir::Dim inner = 1;
    for (size_t i = axes_.size(); i-- > 0;) {
      ir::Dim extent = k_.axes[axes_[i]].extent;
      bool lane = axes_[i] == lane_;
      if (lane) extent = ir::Dim::floordiv(extent, packs_.width);
      auto sized = [](const ir::Dim& d) { return d.is_static() ? size_text(d) : "int(" + size_text(d) + ")"; };
      std::string at = inner.is(1) ? "u_" : fmt::format("u_ / {}", sized(inner));
      if (i) at += fmt::format(" % {}", sized(extent));
      std::string axis = cpp_name(k_.axes[axes_[i]].name);
      out_.line(lane ? fmt::format("const long {}_first_ = {} * {};", axis, i ? "(" + at + ")" : at, packs_.width)
                     : fmt::format("const long {} = {};", axis, at));
      inner = inner * extent;
    }
  }

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
                            packs_.width, value, name(x->ref), first_offset(x->args, x->ref)));
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
  const Packs& packs_;
  const std::vector<int>& axes_;
  int lane_;
  CppWriter& out_;
  int& next_temp_;
  std::map<int, ValuePlace> places_;
  std::vector<std::pair<Expr, int>> loaded_;  // loads and the values that stand for them

 public:
  std::map<int, ValuePlace>& places() { return places_; }
};

}  // namespace

void print_packs(const Kernel& k, const Packs& packs, const std::vector<int>& axes, const Body& body, CppWriter& out,
                 int& next_temp) {
  PackPrinter printer(k, packs, axes, out, next_temp);
  for (const Stmt& s : k.body)
    if (const Let* let = std::get_if<Let>(&s.node)) printer.places()[let->value] = {};
  printer.run(body);
}

}  // namespace nabla::codegen
