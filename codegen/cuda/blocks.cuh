// Matrices and Fourier transforms by blocks: the templates of codegen/cpu/linalg_procedures.h, whose loops threads share
// out. Scratch memory is a block's own, in global memory, which the caches hold. Everything is computed in f64. Places
// in a row are divided in 32 bits: scratch memory for more than 2^31 elements does not exist.

// Column after column; the factor lies transposed, so that neighbouring threads read neighbouring rows. The diagonal
// stays squared until the end.
template <class T>
NB_FN void nb_block_cholesky(char* scratch, long row, long last, long n, long, T* y, const T* x) {
  double* const l = (double*)scratch;
  for (; row < last; ++row) {
    const T* const a = x + row * n * n;
    T* const out = y + row * n * n;
    bool positive = true;
    for (long j = 0; j < n && positive; ++j) {
      for (long i = j + threadIdx.x; i < n; i += blockDim.x) {
        double rest = nb_to_double(a[i * n + j]);
        for (long k = 0; k < j; ++k) rest -= l[k * n + i] * l[k * n + j];
        l[j * n + i] = rest;
      }
      __syncthreads();
      const double square = l[j * n + j], root = sqrt(square);
      positive = square > 0 && square < __builtin_inf();
      for (long i = j + threadIdx.x; i < n; i += blockDim.x)
        if (i > j) l[j * n + i] /= root;
      __syncthreads();
    }
    for (unsigned e = threadIdx.x; e < n * n; e += blockDim.x) {
      const long i = e / unsigned(n), j = e % unsigned(n);
      double v = j > i ? 0.0 : __builtin_nan("");
      if (positive && j <= i) v = i == j ? sqrt(l[e]) : l[j * n + i];
      out[e] = nb_from_double<T>(v);
    }
    __syncthreads();
  }
}

// One unknown after the other leaves all right-hand sides; it is divided by the diagonal wherever it is used. `t` lies
// by columns.
template <class T>
NB_FN void nb_block_triangular_solve(char* scratch, long row, long last, long n, long, long k, long left, long lower,
                                     long transpose, long unit, T* y, const T* x, const T* rhs) {
  double *const t = (double*)scratch, *const v = t + n * n;
  const bool turned = bool(transpose) == bool(left), down = bool(lower) != turned;
  for (; row < last; ++row) {
    const T *const a = x + row * n * n, *const b = rhs + row * n * k;
    T* const out = y + row * n * k;
    for (unsigned e = threadIdx.x; e < n * n; e += blockDim.x)
      t[turned ? e : e % unsigned(n) * n + e / unsigned(n)] = nb_to_double(a[e]);
    for (unsigned e = threadIdx.x; e < n * k; e += blockDim.x)
      v[e] = nb_to_double(b[left ? e : e % unsigned(k) * n + e / unsigned(k)]);
    __syncthreads();
    for (long s = 0; s < n; ++s) {
      const long i = down ? s : n - 1 - s, first = down ? i + 1 : 0;
      const double divisor = unit ? 1.0 : t[i * n + i];
      for (unsigned e = threadIdx.x; e < (n - 1 - s) * k; e += blockDim.x) {
        const long r = first + e / unsigned(k), c = e % unsigned(k);
        v[r * k + c] -= t[i * n + r] * (v[i * k + c] / divisor);
      }
      __syncthreads();
    }
    for (unsigned e = threadIdx.x; e < n * k; e += blockDim.x) {
      const long i = e / unsigned(k), c = e % unsigned(k);
      out[left ? e : c * n + i] = nb_from_double<T>(v[e] / (unit ? 1.0 : t[i * n + i]));
    }
    __syncthreads();
  }
}

template <int R>
NB_FN void nb_block_fft_stage(long n, long s, const nb_complex* roots, const nb_complex* x, nb_complex* y) {
  const long m = n / R;
  nb_complex turn[R];
  for (int t = 0; t < R; ++t) turn[t] = roots[t * s * m];
  for (unsigned e = threadIdx.x; e < m * s; e += blockDim.x)
    nb_fft_butterfly<R>(e / unsigned(s), e % unsigned(s), m, s, turn, roots, x, y);
  __syncthreads();
}
// All see x when it begins; when it ends, each thread sees the elements that it walks to in strides of the block.
NB_FN void nb_block_fft_smooth(long length, const nb_complex* roots, nb_complex* x, nb_complex* y) {
  nb_complex *from = x, *to = y;
  for (long n = length, s = 1; n > 1;) {
    const int radix = n % 4 == 0 ? 4 : n % 2 == 0 ? 2 : n % 3 == 0 ? 3 : 5;
    if (radix == 4) nb_block_fft_stage<4>(n, s, roots, from, to);
    else if (radix == 2) nb_block_fft_stage<2>(n, s, roots, from, to);
    else if (radix == 3) nb_block_fft_stage<3>(n, s, roots, from, to);
    else nb_block_fft_stage<5>(n, s, roots, from, to);
    nb_complex* const t = from;
    from = to, to = t;
    n /= radix, s *= radix;
  }
  if (from == x) return;
  for (long i = threadIdx.x; i < length; i += blockDim.x) x[i] = from[i];
}
// Between the transforms every thread works on elements of its own.
template <class T>
NB_FN void nb_block_fft(char* scratch, long row, long last, long n, long, long inverse, T* yre, T* yim, const T* xre,
                        const T* xim) {
  if (inverse) {
    T* const y = yre;
    yre = yim, yim = y;
    const T* const x = xre;
    xre = xim, xim = x;
  }
  const bool smooth = nb_is_smooth(n);
  long m = n;
  if (!smooth)
    for (m = 1; m < 2 * n - 1;) m *= 2;
  nb_complex *const roots = (nb_complex*)scratch, *const x = roots + m, *const y = x + m, *const kernel = y + m,
                   *const chirp = kernel + m;
  const int me = threadIdx.x, all = blockDim.x;
  for (long i = me; i < m; i += all) roots[i] = nb_root(i, m);
  if (!smooth) {
    for (long i = me; i < m; i += all) {
      if (i < n) chirp[i] = nb_root((unsigned long)i * i % (2 * n), 2 * n);
      const long j = i < n ? i : m - i;  // the kernel is the same before 0 and after it
      kernel[i] = {};
      if (j < n) {
        const nb_complex c = nb_root((unsigned long)j * j % (2 * n), 2 * n);
        kernel[i] = {c.re, -c.im};
      }
    }
    __syncthreads();
    nb_block_fft_smooth(m, roots, kernel, y);
  }
  for (; row < last; ++row) {
    for (long i = me; i < m; i += all) {
      x[i] = {};
      if (i < n) x[i] = {nb_to_double(xre[row * n + i]), nb_to_double(xim[row * n + i])};
      if (i < n && !smooth) x[i] = nb_times(x[i], chirp[i]);
    }
    __syncthreads();
    nb_block_fft_smooth(m, roots, x, y);
    if (!smooth) {
      for (long i = me; i < m; i += all) {
        const nb_complex c = nb_times(x[i], kernel[i]);
        x[i] = {c.im, c.re};  // exchanged on both sides, the transform is the inverse one
      }
      __syncthreads();
      nb_block_fft_smooth(m, roots, x, y);
    }
    for (long i = me; i < n; i += all) {
      nb_complex v = x[i];
      if (!smooth) v = nb_times({v.im / double(m), v.re / double(m)}, chirp[i]);
      yre[row * n + i] = nb_from_double<T>(v.re);
      yim[row * n + i] = nb_from_double<T>(v.im);
    }
  }
}
