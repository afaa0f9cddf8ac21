#include "tests/conformance/mixed_program.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <optional>
#include <random>

#include "ir/builder.h"
#include "ir/ops/all_ops.h"

namespace nabla::conformance {
namespace {

using ir::Val;

// How much is known of a value. Sums that are fused keep more bits than their dtype, products go into sums unrounded.
enum class Trust {
  kRounded,  // finite elements are within `error`, and at most kLargest
  kValues,   // exact but for signs of zeros
  kBits,     // exact but for payloads of NaN
};
struct Drawn {
  Val v;
  Trust trust;
  double error = 0;
};

constexpr double kLargest = 8, kMostError = 1;
constexpr DType kInts[] = {DType::kI8, DType::kI16, DType::kI32, DType::kI64,
                           DType::kU8, DType::kU16, DType::kU32, DType::kU64};
constexpr DType kFloats[] = {DType::kF16, DType::kBF16, DType::kF32, DType::kF64};
constexpr DType kEightBits[] = {DType::kF8E4M3, DType::kF8E5M2};

class Drawer {
 public:
  Drawer(const std::string& name, uint64_t seed) : rng_(seed), b_(name, ops::all_ops()) {}

  MixedProgram draw(int steps) {
    shape_ = {1 + pick(3), 1 + pick(37)};
    for (int i = 0; i < 5; ++i)
      keep(b_.param(fmt::format("x{}", i), ir::Type(pick(3) ? any_int() : any_float(), shape_)), Trust::kBits);
    keep(b_.op("iota", {}, {{"shape", shape_}, {"axis", int64_t{pick(2)}}, {"dtype", any_int()}}), Trust::kBits);
    for (int i = 0; i < steps; ++i) step();
    std::vector<Val> results;
    MixedProgram out{{}, {}};
    for (size_t i = pool_.size() - std::min<size_t>(pool_.size(), 5); i < pool_.size(); ++i) {
      results.push_back(pool_[i].v);
      out.slack.push_back({pool_[i].trust == Trust::kRounded ? pool_[i].error : 0, pool_[i].trust == Trust::kBits});
    }
    out.function = b_.finish(results);
    return out;
  }

 private:
  int64_t pick(int64_t n) { return static_cast<int64_t>(rng_() % static_cast<uint64_t>(n)); }
  template <size_t n>
  DType one_of(const DType (&from)[n]) {
    return from[pick(n)];
  }
  DType any_int() { return one_of(kInts); }
  DType any_float() { return one_of(kFloats); }
  // Where rounding to the dtype may move a number of at most kLargest.
  static double rounding(DType d) { return 16 * epsilon_of(d) * kLargest; }

  void keep(Val v, Trust trust, double error = 0) {
    if (error < kMostError) pool_.push_back({v, trust, error});
  }
  Drawn any() { return pool_[pool_.size() - 1 - pick(std::min<int64_t>(static_cast<int64_t>(pool_.size()), 12))]; }
  // A recent value that fits, or nothing.
  template <class Fits>
  std::optional<Drawn> find(const Fits& fits) {
    for (int tries = 0; tries < 20; ++tries)
      if (Drawn d = any(); fits(d)) return d;
    return std::nullopt;
  }
  // The first parameter is exact: find() may meet nothing but rounded values.
  Drawn exact_value() { return find(exact).value_or(pool_[0]); }
  // Another value of the dtype. If there is none, an exact value is converted to it.
  Drawn like(const Drawn& d, Trust least) {
    auto other =
        find([&](const Drawn& o) { return o.v.dtype() == d.v.dtype() && o.v.id != d.v.id && o.trust >= least; });
    if (other) return *other;
    Drawn from = exact_value();
    return {ir::convert(from.v, d.v.dtype()), from.trust, 0};
  }
  static bool exact(const Drawn& d) { return d.trust != Trust::kRounded; }
  static bool floating(const Drawn& d) { return is_float(d.v.dtype()); }
  static bool integer(const Drawn& d) { return is_integer(d.v.dtype()); }

  // The result of arithmetic: not too large, so that errors stay small, and overflow of fused and stored numbers alike.
  void keep_rounded(Val v, double error) {
    Val bounded = b_.op("clamp", {b_.like(v, -kLargest), v, b_.like(v, kLargest)});
    keep(bounded, Trust::kRounded, error + rounding(v.dtype()));
  }

  void step() {
    switch (pick(12)) {
      case 0:
      case 1:
        return cast();
      case 2:
        return bits();
      case 3:
        return integer_arithmetic();
      case 4:
        return integer_function();
      case 5:
        return comparison();
      case 6:
        return selection();
      case 7:
        return exact_float();
      case 8:
        return float_arithmetic();
      case 9:
        return float_function();
      case 10:
        return reduction();
      default:
        return index();
    }
  }

  void cast() {
    Drawn d = any();
    if (!exact(d)) {
      DType to = any_float();
      return keep(ir::convert(d.v, to), Trust::kRounded, d.error + rounding(to));
    }
    DType to = pick(3) ? any_int() : pick(4) ? any_float() : pick(2) ? DType::kBool : one_of(kEightBits);
    Val v = ir::convert(d.v, to);
    // Numbers of 8 bits have few ops.
    keep(is_float(to) && bytes_of(to) == 1 ? ir::convert(v, any_float()) : v, d.trust);
  }

  void bits() {
    auto d = find([](const Drawn& o) { return o.trust == Trust::kBits && o.v.dtype() != DType::kBool; });
    if (!d) return;
    Val v = d->v;
    if (floating(*d)) v = ir::select(b_.op("is_nan", {v}), b_.like(v, 1), v);  // payloads are nobody's promise
    std::vector<DType> same;
    for (DType t : kInts)
      if (bytes_of(t) == bytes_of(v.dtype())) same.push_back(t);
    for (DType t : kFloats)
      if (bytes_of(t) == bytes_of(v.dtype())) same.push_back(t);
    keep(b_.op("bitcast", {v}, {{"dtype", same[pick(static_cast<int64_t>(same.size()))]}}), Trust::kBits);
  }

  void integer_arithmetic() {
    auto d = find(integer);
    if (!d) return;
    static constexpr const char* kNames[] = {"add", "sub", "mul", "div",        "rem",         "and",
                                             "or",  "xor", "pow", "shift_left", "shift_right", "shift_right_logical",
                                             "add", "mul", "sub", "maximum",    "minimum",     "div"};
    const char* name = kNames[pick(std::size(kNames))];
    Val other = pick(3) ? like(*d, Trust::kValues).v : b_.like(d->v, static_cast<double>(pick(9) - 2));
    keep(b_.op(name, {d->v, other}), Trust::kBits);
  }

  void integer_function() {
    auto d = find([](const Drawn& o) { return !floating(o); });
    if (!d) return;
    static constexpr const char* kNames[] = {"not", "neg", "abs", "sign", "popcount", "clz"};
    keep(b_.op(d->v.dtype() == DType::kBool ? "not" : kNames[pick(6)], {d->v}), Trust::kBits);
  }

  void comparison() {
    auto d = find(exact);
    static constexpr const char* kNames[] = {"eq", "ne", "lt", "le", "gt", "ge"};
    if (d) keep(b_.op(kNames[pick(6)], {d->v, like(*d, Trust::kValues).v}), Trust::kBits);
  }

  void selection() {
    Drawn p = exact_value(), d = any(), other = like(d, Trust::kRounded);
    Val predicate = p.v.dtype() == DType::kBool ? p.v : ir::convert(p.v, DType::kBool);
    keep(ir::select(predicate, d.v, other.v), std::min(d.trust, other.trust), std::max(d.error, other.error));
  }

  void exact_float() {
    auto d = find([](const Drawn& o) { return floating(o) && exact(o); });
    if (!d) return;
    static constexpr const char* kNames[] = {"neg",       "abs",     "sign",    "floor", "ceil",   "trunc",   "is_nan",
                                             "is_finite", "maximum", "minimum", "round", "is_inf", "maximum", "rem"};
    std::string name = kNames[pick(std::size(kNames))];
    bool two = name == "maximum" || name == "minimum" || name == "rem";
    if (!two) return keep(b_.op(name, {d->v}), d->trust);
    if (name == "rem" && bytes_of(d->v.dtype()) < 4) name = "minimum";
    keep(b_.op(name, {d->v, like(*d, Trust::kValues).v}), Trust::kValues);
  }

  void float_arithmetic() {
    auto d = find(floating);
    if (!d) return;
    if (exact(*d) && pick(2)) {  // any operands: the result is within some units in the last place
      static constexpr const char* kNames[] = {"add", "sub", "mul", "div", "pow", "atan2"};
      Drawn other = like(*d, Trust::kBits);
      if (d->trust == Trust::kBits) return keep_rounded(b_.op(kNames[pick(6)], {d->v, other.v}), 0);
    }
    Drawn other = like(*d, Trust::kRounded);
    double error = d->error + other.error;
    switch (pick(4)) {
      case 0:
        return keep_rounded(bounded(*d) + bounded(other), error);
      case 1:
        return keep_rounded(bounded(*d) - bounded(other), error);
      case 2:
        return keep_rounded(bounded(*d) * bounded(other), kLargest * error);
      default:
        return keep_rounded(b_.op(pick(2) ? "maximum" : "minimum", {bounded(*d), bounded(other)}), error);
    }
  }
  Val bounded(const Drawn& d) {
    return exact(d) ? b_.op("clamp", {b_.like(d.v, -kLargest), d.v, b_.like(d.v, kLargest)}) : d.v;
  }

  void float_function() {
    auto d = find(floating);
    if (!d) return;
    static constexpr const char* kTame[] = {"tanh", "sin", "cos", "erf", "logistic", "atan", "neg", "abs"};
    static constexpr const char* kAny[] = {"exp",   "log",   "sqrt", "rsqrt", "exp2",  "log2", "cbrt",    "expm1",
                                           "tanh",  "log1p", "asin", "acos",  "asinh", "sinh", "cosh",    "erfc",
                                           "acosh", "sin",   "cos",  "erf",   "atanh", "atan", "logistic"};
    bool any_operand = d->trust == Trust::kBits;
    const char* name = any_operand ? kAny[pick(std::size(kAny))] : kTame[pick(std::size(kTame))];
    keep_rounded(b_.op(name, {any_operand ? d->v : bounded(*d)}), d->error);
  }

  void reduction() {
    Drawn d = any();
    int64_t axis = pick(2);
    ir::Ints axes{axis};
    auto along = [&](Val v) { return ir::broadcast_along(v, shape_, axes); };
    if (!floating(d)) {
      static constexpr const char* kNames[] = {"reduce_sum", "reduce_max", "reduce_min", "reduce_prod"};
      static constexpr const char* kLogical[] = {"reduce_or", "reduce_and"};
      const char* name = d.v.dtype() == DType::kBool ? kLogical[pick(2)] : kNames[pick(4)];
      return keep(along(b_.op(name, {d.v}, {{"axes", axes}})), Trust::kBits);
    }
    if (exact(d) && pick(2)) {
      const char* name = pick(2) ? "reduce_max" : "reduce_min";
      return keep(along(b_.op(name, {d.v}, {{"axes", axes}})), Trust::kValues);
    }
    double n = static_cast<double>(shape_[axis].value());
    Val mean = ir::reduce_sum(bounded(d) * (1 / n), axes);
    keep_rounded(along(mean), d.error + rounding(d.v.dtype()) * n / 8);
  }

  void index() {
    auto d = find([](const Drawn& o) { return exact(o) && o.v.dtype() != DType::kBool; });
    if (!d) return;
    int64_t axis = pick(2);
    if (pick(3) == 0)
      return keep(b_.op("iota", {}, {{"shape", shape_}, {"axis", axis}, {"dtype", any_int()}}), Trust::kBits);
    if (pick(2)) {
      DType to = pick(2) ? DType::kI32 : DType::kI64;
      Val at = b_.op(pick(2) ? "argmax" : "argmin", {d->v}, {{"axis", axis}, {"dtype", to}});
      return keep(ir::broadcast_along(at, shape_, {axis}), Trust::kBits);
    }
    Drawn moved = any();
    keep(b_.op("reverse", {moved.v}, {{"axes", ir::Ints{axis}}}), moved.trust, moved.error);
  }

  std::mt19937_64 rng_;
  ir::FunctionBuilder b_;
  ir::Shape shape_;
  std::vector<Drawn> pool_;
};

double draw_float(std::mt19937_64& rng) {
  constexpr double kInf = std::numeric_limits<double>::infinity();
  static constexpr double kSpecial[] = {0,
                                        -0.0,
                                        1,
                                        -1,
                                        0.5,
                                        2.5,
                                        -1.5,
                                        kInf,
                                        -kInf,
                                        NAN,
                                        1e-8,
                                        5e-324,
                                        1e-40,
                                        6e-8,
                                        65504,
                                        65519.9,
                                        65520,
                                        1e5,
                                        3.3e38,
                                        -3.4e38,
                                        1e300,
                                        127.5,
                                        -128.5,
                                        255.5,
                                        32767.5,
                                        2147483647,
                                        2147483648.0,
                                        -2147483648.0,
                                        4294967296.0,
                                        9223372036854775807.0,
                                        -9223372036854775808.0,
                                        18446744073709551616.0,
                                        16777217,
                                        2049,
                                        2051,
                                        257,
                                        259,
                                        1.0009765625};
  if (rng() % 3 == 0) return kSpecial[rng() % std::size(kSpecial)];
  if (rng() % 3 == 0)
    return std::ldexp(static_cast<double>(static_cast<int64_t>(rng())), -60 + static_cast<int>(rng() % 40));
  return std::uniform_real_distribution<double>(-4, 4)(rng);
}

int64_t draw_int(std::mt19937_64& rng) {
  if (rng() % 3 == 0) return static_cast<int64_t>(rng() % 9) - 4;
  int64_t any = static_cast<int64_t>(rng()) >> (rng() % 63);
  if (rng() % 3) return any;
  int64_t power = int64_t{1} << (rng() % 63);
  return (rng() % 2 ? power : -power) - static_cast<int64_t>(rng() % 2);
}

}  // namespace

MixedProgram draw_mixed_program(const std::string& name, uint64_t seed, int steps) {
  return Drawer(name, seed).draw(steps);
}

std::vector<Literal> draw_mixed_inputs(const ir::Function& f, uint64_t seed) {
  std::mt19937_64 rng(seed);
  std::vector<Literal> out;
  for (ir::ValueId p : f.params) {
    Literal x(f.type(p).dtype, f.type(p).extents());
    for (int64_t i = 0; i < x.size(); ++i) {
      if (is_float(x.dtype()))
        x.set(i, draw_float(rng));
      else
        x.set_i(i, draw_int(rng));
    }
    out.push_back(std::move(x));
  }
  return out;
}

std::string mixed_difference(const Literal& want, const Literal& got, const Slack& slack) {
  if (want.dtype() != got.dtype() || want.shape() != got.shape()) return "another type";
  for (int64_t i = 0; i < want.size(); ++i) {
    if (!is_float(want.dtype())) {
      if (want.get_i(i) != got.get_i(i))
        return fmt::format("element {}: expected {}, got {}", i, want.get_i(i), got.get_i(i));
      continue;
    }
    double w = want.get(i), g = got.get(i);
    bool same = std::isnan(w) ? std::isnan(g) : w == g || std::fabs(w - g) <= slack.error;
    if (same && slack.zero_signs && w == 0) same = std::signbit(w) == std::signbit(g);
    if (!same) return fmt::format("element {}: expected {}, got {} (slack {})", i, w, g, slack.error);
  }
  return "";
}

}  // namespace nabla::conformance
