// The meaning of the Fourier transform: by halves for powers of two, otherwise as a convolution of such a length.
#include <cmath>
#include <complex>
#include <numbers>

#include "ir/kernel_ir/procedure_families.h"

namespace nabla::kernel_ir {
namespace {

using Numbers = std::span<const int64_t>;
using Complex = std::complex<double>;
using Sequence = std::vector<Complex>;

constexpr NumberNames<1> kFourierNumbers = {"inverse"};

/// exp(-2 pi i j / n)
Complex root(int64_t j, int64_t n) {
  return std::polar(1.0, -2 * std::numbers::pi * static_cast<double>(j) / static_cast<double>(n));
}

Sequence by_halves(const Sequence& x) {
  int64_t n = static_cast<int64_t>(x.size());
  if (n == 1) return x;
  Sequence parts[2];
  for (int64_t i = 0; i < n; ++i) parts[i % 2].push_back(x[i]);
  Sequence even = by_halves(parts[0]), odd = by_halves(parts[1]), y(n);
  for (int64_t k = 0; k < n / 2; ++k) {
    Complex turned = root(k, n) * odd[k];
    y[k] = even[k] + turned;
    y[k + n / 2] = even[k] - turned;
  }
  return y;
}

Sequence transform(const Sequence& x) {
  int64_t n = static_cast<int64_t>(x.size()), m = 1;
  if (n == 0 || (n & (n - 1)) == 0) return n == 0 ? x : by_halves(x);
  while (m < 2 * n - 1) m *= 2;
  // j k = (j^2 + k^2 - (k - j)^2) / 2
  auto chirp = [&](int64_t i) { return root(i * i % (2 * n), 2 * n); };
  Sequence a(m), b(m);
  for (int64_t i = 0; i < n; ++i) {
    a[i] = x[i] * chirp(i);
    b[i] = b[(m - i) % m] = std::conj(chirp(i));
  }
  a = by_halves(a), b = by_halves(b);
  for (int64_t i = 0; i < m; ++i) a[i] = std::conj(a[i] * b[i]);
  a = by_halves(a);
  Sequence y(n);
  for (int64_t k = 0; k < n; ++k) y[k] = std::conj(a[k]) / static_cast<double>(m) * chirp(k);
  return y;
}

void fft(Numbers n, std::span<const Literal* const> in, std::span<Literal* const> out) {
  bool inverse = n[place_of(kFourierNumbers, "inverse")];
  for (int64_t o = 0; o < n[kOuter]; ++o) {
    Sequence x;
    for (int64_t i = o * n[kCount]; i < (o + 1) * n[kCount]; ++i)
      x.emplace_back(in[0]->get(i), inverse ? -in[1]->get(i) : in[1]->get(i));
    Sequence y = transform(x);
    for (int64_t i = 0; i < n[kCount]; ++i) {
      out[0]->set(o * n[kCount] + i, y[i].real());
      out[1]->set(o * n[kCount] + i, inverse ? -y[i].imag() : y[i].imag());
    }
  }
}

/// The length that is transformed: n itself where its prime factors are 2, 3 and 5.
int64_t inner_length(int64_t n) {
  int64_t rest = n, m = 1;
  for (int p : {2, 3, 5})
    while (rest > 1 && rest % p == 0) rest /= p;
  if (rest <= 1) return n;
  while (m < 2 * n - 1) m *= 2;
  return m;
}

/// Complex numbers: roots of unity and two sequences; and, of a convolution, its kernel and the chirp.
int64_t scratch(Numbers n) {
  int64_t m = inner_length(n[kCount]);
  return 16 * (m == n[kCount] ? 3 * m : 4 * m + n[kCount]);
}

double work(Numbers n) {
  double m = static_cast<double>(inner_length(n[kCount]));
  return 4 * m * std::log2(m + 2);
}

// Butterflies of one stage.
int64_t butterflies(Numbers n) { return n[kCount] >= 64 ? n[kCount] / 2 : 0; }

const ProcedureDef kFourierProcedures[] = {
    {"fft", Algorithm::kFourier, list_of(kFourierNumbers), scratch, work, fft, false, butterflies}};

}  // namespace

std::span<const ProcedureDef> fft_procedures() { return kFourierProcedures; }

}  // namespace nabla::kernel_ir
