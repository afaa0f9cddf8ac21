#include "codegen/cpu/narrow.h"

#include <algorithm>
#include <optional>
#include <unordered_map>

namespace nabla::codegen {
namespace {

using namespace kernel_ir;  // NOLINT: this file rewrites kernel_ir

struct Range {
  double low, high;  // doubles cannot overflow; 2^31 needs no more precision
};

class Narrower {
 public:
  explicit Narrower(const Kernel& k) : k_(k), values_(k.values.size()) {}

  std::optional<Kernel> run() {
    bool any = false;
    for (const Buffer& b : k_.buffers)
      if (b.dtype == DType::kI64 || b.dtype == DType::kU64) return std::nullopt;
    Kernel out = k_;
    body(out.body, any);
    if (!fits_ || !any) return std::nullopt;
    for (ValueInfo& v : out.values)
      if (v.dtype == DType::kI64) v.dtype = DType::kI32;
    return out;
  }

 private:
  void body(Body& b, bool& any) {
    for (Stmt& s : b) {
      if (Let* let = std::get_if<Let>(&s.node)) {
        if (let->combiner != Combiner::kNone && k_.values[let->value].dtype == DType::kI64 &&
            let->combiner != Combiner::kMax && let->combiner != Combiner::kMin)
          fits_ = false;  // sums may leave the range
        values_[let->value] = range(let->expr);
        let->expr = data(let->expr, any);
      } else if (Store* store = std::get_if<Store>(&s.node)) {
        store->expr = data(store->expr, any);
        for (Expr& i : store->indices) i = address(i);
        if (store->guard) store->guard = data(store->guard, any);
      } else if (For* f = std::get_if<For>(&s.node)) {
        body(f->body, any);
      } else {
        fits_ = false;  // carried state may grow from iteration to iteration
      }
    }
  }

  Range range(const Expr& e) {
    if (auto it = ranges_.find(e.id()); it != ranges_.end()) return it->second;
    return ranges_[e.id()] = compute_range(e);
  }
  Range compute_range(const Expr& e) {
    constexpr Range kWide{-1e30, 1e30};
    auto arg = [&](int i) { return range(e->args[i]); };
    if (e->kind == ExprKind::kConst) return is_float(e->dtype) ? kWide : Range{double(e->integer), double(e->integer)};
    if (e->kind == ExprKind::kDim) return {double(e->dim.bounds().min), double(e->dim.bounds().max)};
    if (e->kind == ExprKind::kAxis) return {0, double(k_.axes[e->ref].extent.bounds().max) - 1};
    if (e->kind == ExprKind::kValue) return values_[e->ref].value_or(kWide);
    if (e->kind == ExprKind::kLoad)
      return bytes_of(e->dtype) < 4 || e->dtype == DType::kI32 ? Range{-2147483648.0, 2147483647.0} : kWide;
    if (e->kind != ExprKind::kCall) return kWide;
    std::string_view fn = e->fn->name;
    if (fn == "convert") return is_float(e->args[0]->dtype) ? kWide : arg(0);
    if (fn == "select") return {std::min(arg(1).low, arg(2).low), std::max(arg(1).high, arg(2).high)};
    if (fn == "add") return {arg(0).low + arg(1).low, arg(0).high + arg(1).high};
    if (fn == "sub") return {arg(0).low - arg(1).high, arg(0).high - arg(1).low};
    if (fn == "mul") {
      double p[] = {arg(0).low * arg(1).low, arg(0).low * arg(1).high, arg(0).high * arg(1).low,
                    arg(0).high * arg(1).high};
      return {*std::min_element(p, p + 4), *std::max_element(p, p + 4)};
    }
    if (fn == "maximum" || fn == "minimum")
      return {std::min(arg(0).low, arg(1).low), std::max(arg(0).high, arg(1).high)};
    if (fn == "floordiv") return {std::min(arg(0).low, 0.0), std::max(arg(0).high, 0.0)};
    if (fn == "mod") return {0, arg(1).high};
    return kWide;
  }

  // An expression in data position: i64 becomes i32.
  Expr data(const Expr& e, bool& any) {
    return rewrite(e, [&](const Expr& x) -> Expr {
      if (x->kind == ExprKind::kLoad) {
        std::vector<Expr> at;
        for (const Expr& i : x->args) at.push_back(address(i));
        return x->guard ? guarded_load(x->dtype, x->ref, at, data(x->guard, any), data(x->fill, any))
                        : load(x->dtype, x->ref, at);
      }
      if (x->kind == ExprKind::kValue && !x->args.empty()) {
        std::vector<Expr> at;
        for (const Expr& i : x->args) at.push_back(address(i));
        return value(x->dtype == DType::kI64 ? DType::kI32 : x->dtype, x->ref, at);
      }
      if (x->dtype != DType::kI64) {
        if (x->kind == ExprKind::kCall && x->fn->name == "convert" && x->args[0]->dtype == DType::kI64)
          return convert(x->dtype, data(x->args[0], any));
        return Expr();
      }
      Range r = range(x);
      if (r.low < -2147483648.0 || r.high > 2147483647.0) fits_ = false;
      any = true;
      if (x->kind == ExprKind::kConst) return constant_int(DType::kI32, x->integer);
      if (x->kind == ExprKind::kAxis || x->kind == ExprKind::kDim) return call_as(DType::kI32, "convert", {x});
      if (x->kind == ExprKind::kValue) return value(DType::kI32, x->ref, {});
      std::vector<Expr> args;
      for (const Expr& a : x->args) args.push_back(data(a, any));
      if (x->fn->name == "convert") return convert(DType::kI32, args[0]);
      if (x->fn->name == "select") return select(args[0], args[1], args[2]);
      if (x->fn->result == ResultKind::kFirst) return fits_ = false, x;
      return call(x->fn->name, args);
    });
  }

  // An expression in address position stays 64-bit; values it reads are widened.
  Expr address(const Expr& e) {
    return rewrite(e, [&](const Expr& x) -> Expr {
      if (x->kind != ExprKind::kValue || x->dtype != DType::kI64) return Expr();
      std::vector<Expr> at;
      for (const Expr& i : x->args) at.push_back(address(i));
      return convert(DType::kI64, value(DType::kI32, x->ref, at));
    });
  }

  const Kernel& k_;
  std::vector<std::optional<Range>> values_;
  std::unordered_map<const ExprNode*, Range> ranges_;
  bool fits_ = true;
};

}  // namespace

kernel_ir::Kernel narrow_indices(const kernel_ir::Kernel& kernel) { return Narrower(kernel).run().value_or(kernel); }

}  // namespace nabla::codegen
