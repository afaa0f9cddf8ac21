#include "ir/kernel_ir/scalar.h"

#include <array>
#include <cmath>
#include <limits>

#include "ir/kernel_ir/philox.h"

namespace nabla::kernel_ir {
namespace {

using F = std::span<const double>;
using I = std::span<const int64_t>;

double nan_max(F x) { return std::isnan(x[0]) || std::isnan(x[1]) ? NAN : std::fmax(x[0], x[1]); }
double nan_min(F x) { return std::isnan(x[0]) || std::isnan(x[1]) ? NAN : std::fmin(x[0], x[1]); }
double sign(F x) { return std::isnan(x[0]) ? x[0] : static_cast<double>((x[0] > 0) - (x[0] < 0)); }
int bits_of(DType d) { return d == DType::kBool ? 1 : 8 * bytes_of(d); }
bool less(DType d, int64_t a, int64_t b) {
  return is_unsigned(d) ? static_cast<uint64_t>(a) < static_cast<uint64_t>(b) : a < b;
}
// Integer division truncates; by zero it gives -1 (all bits set), and the most negative value over -1 gives itself,
// as in XLA.
int64_t divide(DType d, I x) {
  if (x[1] == 0) return -1;
  if (is_unsigned(d)) return static_cast<int64_t>(static_cast<uint64_t>(x[0]) / static_cast<uint64_t>(x[1]));
  return x[1] == -1 ? static_cast<int64_t>(-static_cast<uint64_t>(x[0])) : x[0] / x[1];
}
int64_t remainder(DType d, I x) {
  if (x[1] == 0) return x[0];
  if (is_unsigned(d)) return static_cast<int64_t>(static_cast<uint64_t>(x[0]) % static_cast<uint64_t>(x[1]));
  return x[1] == -1 ? 0 : x[0] % x[1];
}
int64_t int_pow(DType d, I x) {  // negative exponents: 0 unless the base is 1 or -1
  if (is_signed(d) && x[1] < 0) return x[0] == 1 ? 1 : x[0] == -1 ? (x[1] % 2 ? -1 : 1) : 0;
  uint64_t result = 1, base = static_cast<uint64_t>(x[0]);
  for (uint64_t e = static_cast<uint64_t>(x[1]); e; e >>= 1, base *= base)
    if (e & 1) result *= base;
  return static_cast<int64_t>(result);
}
int64_t shift_left(DType d, I x) {
  return x[1] < 0 || x[1] >= bits_of(d) ? 0 : static_cast<int64_t>(static_cast<uint64_t>(x[0]) << x[1]);
}
int64_t shift_right(DType d, I x) {
  if (x[1] < 0 || x[1] >= bits_of(d)) return is_signed(d) && x[0] < 0 ? -1 : 0;
  return is_unsigned(d) ? static_cast<int64_t>(static_cast<uint64_t>(x[0]) >> x[1]) : x[0] >> x[1];
}
// The bits of x, as many as the dtype has.
uint64_t bits(DType d, int64_t x) { return static_cast<uint64_t>(x) & (~uint64_t{0} >> (64 - bits_of(d))); }
int64_t shift_right_logical(DType d, I x) {
  return x[1] < 0 || x[1] >= bits_of(d) ? 0 : static_cast<int64_t>(bits(d, x[0]) >> x[1]);
}

// By Newton's method on erf, or on erfc where erf is close to 1; the first guess is the asymptotic one.
double erfinv(double x) {
  if (std::isnan(x) || std::fabs(x) > 1) return NAN;
  if (std::fabs(x) == 1) return x * INFINITY;
  double a = std::fabs(x), rest = 1 - a, w = -std::log(rest * (1 + a)), y = a;
  if (a > 0.7) {
    y = std::sqrt(w);
    for (int i = 0; i < 3; ++i) y = std::sqrt(w + std::log(2.0) - std::log(y * std::sqrt(std::acos(-1.0))));
  }
  for (int i = 0; i < 30; ++i) {
    double slope = 2 / std::sqrt(std::acos(-1.0)) * std::exp(-y * y);
    double error = a > 0.5 ? rest - std::erfc(y) : std::erf(y) - a, step = error / slope;
    y -= step / (1 + y * step);
    if (std::fabs(step) <= 1e-16 * y) break;
  }
  return std::copysign(y, x);
}

#define FLOAT(name, cost, expression)                                                    \
  ScalarFn {                                                                             \
    name, 1, ResultKind::kSame, +[](F x) -> double { return expression; }, nullptr, cost \
  }
#define COMPARE(name, op)                                                                                   \
  ScalarFn {                                                                                                \
    name, 2, ResultKind::kBool, +[](F x) -> double { return x[0] op x[1]; }, +[](DType d, I x) -> int64_t { \
      return is_unsigned(d) ? static_cast<uint64_t>(x[0]) op static_cast<uint64_t>(x[1]) : x[0] op x[1];    \
    }                                                                                                       \
  }

constexpr ResultKind kSame = ResultKind::kSame, kBool = ResultKind::kBool, kFirst = ResultKind::kFirst;

const ScalarFn kRows[] = {
    {"neg", 1, kSame, +[](F x) { return -x[0]; },
     +[](DType, I x) { return static_cast<int64_t>(-static_cast<uint64_t>(x[0])); }},
    {"abs", 1, kSame, +[](F x) { return std::fabs(x[0]); },
     +[](DType d, I x) {
       return is_signed(d) && x[0] < 0 ? static_cast<int64_t>(-static_cast<uint64_t>(x[0])) : x[0];
     }},
    {"sign", 1, kSame, sign,
     +[](DType d, I x) { return is_unsigned(d) ? int64_t{x[0] != 0} : int64_t{(x[0] > 0) - (x[0] < 0)}; }},
    FLOAT("exp", 16, std::exp(x[0])),
    FLOAT("expm1", 20, std::expm1(x[0])),
    FLOAT("log", 20, std::log(x[0])),
    FLOAT("log1p", 24, std::log1p(x[0])),
    FLOAT("sqrt", 6, std::sqrt(x[0])),
    FLOAT("rsqrt", 8, 1 / std::sqrt(x[0])),
    FLOAT("sin", 24, std::sin(x[0])),
    FLOAT("cos", 24, std::cos(x[0])),
    FLOAT("tan", 40, std::tan(x[0])),
    FLOAT("tanh", 24, std::tanh(x[0])),
    FLOAT("erf", 32, std::erf(x[0])),
    FLOAT("erfc", 50, std::erfc(x[0])),
    FLOAT("erfinv", 60, erfinv(x[0])),
    FLOAT("lgamma", 200, std::lgamma(x[0])),
    FLOAT("exp2", 16, std::exp2(x[0])),
    FLOAT("log2", 22, std::log2(x[0])),
    FLOAT("cbrt", 60, std::cbrt(x[0])),
    FLOAT("asin", 30, std::asin(x[0])),
    FLOAT("acos", 30, std::acos(x[0])),
    FLOAT("atan", 24, std::atan(x[0])),
    FLOAT("sinh", 30, std::sinh(x[0])),
    FLOAT("cosh", 26, std::cosh(x[0])),
    FLOAT("asinh", 40, std::asinh(x[0])),
    FLOAT("acosh", 40, std::acosh(x[0])),
    FLOAT("atanh", 36, std::atanh(x[0])),
    FLOAT("trunc", 1, std::trunc(x[0])),
    FLOAT("floor", 1, std::floor(x[0])),
    FLOAT("ceil", 1, std::ceil(x[0])),
    FLOAT("round", 1, std::nearbyint(x[0])),  // ties to even
    {"is_finite", 1, kBool, +[](F x) -> double { return std::isfinite(x[0]); }, +[](DType, I) { return int64_t{1}; }},
    {"is_nan", 1, kBool, +[](F x) -> double { return std::isnan(x[0]); }, +[](DType, I) { return int64_t{0}; }},
    {"not", 1, kSame, nullptr, +[](DType d, I x) { return d == DType::kBool ? int64_t{!x[0]} : ~x[0]; }},
    {"add", 2, kSame, +[](F x) { return x[0] + x[1]; },
     +[](DType, I x) { return static_cast<int64_t>(static_cast<uint64_t>(x[0]) + static_cast<uint64_t>(x[1])); }},
    {"sub", 2, kSame, +[](F x) { return x[0] - x[1]; },
     +[](DType, I x) { return static_cast<int64_t>(static_cast<uint64_t>(x[0]) - static_cast<uint64_t>(x[1])); }},
    {"mul", 2, kSame, +[](F x) { return x[0] * x[1]; },
     +[](DType, I x) { return static_cast<int64_t>(static_cast<uint64_t>(x[0]) * static_cast<uint64_t>(x[1])); }},
    {"div", 2, kSame, +[](F x) { return x[0] / x[1]; }, divide, 4},
    {"rem", 2, kSame, +[](F x) { return std::fmod(x[0], x[1]); }, remainder, 40},
    {"pow", 2, kSame, +[](F x) { return std::pow(x[0], x[1]); }, int_pow, 60},
    {"atan2", 2, kSame, +[](F x) { return std::atan2(x[0], x[1]); }, nullptr, 60},
    {"maximum", 2, kSame, nan_max, +[](DType d, I x) { return less(d, x[0], x[1]) ? x[1] : x[0]; }},
    {"minimum", 2, kSame, nan_min, +[](DType d, I x) { return less(d, x[1], x[0]) ? x[1] : x[0]; }},
    {"and", 2, kSame, nullptr, +[](DType, I x) { return x[0] & x[1]; }},
    {"or", 2, kSame, nullptr, +[](DType, I x) { return x[0] | x[1]; }},
    {"xor", 2, kSame, nullptr, +[](DType, I x) { return x[0] ^ x[1]; }},
    {"shift_left", 2, kSame, nullptr, shift_left},
    {"shift_right", 2, kSame, nullptr, shift_right},  // arithmetic on signed types
    {"shift_right_logical", 2, kSame, nullptr, shift_right_logical},
    {"popcount", 1, kSame, nullptr, +[](DType d, I x) { return int64_t{__builtin_popcountll(bits(d, x[0]))}; }},
    {"clz", 1, kSame, nullptr, +[](DType d, I x) {
       uint64_t v = bits(d, x[0]);
       return v == 0 ? int64_t{bits_of(d)} : int64_t{__builtin_clzll(v) - (64 - bits_of(d))};
     }},
    COMPARE("eq", ==),
    COMPARE("ne", !=),
    COMPARE("lt", <),
    COMPARE("le", <=),
    COMPARE("gt", >),
    COMPARE("ge", >=),
    // Index arithmetic, by a positive divisor.
    {"floordiv", 2, kSame, nullptr, +[](DType, I x) { return x[0] / x[1] - (x[0] % x[1] < 0); }, 6},
    {"mod", 2, kSame, nullptr, +[](DType, I x) { return x[0] % x[1] + (x[0] % x[1] < 0 ? x[1] : 0); }, 6},
    // select(bool, a, b) and convert are evaluated by the interpreters themselves: their operands' dtypes differ.
    {"select", 3, kFirst, nullptr, nullptr},
    {"convert", 1, kFirst, nullptr, nullptr, 0},
    {"bitcast", 1, kFirst, nullptr, nullptr},
    // philox(k0: u32, k1: u32, index: i64) -> u32
    {"philox", 3, kFirst, nullptr,
     +[](DType, I x) {
       return static_cast<int64_t>(
           philox_word(static_cast<uint32_t>(x[0]), static_cast<uint32_t>(x[1]), static_cast<uint64_t>(x[2])));
     },
     120},
};
#undef FLOAT
#undef COMPARE

}  // namespace

std::span<const ScalarFn> all_scalars() { return kRows; }

const ScalarFn* find_scalar(std::string_view name) {
  for (const ScalarFn& row : kRows)
    if (row.name == name) return &row;
  return nullptr;
}

std::array<uint32_t, 4> philox_block(uint32_t k0, uint32_t k1, uint64_t block) {
  std::array<uint32_t, 4> c = {static_cast<uint32_t>(block), static_cast<uint32_t>(block >> 32), 0, 0};
  for (int round = 0; round < 10; ++round) {
    uint64_t p0 = uint64_t{0xD2511F53} * c[0], p1 = uint64_t{0xCD9E8D57} * c[2];
    c = {static_cast<uint32_t>(p1 >> 32) ^ c[1] ^ k0, static_cast<uint32_t>(p1),
         static_cast<uint32_t>(p0 >> 32) ^ c[3] ^ k1, static_cast<uint32_t>(p0)};
    k0 += 0x9E3779B9, k1 += 0xBB67AE85;
  }
  return c;
}

uint32_t philox_word(uint32_t k0, uint32_t k1, uint64_t index) { return philox_block(k0, k1, index / 4)[index % 4]; }

void philox_words(uint32_t k0, uint32_t k1, uint64_t first, std::span<uint32_t> words) {
  std::array<uint32_t, 4> block{};
  for (size_t i = 0; i < words.size(); ++i) {
    uint64_t index = first + i;
    if (i == 0 || index % 4 == 0) block = philox_block(k0, k1, index / 4);
    words[i] = block[index % 4];
  }
}

}  // namespace nabla::kernel_ir
