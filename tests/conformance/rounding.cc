#include "tests/conformance/rounding.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "ir/builder.h"
#include "ir/ops/all_ops.h"

namespace nabla::conformance {
namespace {

// Holds every element of every dtype.
using Exact = long double;
static_assert(std::numeric_limits<Exact>::digits >= 64);

constexpr DType kSources[] = {DType::kI8,  DType::kI16, DType::kI32,  DType::kI64, DType::kU8,  DType::kU16,
                              DType::kU32, DType::kU64, DType::kBF16, DType::kF16, DType::kF32, DType::kF64};
constexpr DType kTargets[] = {DType::kF8E4M3, DType::kF8E5M2, DType::kF16, DType::kBF16, DType::kF32, DType::kF64};

Exact value_of(const Literal& x, int64_t i) {
  if (is_float(x.dtype())) return x.get(i);
  return x.dtype() == DType::kU64 ? static_cast<Exact>(static_cast<uint64_t>(x.get_i(i)))
                                  : static_cast<Exact>(x.get_i(i));
}

// The number of a bit pattern without sign. What comes after the largest finite one stands where the next would be.
Exact number_of(DType dtype, uint64_t code) {
  double v = get_float(dtype, &code, 0);
  if (std::isfinite(v)) return v;
  return 2 * number_of(dtype, code - 1) - number_of(dtype, code - 2);
}
// The first pattern that is no finite number.
uint64_t end_of(DType dtype) {
  uint64_t cell = 0;
  set_float(dtype, &cell, 0, HUGE_VAL);
  return cell;
}
// The last pattern whose number is at most v.
uint64_t below(DType dtype, Exact v) {
  uint64_t low = 0, high = end_of(dtype);
  while (high - low > 1) {
    uint64_t middle = low + (high - low) / 2;
    (number_of(dtype, middle) <= v ? low : high) = middle;
  }
  return low;
}

// Every pattern of 8 bits, and of wider formats those around the ends, zero and subnormals, and every so-many-th.
std::vector<uint64_t> patterns(DType to) {
  uint64_t end = end_of(to), normal = below(to, std::ldexp(Exact(1), to == DType::kF16 ? -14 : -126));
  std::set<uint64_t> out;
  for (uint64_t code = 0; code < end; code += end / 400 | 1) out.insert(code);
  for (uint64_t place : {uint64_t{0}, normal, end}) {
    uint64_t first = place - std::min<uint64_t>(place, 6);
    for (uint64_t code = first; code < std::min(end, place + 6); ++code) out.insert(code);
  }
  return {out.begin(), out.end()};
}

class Values {
 public:
  explicit Values(DType dtype) : dtype_(dtype) {}

  // v, or the nearest in the dtype, and its neighbours there; both signs.
  void around(Exact v) {
    for (Exact x : {v, -v})
      if (is_float(dtype_))
        floats_around(static_cast<double>(x));
      else
        for (int k = -2; k <= 2; ++k) integer(std::rint(x) + k);
  }
  void number(double v) { cells_.push_back(cell_of(v)); }
  Literal take() {
    Literal out(dtype_, {static_cast<int64_t>(cells_.size())});
    for (size_t i = 0; i < cells_.size(); ++i)
      std::copy_n(reinterpret_cast<const char*>(&cells_[i]), bytes_of(dtype_),
                  static_cast<char*>(out.mutable_data()) + i * static_cast<size_t>(bytes_of(dtype_)));
    return out;
  }

 private:
  uint64_t cell_of(double v) const {
    uint64_t cell = 0;
    set_float(dtype_, &cell, 0, v);
    return cell;
  }
  void floats_around(double v) {
    uint64_t cell = cell_of(v);
    for (uint64_t c : {cell - 1, cell, cell + 1})
      if ((cell != 0 || c <= 1) && std::isfinite(get_float(dtype_, &c, 0))) cells_.push_back(c);
    if (dtype_ == DType::kF64)  // what a float between would round to the middle
      for (double d : {1e-9, -1e-9, 1e-12, -1e-12}) cells_.push_back(cell_of(v + v * d));
  }
  void integer(Exact v) {
    int bits = 8 * bytes_of(dtype_) - (is_signed(dtype_) ? 1 : 0);
    if (v >= std::ldexp(Exact(1), bits) || v < (is_signed(dtype_) ? -std::ldexp(Exact(1), bits) : Exact(0))) return;
    uint64_t cell = 0;
    set_int(dtype_, &cell, 0, v < 0 ? static_cast<int64_t>(v) : static_cast<int64_t>(static_cast<uint64_t>(v)));
    cells_.push_back(cell);
  }

  DType dtype_;
  std::vector<uint64_t> cells_;
};

std::string entry_name(Conversion c) { return fmt::format("{}_{}", name_of(c.from), name_of(c.to)); }

}  // namespace

std::vector<Conversion> float_conversions() {
  std::vector<Conversion> out;
  for (DType from : kSources)
    for (DType to : kTargets)
      if (from != to) out.push_back({from, to});
  return out;
}

Literal values_near_ties(Conversion c) {
  Values out(c.from);
  if (c.to != DType::kF64)
    for (uint64_t code : patterns(c.to)) {
      Exact low = number_of(c.to, code);
      out.around((low + number_of(c.to, code + 1)) / 2);
      out.around(low);
    }
  for (int bits = 0; bits <= 64; ++bits)  // integers that a double between would round
    for (Exact part : {Exact(0), std::ldexp(Exact(1), -8), std::ldexp(Exact(1), -24), std::ldexp(Exact(1), -53)})
      out.around(std::ldexp(1 + part, bits));
  if (is_float(c.from))
    for (double v : {HUGE_VAL, -HUGE_VAL, std::nan(""), -0.0, 1e300, -1e300, 5e-324, 1e-40}) out.number(v);
  return out.take();
}

Literal rounded_once(const Literal& x, DType to) {
  Literal out(to, x.shape());
  for (int64_t i = 0; i < x.size(); ++i) {
    Exact v = value_of(x, i), size = std::fabs(v);
    if (std::isnan(v) || std::isinf(v)) {
      out.set(i, static_cast<double>(v));
      continue;
    }
    uint64_t code = end_of(to);
    if (size < number_of(to, code)) {
      code = below(to, size);
      Exact down = size - number_of(to, code), up = number_of(to, code + 1) - size;
      code += up < down || (up == down && code % 2 == 1);
    }
    double number = get_float(to, &code, 0);
    out.set(i, std::signbit(v) ? -number : number);
  }
  return out;
}

std::string rounding_difference(const Literal& x, const Literal& want, const Literal& got) {
  for (int64_t i = 0; i < want.size(); ++i) {
    double a = want.get(i), b = got.get(i);
    if ((std::isnan(a) && std::isnan(b)) || (a == b && std::signbit(a) == std::signbit(b))) continue;
    return fmt::format("{} {:.20Lg} to {}: {} in place of {}", name_of(x.dtype()), value_of(x, i),
                       name_of(want.dtype()), b, a);
  }
  return "";
}

ir::Module conversions_module(const std::vector<Conversion>& conversions, bool scalars) {
  ir::Module module;
  module.stage = ir::Stage::kFlat;
  for (Conversion c : conversions) {
    std::string name = entry_name(c);
    ir::FunctionBuilder b(name, ops::all_ops());
    ir::Shape shape = scalars ? ir::Shape{} : ir::Shape{values_near_ties(c).size()};
    ir::Function f = b.finish({ir::convert(b.param("x", ir::Type(c.from, shape)), c.to)});
    ir::Entry entry{name, name, {}, {}, {}, {}};
    entry.inputs.push_back("x");
    entry.outputs.push_back("y");
    module.entries.push_back(std::move(entry));
    module.functions.push_back(std::make_shared<ir::Function>(std::move(f)));
  }
  return module;
}

}  // namespace nabla::conformance
