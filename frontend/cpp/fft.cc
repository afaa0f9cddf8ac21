#include "frontend/cpp/fft.h"

#include "frontend/cpp/emit.h"
#include "frontend/cpp/frame.h"

namespace nabla {
namespace {

Complex transformed(const Complex& x, int64_t axis, bool inverse, const Site& site) {
  AtSite at(site);
  int64_t last = x.re.rank() - 1, place = axis < 0 ? axis + x.re.rank() : axis;
  if (place < 0 || place > last)
    throw error_at(site, Code::kBadAttribute, "fft: there is no axis {} of {}", axis, x.re.type().str());
  auto moved = [&](const Tensor& t, int64_t from, int64_t to) {
    return from == to ? t : moveaxis(Arg(t, site), from, to);
  };
  auto [re, im] = fft(Arg(moved(x.re, place, last), site), Arg(moved(x.im, place, last), site), inverse, site);
  if (inverse) {
    double n = static_cast<double>(x.re.size(static_cast<int>(place), site));
    if (n > 0) re = re / n, im = im / n;
  }
  return {moved(re, last, place), moved(im, last, place)};
}

}  // namespace

Complex operator*(const Complex& a, const Complex& b) { return {a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re}; }
Complex operator+(const Complex& a, const Complex& b) { return {a.re + b.re, a.im + b.im}; }
Complex conj(const Complex& a) { return {a.re, -a.im}; }
Tensor abs(const Complex& a) { return sqrt(a.re * a.re + a.im * a.im); }

Complex fft(const Complex& x, int64_t axis, Site site) { return transformed(x, axis, false, site); }
Complex ifft(const Complex& x, int64_t axis, Site site) { return transformed(x, axis, true, site); }

Complex rfft(const Arg& x, int64_t axis) {
  AtSite at(x);
  if (!x.is_tensor()) throw error_at(x.site(), Code::kMisuse, "rfft: the operand is a number");
  Complex y = fft(Complex{x.tensor(), zeros_like(x)}, axis, x.site());
  int64_t half = x.tensor().size(static_cast<int>(axis)) / 2 + 1;
  return {slice_axis(y.re, axis, 0, half), slice_axis(y.im, axis, 0, half)};
}

Tensor irfft(const Complex& x, int64_t n, int64_t axis, Site site) {
  AtSite at(site);
  int64_t half = x.re.size(static_cast<int>(axis), site);
  if (n < 1 || half != n / 2 + 1)
    throw error_at(site, Code::kShapeMismatch, "irfft: {} elements along axis {} for {} real ones, expected {}", half,
                   axis, n, n / 2 + 1);
  // Elements n/2+1 .. n-1 are the conjugates of (n-1)/2 .. 1. Of a real sequence the first element is real, and with an
  // even length the last one; their imaginary parts are not read.
  int64_t mirrored = (n - 1) / 2, place = counted_from_end(axis, Arg(x.re, site));
  Ints along = {place};
  auto tail = [&](const Tensor& t) { return reverse(slice_axis(t, axis, 1, 1 + mirrored), along); };
  Tensor inner = slice_axis(x.im, axis, 1, 1 + mirrored), edge = zeros_like(slice_axis(x.im, axis, 0, 1));
  std::vector<Tensor> re = {x.re, tail(x.re)}, im = {edge, inner};
  if (n % 2 == 0) im.push_back(edge);
  im.push_back(-tail(x.im));
  return ifft(Complex{concatenate(Args(re, site), place), concatenate(Args(im, site), place)}, axis, site).re;
}

Complex fft2(const Complex& x, Site site) { return fft(fft(x, -1, site), -2, site); }
Complex ifft2(const Complex& x, Site site) { return ifft(ifft(x, -1, site), -2, site); }

Tensor fftfreq(int64_t n, double step, Site site) {
  AtSite at(site);
  Tensor i = iota(Shape{n}, 0, f32);
  return select(lt(i, static_cast<double>((n + 1) / 2)), i, i - static_cast<double>(n)) /
         (static_cast<double>(n) * step);
}

}  // namespace nabla
