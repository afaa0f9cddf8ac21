// Fourier transforms. Complex numbers are pairs of real tensors; the signs and the division by n follow NumPy.
#pragma once

#include "frontend/cpp/array.h"

namespace nabla {

/// Real and imaginary parts, of one type.
struct Complex {
  Tensor re, im;
  template <class V>
  void visit(V&& v) {
    v("re", re);
    v("im", im);
  }
};

Complex operator*(const Complex& a, const Complex& b);
Complex operator+(const Complex& a, const Complex& b);
Complex conj(const Complex& a);
/// The magnitude; its derivative at 0 is NaN.
Tensor abs(const Complex& a);

/// y[k] = sum over j of x[j] exp(-2 pi i j k / n) along `axis`, of any length n.
Complex fft(const Complex& x, int64_t axis = -1, Site site = Site::here());
/// The inverse of fft, divided by n.
Complex ifft(const Complex& x, int64_t axis = -1, Site site = Site::here());
/// The first n / 2 + 1 elements of the transform of a real tensor; the others are their conjugates.
Complex rfft(const Arg& x, int64_t axis = -1);
/// The inverse of rfft: n real numbers along `axis`. E0203 when x does not have n / 2 + 1 elements there.
Tensor irfft(const Complex& x, int64_t n, int64_t axis = -1, Site site = Site::here());
/// The transform along the last two dimensions, and its inverse.
Complex fft2(const Complex& x, Site site = Site::here());
Complex ifft2(const Complex& x, Site site = Site::here());
/// Frequencies of fft's elements: 0, 1, ..., -2, -1, each divided by n step.
Tensor fftfreq(int64_t n, double step = 1, Site site = Site::here());

}  // namespace nabla
