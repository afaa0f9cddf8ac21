// Templates of kernel_ir's procedures on matrices and the Fourier transform, after procedures.h. A row is one matrix
// (or one sequence), row-major, of a batch [outer]; all of them compute in f64. Meanings: ir/kernel_ir/
// procedure_linalg.cc and procedure_fft.cc.

// Eight sums side by side, which the compiler keeps in vectors.
NB_FN double nb_inner(const double* a, const double* b, long n) {
  double s[8] = {};
  long i = 0;
  for (; i + 8 <= n; i += 8)
    for (int l = 0; l < 8; ++l) s[l] += a[i + l] * b[i + l];
  double sum = ((s[0] + s[4]) + (s[2] + s[6])) + ((s[1] + s[5]) + (s[3] + s[7]));
  for (; i < n; ++i) sum += a[i] * b[i];
  return sum;
}
// y += f x
NB_FN void nb_add_times(double* y, double f, const double* x, long n) {
  for (long i = 0; i < n; ++i) y[i] += f * x[i];
}
// x' = c x - s y, y' = s x + c y
NB_FN void nb_rotate(double* x, double* y, double c, double s, long n) {
  for (long i = 0; i < n; ++i) {
    double a = x[i], b = y[i];
    x[i] = c * a - s * b;
    y[i] = s * a + c * b;
  }
}
NB_FN void nb_exchange(double* a, double* b, long n) {
  for (long i = 0; i < n; ++i) {
    double t = a[i];
    a[i] = b[i], b[i] = t;
  }
}
template <class T> NB_FN T nb_from_double(double x) {
  using W = nb_wide<T>;
  return nb_narrow(T{}, W(x));
}
template <class T> NB_FN double nb_to_double(T x) { return double(nb_widen(x)); }

template <class T>
NB_FN void nb_cholesky(char* scratch, long row, long last, long n, long, T* y, const T* x) {
  double* l = (double*)scratch;
  for (; row < last; ++row) {
    const T* a = x + row * n * n;
    T* out = y + row * n * n;
    bool positive = true;
    for (long i = 0; i < n && positive; ++i)
      for (long j = 0; j <= i; ++j) {
        double rest = nb_to_double(a[i * n + j]) - nb_inner(l + i * n, l + j * n, j);
        if (i == j) positive = rest > 0 && rest < __builtin_inf();
        l[i * n + j] = i == j ? __builtin_sqrt(rest) : rest / l[j * n + j];
      }
    for (long i = 0; i < n; ++i)
      for (long j = 0; j < n; ++j)
        out[i * n + j] = nb_from_double<T>(j > i ? 0.0 : positive ? l[i * n + j] : __builtin_nan(""));
  }
}

// Right-hand sides lie as [n, k]; a system from the right is the transposed one from the left.
template <class T>
NB_FN void nb_triangular_solve(char* scratch, long row, long last, long n, long, long k, long left, long lower,
                               long transpose, long unit, T* y, const T* x, const T* rhs) {
  double *t = (double*)scratch, *v = t + n * n;
  bool turned = bool(transpose) == bool(left), down = bool(lower) != turned;
  for (; row < last; ++row) {
    const T *a = x + row * n * n, *b = rhs + row * n * k;
    T* out = y + row * n * k;
    for (long i = 0; i < n; ++i)
      for (long j = 0; j < n; ++j) t[i * n + j] = nb_to_double(turned ? a[j * n + i] : a[i * n + j]);
    for (long i = 0; i < n; ++i)
      for (long c = 0; c < k; ++c) v[i * k + c] = nb_to_double(left ? b[i * k + c] : b[c * n + i]);
    for (long s = 0; s < n; ++s) {
      long i = down ? s : n - 1 - s;
      for (long j = down ? 0 : i + 1; j < (down ? i : n); ++j)
        nb_add_times(v + i * k, -t[i * n + j], v + j * k, k);
      if (!unit)
        for (long c = 0; c < k; ++c) v[i * k + c] /= t[i * n + i];
    }
    for (long i = 0; i < n; ++i)
      for (long c = 0; c < k; ++c) out[left ? i * k + c : c * n + i] = nb_from_double<T>(v[i * k + c]);
  }
}

// v holds the columns one after the other: above the diagonal of R, from it on the reflectors.
NB_FN void nb_reflect(double* x, const double* v, double scale, long n) {
  nb_add_times(x, -scale * nb_inner(v, x, n), v, n);
}
template <class T>
NB_FN void nb_qr(char* scratch, long row, long last, long m, long, long n, T* q, T* r, const T* x) {
  double *v = (double*)scratch, *diagonal = v + m * n, *scale = diagonal + n, *column = scale + n;
  for (; row < last; ++row) {
    for (long j = 0; j < n; ++j)
      for (long i = 0; i < m; ++i) v[j * m + i] = nb_to_double(x[(row * m + i) * n + j]);
    for (long j = 0; j < n; ++j) {
      double *p = v + j * m + j, norm = __builtin_sqrt(nb_inner(p, p, m - j));
      diagonal[j] = *p >= 0 ? -norm : norm;
      *p -= diagonal[j];
      double length = nb_inner(p, p, m - j);
      scale[j] = length == 0 ? 0 : 2 / length;
      for (long c = j + 1; c < n; ++c) nb_reflect(v + c * m + j, p, scale[j], m - j);
    }
    for (long j = 0; j < n; ++j) {
      double sign = diagonal[j] < 0 ? -1 : 1;
      for (long c = 0; c < n; ++c)
        r[(row * n + j) * n + c] = nb_from_double<T>(c < j ? 0.0 : sign * (c == j ? diagonal[j] : v[c * m + j]));
      for (long i = 0; i < m; ++i) column[i] = i == j ? sign : 0.0;
      for (long k = j; k >= 0; --k) nb_reflect(column + k, v + k * m + k, scale[k], m - k);
      for (long i = 0; i < m; ++i) q[(row * m + i) * n + j] = nb_from_double<T>(column[i]);
    }
  }
}

template <class T, class I>
NB_FN void nb_lu(char* scratch, long row, long last, long n, long, T* y, I* permutation, const T* x) {
  double* a = (double*)scratch;
  for (; row < last; ++row) {
    I* order = permutation + row * n;
    for (long i = 0; i < n * n; ++i) a[i] = nb_to_double(x[row * n * n + i]);
    for (long i = 0; i < n; ++i) order[i] = I(i);
    for (long k = 0; k < n; ++k) {
      long best = k;
      for (long i = k + 1; i < n; ++i)
        if (__builtin_fabs(a[i * n + k]) > __builtin_fabs(a[best * n + k])) best = i;
      if (best != k) {
        I o = order[k];
        order[k] = order[best], order[best] = o;
        nb_exchange(a + k * n, a + best * n, n);
      }
      double pivot = a[k * n + k];
      if (pivot == 0) continue;
      for (long i = k + 1; i < n; ++i) {
        double f = a[i * n + k] /= pivot;
        nb_add_times(a + i * n + k + 1, -f, a + k * n + k + 1, n - k - 1);
      }
    }
    for (long i = 0; i < n * n; ++i) y[row * n * n + i] = nb_from_double<T>(a[i]);
  }
}

// The rotation that makes the off-diagonal element 0 between diagonal elements a and b.
NB_FN void nb_jacobi(double a, double b, double off, double* c, double* s) {
  double zeta = (b - a) / (2 * off), size = __builtin_fabs(zeta) + __builtin_sqrt(1 + zeta * zeta);
  double t = zeta < 0 ? -1 / size : 1 / size;
  *c = 1 / __builtin_sqrt(1 + t * t), *s = *c * t;
}
// -1 where the largest magnitude of v, the first of those that tie, is negative.
NB_FN double nb_sign_of_largest(const double* v, long n) {
  long best = 0;
  for (long i = 1; i < n; ++i)
    if (__builtin_fabs(v[i]) > __builtin_fabs(v[best])) best = i;
  return n > 0 && v[best] < 0 ? -1 : 1;
}
// Brings the smallest (the largest where descending) of keys[at..n) to `at`, and returns where it was.
NB_FN long nb_extreme_from(const double* keys, long at, long n, bool descending) {
  long best = at;
  for (long i = at + 1; i < n; ++i)
    if (descending ? keys[i] > keys[best] : keys[i] < keys[best]) best = i;
  return best;
}

template <class T>
NB_FN void nb_eigh(char* scratch, long row, long last, long n, long, T* values, T* vectors, const T* x) {
  double *a = (double*)scratch, *v = a + n * n, *w = v + n * n;  // row i of v is an eigenvector
  for (; row < last; ++row) {
    double total = 0, poison = 0;  // NaN where anything is not finite
    for (long i = 0; i < n; ++i)
      for (long j = 0; j <= i; ++j) {
        double e = a[i * n + j] = a[j * n + i] = nb_to_double(x[(row * n + i) * n + j]);
        total += e * e, poison += e - e;
      }
    for (long i = 0; i < n * n; ++i) v[i] = i / n == i % n;
    for (int sweep = 0; sweep < 60; ++sweep) {
      double off = 0;
      for (long i = 0; i < n; ++i) off += nb_inner(a + i * n, a + i * n, i);
      if (!(off > 1e-32 * total)) break;
      for (long p = 0; p < n; ++p)
        for (long q = p + 1; q < n; ++q) {
          double c, s, between = a[p * n + q];
          if (between == 0) continue;
          nb_jacobi(a[p * n + p], a[q * n + q], between, &c, &s);
          nb_rotate(a + p * n, a + q * n, c, s, n);
          nb_rotate(v + p * n, v + q * n, c, s, n);
          for (long i = 0; i < n; ++i) nb_rotate(a + i * n + p, a + i * n + q, c, s, 1);
          a[p * n + q] = a[q * n + p] = 0;
        }
    }
    for (long i = 0; i < n; ++i) w[i] = a[i * n + i];
    for (long k = 0; k < n; ++k) {
      long best = nb_extreme_from(w, k, n, false);
      nb_exchange(w + k, w + best, 1);
      if (best != k) nb_exchange(v + k * n, v + best * n, n);
      double sign = nb_sign_of_largest(v + k * n, n);
      values[row * n + k] = nb_from_double<T>(w[k] + poison);
      for (long i = 0; i < n; ++i)
        vectors[(row * n + i) * n + k] = nb_from_double<T>(sign * v[k * n + i] + poison);
    }
  }
}

// Column `at` of length p becomes a unit vector orthogonal to the `at` ones before it.
NB_FN void nb_complete(double* columns, long at, long p) {
  double* column = columns + at * p;
  long best = 0;
  double least = 2;
  for (long i = 0; i < p; ++i) {
    double covered = 0;
    for (long j = 0; j < at; ++j) covered += columns[j * p + i] * columns[j * p + i];
    if (covered < least) least = covered, best = i;
  }
  for (long i = 0; i < p; ++i) column[i] = i == best;
  for (int again = 0; again < 2; ++again) {
    for (long j = 0; j < at; ++j) nb_add_times(column, -nb_inner(columns + j * p, column, p), columns + j * p, p);
    double norm = __builtin_sqrt(nb_inner(column, column, p));
    for (long i = 0; i < p; ++i) column[i] /= norm;
  }
}
// The longer side's vectors are the columns of g, which rotations make orthogonal; v collects the rotations.
template <class T>
NB_FN void nb_svd(char* scratch, long row, long last, long m, long, long n, T* u, T* values, T* vh, const T* x) {
  bool tall = m >= n;
  long p = tall ? m : n, k = tall ? n : m;
  double *g = (double*)scratch, *v = g + p * k, *w = v + k * k;
  for (; row < last; ++row) {
    double poison = 0;
    for (long i = 0; i < m; ++i)
      for (long j = 0; j < n; ++j) {
        double e = nb_to_double(x[(row * m + i) * n + j]);
        g[tall ? j * p + i : i * p + j] = e;
        poison += e - e;
      }
    for (long i = 0; i < k * k; ++i) v[i] = i / k == i % k;
    double tolerance = 4.5e-16 * __builtin_sqrt(double(p));
    bool turning = poison == 0;
    for (int sweep = 0; sweep < 60 && turning; ++sweep) {
      turning = false;
      for (long a = 0; a < k; ++a)
        for (long b = a + 1; b < k; ++b) {
          double *ga = g + a * p, *gb = g + b * p, c, s, between = nb_inner(ga, gb, p);
          double na = nb_inner(ga, ga, p), nb = nb_inner(gb, gb, p);
          if (!(__builtin_fabs(between) > tolerance * __builtin_sqrt(na) * __builtin_sqrt(nb))) continue;
          turning = true;
          nb_jacobi(na, nb, between, &c, &s);
          nb_rotate(ga, gb, c, s, p);
          nb_rotate(v + a * k, v + b * k, c, s, k);
        }
    }
    for (long c = 0; c < k; ++c) w[c] = __builtin_sqrt(nb_inner(g + c * p, g + c * p, p));
    for (long c = 0; c < k; ++c) {
      long best = nb_extreme_from(w, c, k, true);
      nb_exchange(w + c, w + best, 1);
      if (best != c) nb_exchange(g + c * p, g + best * p, p), nb_exchange(v + c * k, v + best * k, k);
      if (w[c] <= 2.3e-16 * double(p) * w[0]) nb_complete(g, c, p);
      else for (long i = 0; i < p; ++i) g[c * p + i] /= w[c];
      const double *left = tall ? g + c * p : v + c * k, *right = tall ? v + c * k : g + c * p;
      double sign = nb_sign_of_largest(left, m);
      values[row * k + c] = nb_from_double<T>(w[c] + poison);
      for (long i = 0; i < m; ++i) u[(row * m + i) * k + c] = nb_from_double<T>(sign * left[i] + poison);
      for (long j = 0; j < n; ++j) vh[(row * k + c) * n + j] = nb_from_double<T>(sign * right[j] + poison);
    }
  }
}

// ---- The discrete Fourier transform
struct nb_complex { double re, im; };
NB_FN nb_complex nb_times(nb_complex a, nb_complex b) { return {a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re}; }
// exp(-2 pi i j / n) with the angle reduced to an eighth of the circle, so that it is exact where it can be.
NB_FN nb_complex nb_root(unsigned long j, unsigned long n) {
  unsigned long eighth = 8 * j / n, rest = 8 * j - eighth * n;
  if (eighth & 1) rest = n - rest;
  double angle = 0.78539816339744831 * (double(rest) / double(n));
  double c = __builtin_cos(angle), s = __builtin_sin(angle);
  if ((eighth + 1) & 2) {
    double t = c;
    c = s, s = t;
  }
  return {eighth >= 2 && eighth < 6 ? -c : c, eighth < 4 ? -s : s};
}
// Stockham's algorithm: n is the length left, m = n / R, s what is done; roots of unity by R in `turn`. One butterfly of
// its stage, p of m and q of s.
template <int R>
NB_FN void nb_fft_butterfly(long p, long q, long m, long s, const nb_complex* turn, const nb_complex* roots,
                            const nb_complex* x, nb_complex* y) {
  nb_complex a[R];
  for (int t = 0; t < R; ++t) a[t] = x[q + s * (p + m * t)];
  for (int t = 0; t < R; ++t) {
    nb_complex b = a[0];
    if constexpr (R == 2) {
      b = t ? nb_complex{a[0].re - a[1].re, a[0].im - a[1].im} : nb_complex{a[0].re + a[1].re, a[0].im + a[1].im};
    } else {
      for (int k = 1; k < R; ++k) {
        nb_complex c = nb_times(a[k], turn[k * t % R]);
        b.re += c.re, b.im += c.im;
      }
    }
    y[q + s * (R * p + t)] = t == 0 ? b : nb_times(b, roots[p * t * s]);
  }
}
template <int R>
NB_FN void nb_fft_stage(long n, long s, const nb_complex* roots, const nb_complex* x, nb_complex* y) {
  long m = n / R;
  nb_complex turn[R];
  for (int t = 0; t < R; ++t) turn[t] = roots[t * s * m];
  for (long p = 0; p < m; ++p)
    for (long q = 0; q < s; ++q) nb_fft_butterfly<R>(p, q, m, s, turn, roots, x, y);
}
// In x, with y to help; n has no prime factor beyond 5.
NB_FN void nb_fft_smooth(long length, const nb_complex* roots, nb_complex* x, nb_complex* y) {
  nb_complex *from = x, *to = y;
  for (long n = length, s = 1; n > 1;) {
    int radix = n % 4 == 0 ? 4 : n % 2 == 0 ? 2 : n % 3 == 0 ? 3 : 5;
    if (radix == 4) nb_fft_stage<4>(n, s, roots, from, to);
    else if (radix == 2) nb_fft_stage<2>(n, s, roots, from, to);
    else if (radix == 3) nb_fft_stage<3>(n, s, roots, from, to);
    else nb_fft_stage<5>(n, s, roots, from, to);
    nb_complex* t = from;
    from = to, to = t;
    n /= radix, s *= radix;
  }
  if (from != x)
    for (long i = 0; i < length; ++i) x[i] = from[i];
}
NB_FN bool nb_is_smooth(long n) {
  for (int p = 2; p <= 5; ++p)
    while (n > 1 && n % p == 0) n /= p;
  return n <= 1;
}
// Bluestein: j k = (j^2 + k^2 - (k - j)^2) / 2 makes any length a convolution, which a power of two holds.
NB_FN void nb_bluestein(long n, long m, const nb_complex* roots, const nb_complex* chirp, const nb_complex* kernel,
                         nb_complex* x, nb_complex* y) {
  for (long i = 0; i < n; ++i) x[i] = nb_times(x[i], chirp[i]);
  for (long i = n; i < m; ++i) x[i] = {};
  nb_fft_smooth(m, roots, x, y);
  for (long i = 0; i < m; ++i) {
    nb_complex c = nb_times(x[i], kernel[i]);
    x[i] = {c.im, c.re};  // exchanged on both sides, the transform is the inverse one
  }
  nb_fft_smooth(m, roots, x, y);
  for (long i = 0; i < n; ++i) x[i] = nb_times({x[i].im / double(m), x[i].re / double(m)}, chirp[i]);
}
template <class T>
NB_FN void nb_fft(char* scratch, long row, long last, long n, long, long inverse, T* yre, T* yim, const T* xre,
                  const T* xim) {
  if (inverse) {
    T* y = yre;
    yre = yim, yim = y;
    const T* x = xre;
    xre = xim, xim = x;
  }
  bool smooth = nb_is_smooth(n);
  long m = n;
  if (!smooth)
    for (m = 1; m < 2 * n - 1;) m *= 2;
  nb_complex *roots = (nb_complex*)scratch, *x = roots + m, *y = x + m, *kernel = y + m, *chirp = kernel + m;
  for (long i = 0; i < m; ++i) roots[i] = nb_root(i, m);
  if (!smooth) {
    for (long i = 0; i < m; ++i) kernel[i] = {};
    for (long i = 0; i < n; ++i) {
      chirp[i] = nb_root((unsigned long)i * i % (2 * n), 2 * n);
      kernel[i] = kernel[(m - i) % m] = {chirp[i].re, -chirp[i].im};
    }
    nb_fft_smooth(m, roots, kernel, y);
  }
  for (; row < last; ++row) {
    for (long i = 0; i < n; ++i) x[i] = {nb_to_double(xre[row * n + i]), nb_to_double(xim[row * n + i])};
    if (smooth) nb_fft_smooth(n, roots, x, y);
    else nb_bluestein(n, m, roots, chirp, kernel, x, y);
    for (long i = 0; i < n; ++i) {
      yre[row * n + i] = nb_from_double<T>(x[i].re);
      yim[row * n + i] = nb_from_double<T>(x[i].im);
    }
  }
}
