#include "tests/cuda/fake_cublaslt/problem.h"

#include <algorithm>
#include <bit>
#include <chrono>
#include <cmath>
#include <thread>
#include <vector>

#include "runtime/base/diagnostic.h"

namespace nabla::fake_cublaslt {
namespace {

constexpr int kCompute32 = 68, kCompute64 = 70, kComputeTf32 = 77, kReal32 = 0, kReal64 = 1, kE4m3 = 28, kE5m2 = 29;
constexpr uint32_t kRelu = 2, kBias = 4, kGelu = 32;

/// Factors as tensor cores take them: 10 bits of fraction, to nearest even.
double tf32(double x) {
  auto bits = std::bit_cast<uint32_t>(static_cast<float>(x));
  if ((bits & 0x7f800000u) == 0x7f800000u) return x;
  bits += 0xfffu + ((bits >> 13) & 1u);
  return std::bit_cast<float>(bits & ~0x1fffu);
}

/// One matrix of a batch as numbers; `transposed` swaps rows and columns.
template <class T>
std::vector<T> numbers(const Layout& l, const void* at, int batch, bool transposed, bool rounded) {
  DType dtype = DType::kF32;
  dtype_of(l.type, dtype);
  uint64_t rows = transposed ? l.columns : l.rows, columns = transposed ? l.rows : l.columns;
  std::vector<T> out(rows * columns);
  for (uint64_t j = 0; j < l.columns; ++j)
    for (uint64_t i = 0; i < l.rows; ++i) {
      int64_t place = batch * l.stride + static_cast<int64_t>(j) * l.ld + static_cast<int64_t>(i);
      double x = get_float(dtype, at, place);
      out[transposed ? j + i * rows : i + j * rows] = static_cast<T>(rounded ? tf32(x) : x);
    }
  return out;
}

/// A sum with its bias and activation.
template <class T>
T finished(const Desc& desc, DType dtype, T sum, uint64_t row) {
  if (desc.epilogue & kBias) sum += static_cast<T>(get_float(dtype, desc.bias, static_cast<int64_t>(row)));
  if (desc.epilogue & kRelu) sum = sum < 0 ? 0 : sum;
  if (desc.epilogue & kGelu)
    sum = T{0.5} * sum * (1 + std::tanh(T(0.7978845608028654) * (sum + T(0.044715) * sum * sum * sum)));
  return sum;
}

template <class T>
void multiply(const Problem& p) {
  DType dtype = DType::kF32;
  dtype_of(p.d.type, dtype);
  bool rounded = p.desc.compute == kComputeTf32;
  uint64_t m = p.m(), n = p.n(), k = p.k();
  for (int batch = 0; batch < p.d.batch; ++batch) {
    std::vector<T> a = numbers<T>(p.a, p.pa, batch, p.desc.transpose_a != 0, rounded);
    std::vector<T> b = numbers<T>(p.b, p.pb, batch, p.desc.transpose_b != 0, rounded);
    std::vector<T> sums(m);
    for (uint64_t j = 0; j < n; ++j) {
      for (uint64_t i = 0; i < m; ++i) {
        int64_t place = batch * p.d.stride + static_cast<int64_t>(j) * p.d.ld + static_cast<int64_t>(i);
        sums[i] = p.pc == nullptr ? T{0} : static_cast<T>(get_float(dtype, p.pc, place));
      }
      for (uint64_t l = 0; l < k; ++l)
        for (uint64_t i = 0; i < m; ++i) sums[i] += a[l * m + i] * b[j * k + l];
      for (uint64_t i = 0; i < m; ++i) {
        int64_t place = batch * p.d.stride + static_cast<int64_t>(j) * p.d.ld + static_cast<int64_t>(i);
        set_float(dtype, p.pd, place, static_cast<double>(finished(p.desc, dtype, sums[i], i)));
      }
    }
  }
}

std::string fault_of(const Layout& l, const char* name) {
  DType dtype = DType::kF32;
  if (!dtype_of(l.type, dtype)) return fmt::format("{} has type {}", name, l.type);
  if (l.rows == 0 || l.columns == 0) return fmt::format("{} is {}x{}", name, l.rows, l.columns);
  if (l.ld < static_cast<int64_t>(l.rows)) return fmt::format("{} has {} rows, but ld {}", name, l.rows, l.ld);
  if (l.batch < 1) return fmt::format("{} has a batch of {}", name, l.batch);
  return "";
}

/// What the manual asks of products of 8-bit floats; empty: it is so.
std::string fault_of_bytes(const Problem& p) {
  auto is_byte = [](int type) { return type == kE4m3 || type == kE5m2; };
  if (!is_byte(p.a.type) || !is_byte(p.b.type) || p.d.type == kReal64 || is_byte(p.d.type))
    return fmt::format("types {}, {} and {}", p.a.type, p.b.type, p.d.type);
  if (p.a.type == kE5m2 && p.b.type == kE5m2) return "a product of two e5m2";
  if (!p.desc.transpose_a || p.desc.transpose_b) return "a product of 8-bit floats that is not TN";
  const int64_t wide = p.d.type == kReal32 ? 4 : 2;
  if (p.m() % 16 != 0 || p.k() % 16 != 0 || p.a.ld % 16 != 0 || p.b.ld % 16 != 0 || p.d.ld * wide % 16 != 0 || p.a.stride % 16 != 0 ||
      p.b.stride % 16 != 0 || p.d.stride * wide % 16 != 0)
    return fmt::format("a product of 8-bit floats of {}x{}x{}", p.m(), p.n(), p.k());
  if ((p.desc.epilogue & kBias) && p.d.type == kReal32) return "a bias of f32 for 8-bit floats";
  return "";
}

}  // namespace

bool Problem::of_bytes() const { return a.type == kE4m3 || a.type == kE5m2 || b.type == kE4m3 || b.type == kE5m2; }

bool dtype_of(int type, DType& out) {
  switch (type) {
    case 0:
      out = DType::kF32;
      return true;
    case 1:
      out = DType::kF64;
      return true;
    case 2:
      out = DType::kF16;
      return true;
    case 14:
      out = DType::kBF16;
      return true;
    case kE4m3:
      out = DType::kF8E4M3;
      return true;
    case kE5m2:
      out = DType::kF8E5M2;
      return true;
    default:
      return false;
  }
}

uint64_t Layout::bytes() const {
  DType dtype = DType::kF32;
  dtype_of(type, dtype);
  uint64_t last = static_cast<uint64_t>(batch - 1) * static_cast<uint64_t>(stride) +
                  (columns - 1) * static_cast<uint64_t>(ld) + rows;
  return last * static_cast<uint64_t>(bytes_of(dtype));
}

std::string Problem::fault() const {
  for (auto [layout, name] : {std::pair(&a, "A"), std::pair(&b, "B"), std::pair(&d, "D")})
    if (std::string wrong = fault_of(*layout, name); !wrong.empty()) return wrong;
  if (of_bytes()) {
    if (std::string wrong = fault_of_bytes(*this); !wrong.empty()) return wrong;
  } else if (a.type != d.type || b.type != d.type) {
    return fmt::format("types {}, {} and {}", a.type, b.type, d.type);
  }
  if (a.batch != d.batch || b.batch != d.batch) return fmt::format("batches {}, {} and {}", a.batch, b.batch, d.batch);
  bool wide = d.type == kReal64;
  if (desc.scale != (wide ? kReal64 : kReal32)) return fmt::format("scale type {}", desc.scale);
  bool known = wide ? desc.compute == kCompute64
                    : desc.compute == kCompute32 || (desc.compute == kComputeTf32 && d.type == kReal32);
  if (!known) return fmt::format("compute type {} for data of type {}", desc.compute, d.type);
  uint64_t rows = desc.transpose_a ? a.columns : a.rows, columns = desc.transpose_b ? b.rows : b.columns;
  uint64_t inner = desc.transpose_b ? b.columns : b.rows;
  if (rows != m() || columns != n() || inner != k())
    return fmt::format("op(A) is {}x{}, op(B) {}x{}, D {}x{}", rows, k(), inner, columns, m(), n());
  if (d.batch > 1 && d.stride < d.ld * static_cast<int64_t>(d.columns - 1) + static_cast<int64_t>(d.rows))
    return fmt::format("the results of a batch overlap: stride {}", d.stride);
  uint32_t epilogue = desc.epilogue;
  if (epilogue != 1 && (epilogue == 0 || (epilogue & ~(kRelu | kBias | kGelu)) != 0 ||
                        (epilogue & (kRelu | kGelu)) == (kRelu | kGelu) || wide))
    return fmt::format("epilogue {} for data of type {}", epilogue, d.type);
  if ((epilogue & kBias) && desc.bias == nullptr) return "a bias without an address";
  return "";
}

std::atomic<int> cold_products{0};

void Problem::compute() const {
  const int ms = delay_ms + (cold_products > 0 && cold_products-- > 0 ? 6 : 0);
  if (ms > 0) std::this_thread::sleep_for(std::chrono::milliseconds(ms));
  d.type == kReal64 ? multiply<double>(*this) : multiply<float>(*this);
}

}  // namespace nabla::fake_cublaslt
