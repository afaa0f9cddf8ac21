#include "codegen/cpu/narrow.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <unordered_map>

namespace nabla::codegen {
namespace {

using namespace kernel_ir;  // NOLINT: this file rewrites kernel_ir

struct Range {
  double low, high;  // doubles cannot overflow; 2^31 needs no more precision
  bool within(const Range& outer) const { return low >= outer.low && high <= outer.high; }
};
constexpr Range kInt32{-2147483648.0, 2147483647.0};
constexpr Range kWide{-1e30, 1e30};

// All that the dtype can hold.
Range range_of(DType d) {
  if (is_float(d)) return kWide;
  if (d == DType::kBool) return {0, 1};
  double values = std::ldexp(1.0, 8 * bytes_of(d));
  return is_unsigned(d) ? Range{0, values - 1} : Range{-values / 2, values / 2 - 1};
}

// Functions whose result for operands held in i32 is that of i64 when all of them, and the result, fit. Others (bit
// counts, bitcasts, shifts, division, which overflows at other places) depend on the width.
bool keeps_value(std::string_view fn) {
  static constexpr std::string_view kNames[] = {"add", "sub",    "mul",     "maximum", "minimum", "floordiv",
                                                "mod", "select", "convert", "eq",      "ne",      "lt",
                                                "le",  "gt",     "ge",      "philox"};
  return std::find(std::begin(kNames), std::end(kNames), fn) != std::end(kNames);
}

class Narrower {
 public:
  explicit Narrower(const Kernel& k) : k_(k), values_(k.values.size(), kWide) {}

  std::optional<Kernel> run() {
    for (const Buffer& b : k_.buffers)
      if (b.dtype == DType::kI64 || b.dtype == DType::kU64) return std::nullopt;
    if (!fits(k_.body) || !any_) return std::nullopt;
    Kernel out = k_;
    narrow(out.body);
    for (ValueInfo& v : out.values)
      if (v.dtype == DType::kI64) v.dtype = DType::kI32;
    return out;
  }

 private:
  // ---- First: whether every i64 number in a data position fits. Nothing is rewritten before all of them do.
  bool fits(const Body& b) {
    for (const Stmt& s : b) {
      if (const Let* let = std::get_if<Let>(&s.node)) {
        if (!fits(let->expr)) return false;
        DType dtype = k_.values[let->value].dtype;
        bool picks =
            let->combiner == Combiner::kNone || let->combiner == Combiner::kMax || let->combiner == Combiner::kMin;
        if (dtype == DType::kI64 && !picks) return false;  // sums may leave the range
        values_[let->value] = picks && never_empty(let->reduce) ? range(let->expr) : range_of(dtype);
        if (dtype == DType::kI64 && !values_[let->value].within(kInt32)) return false;
      } else if (const Store* store = std::get_if<Store>(&s.node)) {
        if (!fits(store->expr) || (store->guard && !fits(store->guard))) return false;
      } else if (const For* f = std::get_if<For>(&s.node)) {
        if (!fits(f->body)) return false;
      } else {
        return false;  // carried state may grow from iteration to iteration
      }
    }
    return true;
  }
  // What nothing is combined from is the combiner's identity, which depends on the width.
  bool never_empty(const std::vector<int>& reduce) const {
    return std::all_of(reduce.begin(), reduce.end(), [&](int a) { return k_.axes[a].extent.bounds().min > 0; });
  }
  bool fits(const Expr& e) {
    auto [known, added] = fits_.try_emplace(e.id(), true);
    if (!added) return known->second;
    bool wide = e->dtype == DType::kI64;
    any_ |= wide;
    bool good = !wide || range(e).within(kInt32);
    if (e->kind == ExprKind::kCall) {
      for (const Expr& a : e->args) {
        wide |= a->dtype == DType::kI64;
        good = good && fits(a);
      }
      good = good && (!wide || keeps_value(e->fn->name));
    } else if (e->guard) {  // indices are addresses: they stay
      good = good && fits(e->guard) && fits(e->fill);
    }
    return fits_[e.id()] = good;
  }

  Range range(const Expr& e) {
    if (auto it = ranges_.find(e.id()); it != ranges_.end()) return it->second;
    Range all = range_of(e->dtype), r = compute_range(e);
    return ranges_[e.id()] = r.within(all) ? r : all;  // what leaves the dtype wraps around
  }
  Range compute_range(const Expr& e) {
    auto arg = [&](int i) { return range(e->args[i]); };
    if (is_float(e->dtype)) return kWide;
    if (e->kind == ExprKind::kConst) return Range{double(e->integer), double(e->integer)};
    if (e->kind == ExprKind::kDim) return {double(e->dim.bounds().min), double(e->dim.bounds().max)};
    if (e->kind == ExprKind::kAxis) return {0, double(k_.axes[e->ref].extent.bounds().max) - 1};
    if (e->kind == ExprKind::kValue) return values_[e->ref];
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

  // ---- Then the rewriting.
  void narrow(Body& b) {
    for (Stmt& s : b) {
      if (Let* let = std::get_if<Let>(&s.node)) {
        let->expr = data(let->expr);
      } else if (Store* store = std::get_if<Store>(&s.node)) {
        store->expr = data(store->expr);
        for (Expr& i : store->indices) i = address(i);
        if (store->guard) store->guard = data(store->guard);
      } else {
        narrow(std::get<For>(s.node).body);
      }
    }
  }

  // An expression in data position: i64 becomes i32.
  Expr data(const Expr& e) {
    return rewrite(e, [&](const Expr& x) -> Expr {
      if (x->kind == ExprKind::kLoad) {
        std::vector<Expr> at;
        for (const Expr& i : x->args) at.push_back(address(i));
        return x->guard ? guarded_load(x->dtype, x->ref, at, data(x->guard), data(x->fill))
                        : load(x->dtype, x->ref, at);
      }
      if (x->kind == ExprKind::kValue && !x->args.empty()) {
        std::vector<Expr> at;
        for (const Expr& i : x->args) at.push_back(address(i));
        return value(x->dtype == DType::kI64 ? DType::kI32 : x->dtype, x->ref, at);
      }
      if (x->dtype != DType::kI64) {
        if (is_convert(x) && x->args[0]->dtype == DType::kI64)
          return convert(x->dtype, data(x->args[0]));
        return Expr();
      }
      if (x->kind == ExprKind::kConst) return constant_int(DType::kI32, x->integer);
      if (x->kind == ExprKind::kAxis || x->kind == ExprKind::kDim) return call_as(DType::kI32, "convert", {x});
      if (x->kind == ExprKind::kValue) return value(DType::kI32, x->ref, {});
      std::vector<Expr> args;
      for (const Expr& a : x->args) args.push_back(data(a));
      if (x->fn->name == "convert") return convert(DType::kI32, args[0]);
      if (x->fn->name == "select") return select(args[0], args[1], args[2]);
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
  std::vector<Range> values_;
  std::unordered_map<const ExprNode*, Range> ranges_;
  std::unordered_map<const ExprNode*, bool> fits_;
  bool any_ = false;
};

}  // namespace

kernel_ir::Kernel narrow_indices(const kernel_ir::Kernel& kernel) { return Narrower(kernel).run().value_or(kernel); }

}  // namespace nabla::codegen
