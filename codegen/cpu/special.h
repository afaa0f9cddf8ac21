// What fewer kernels use, after the prelude: inverse, hyperbolic and error functions, in f32 polynomials, Chebyshev fits
// with errors below 4e-8 relative on their intervals, in f64 libm lane by lane; and random numbers.

NB_LIBM(nb_libm_erfc, erfc) NB_LIBM(nb_libm_exp2, exp2) NB_LIBM(nb_libm_log2, log2) NB_LIBM(nb_libm_asin, asin)
NB_LIBM(nb_libm_acos, acos) NB_LIBM(nb_libm_atan, atan) NB_LIBM(nb_libm_sinh, sinh) NB_LIBM(nb_libm_cosh, cosh)
NB_LIBM(nb_libm_asinh, asinh) NB_LIBM(nb_libm_acosh, acosh) NB_LIBM(nb_libm_atanh, atanh)
NB_LIBM(nb_trunc, trunc) NB_LIBM(nb_cbrt, cbrt) NB_LIBM(nb_lgamma, lgamma)
#undef NB_LIBM

template <class V> NB_FN V nb_exp2_32(V x) {
  V c = nb_select(nb_ge(x, nb_splat<V>(128.0f)), nb_splat<V>(127.0f), x);
  c = nb_select(nb_lt(c, nb_splat<V>(-151.0f)), nb_splat<V>(-151.0f), c);
  V n = nb_nearest(c), r = c - n;
  V p = r * 1.52973237607e-05f + 0.000154614446986f;
  p = p * r + 0.00133335023862f;
  p = p * r + 0.00961805667852f;
  p = p * r + 0.0555041088391f;
  p = p * r + 0.240226509223f;
  p = p * r + 0.69314718056f;
  p = p * r + 1.0f;
  V y = nb_scale(p, nb_to_int(nb_select(nb_is_nan(n), V{}, n)));
  return nb_select(nb_ge(x, nb_splat<V>(128.0f)), nb_splat<V>(__builtin_inff()), y);
}
// 2 / (2 + a) maps [0, inf) to (0, 1]; below 1/2 erfc is 1 - erf. The square in the exponent is split so that its
// rounding does not count.
template <class V> NB_FN V nb_erfc32(V x) {
  V a = nb_abs(x);
  V c = nb_select(nb_gt(a, nb_splat<V>(10.4f)), nb_splat<V>(10.4f), a);
  c = nb_select(nb_lt(c, nb_splat<V>(0.25f)), nb_splat<V>(0.25f), c);
  V t = 2.0f / (c + 2.0f);
  V p = t * 0.028687964061f + 0.118897936885f;
  p = p * t + -0.91527093794f;
  p = p * t + 1.86807607171f;
  p = p * t + -1.64237549311f;
  p = p * t + 0.646459489902f;
  p = p * t + -0.34605991213f;
  p = p * t + 0.139109907855f;
  p = p * t + 0.367474584388f;
  p = p * t + 1.00057946979f;
  p = p * t + -1.26553150704f;
  V head = nb_float(nb_bits(c) & int(0xfffff000));
  V far = t * nb_exp32(-head * head) * nb_exp32((head - c) * (head + c) + p);
  far = nb_select(nb_gt(a, nb_splat<V>(10.3f)), V{}, far);
  far = nb_select(nb_lt(x, V{}), 2.0f - far, far);
  return nb_select(nb_lt(a, nb_splat<V>(0.5f)), 1.0f - nb_erf32(x), nb_select(nb_is_nan(x), x, far));
}
// erfinv(x) / x as polynomials in w = -log(1 - x^2), or in sqrt(w) for w >= 5.
template <class V> NB_FN V nb_erfinv32(V x) {
  V w = -nb_log32((1.0f - x) * (1.0f + x));
  V u = w - 2.5f;
  V p = u * -8.93192597024e-09f + 2.33359671957e-08f;
  p = p * u + 4.68131348055e-07f;
  p = p * u + -3.46398526763e-06f;
  p = p * u + -4.97241968945e-06f;
  p = p * u + 0.00021834938624f;
  p = p * u + -0.00125272639177f;
  p = p * u + -0.0041773928752f;
  p = p * u + 0.246640279055f;
  p = p * u + 1.50140936045f;
  V s = nb_sqrt(w) - 3.0f;
  V q = s * 0.000113908173833f + -0.00030791328114f;
  q = q * s + -5.37265707631e-05f;
  q = q * s + 0.00148269069151f;
  q = q * s + -0.00359928073953f;
  q = q * s + 0.00568805833436f;
  q = q * s + -0.00763681894359f;
  q = q * s + 0.00944513221909f;
  q = q * s + 1.0016749321f;
  q = q * s + 2.83297680452f;
  V y = x * nb_select(nb_lt(w, nb_splat<V>(5.0f)), p, q);
  return nb_select(nb_eq(nb_abs(x), nb_splat<V>(1.0f)), x * __builtin_inff(), y);
}
// In f64 by Newton's method, on erfc where erf is close to 1.
NB_FN double nb_erfinv64_1(double x) {
  double a = __builtin_fabs(x), rest = 1 - a;
  if (!(a < 1)) return a == 1 ? x * __builtin_inf() : __builtin_nan("");
  double w = -__builtin_log(rest * (1 + a)), y = a;
  if (a > 0.7) {
    y = __builtin_sqrt(w);
    for (int i = 0; i < 3; ++i) y = __builtin_sqrt(w + 0.693147180559945 - __builtin_log(y * 1.77245385090552));
  }
  for (int i = 0; i < 30; ++i) {
    double error = a > 0.5 ? rest - __builtin_erfc(y) : __builtin_erf(y) - a;
    double step = error / (1.12837916709551 * __builtin_exp(-y * y));
    y -= step / (1 + y * step);
    if (__builtin_fabs(step) <= 1e-16 * y) break;
  }
  return __builtin_copysign(y, x);
}
NB_LANEWISE1(nb_erfinv64, nb_erfinv64_1)
// x + x^3 p(x^2) on [0, tan(pi/8)]; larger arguments are turned by 45 or 90 degrees.
template <class V> NB_FN V nb_atan32(V x) {
  V a = nb_abs(x), one = nb_splat<V>(1.0f);
  auto steep = nb_gt(a, nb_splat<V>(2.41421356237f)), middle = nb_gt(a, nb_splat<V>(0.414213562373f));
  V bounded = nb_select(nb_gt(a, nb_splat<V>(0x1p60f)), nb_splat<V>(0x1p60f), a);  // of which the inverse is normal
  V r = nb_select(steep, -one / bounded, nb_select(middle, (a - 1.0f) / (a + 1.0f), a));
  V turned = nb_select(steep, nb_splat<V>(1.57079632679f), nb_select(middle, nb_splat<V>(0.785398163397f), V{}));
  V z = nb_squarable(r), t = z * z;
  V p = t * -0.0645192820811f + 0.107437314908f;
  p = p * t + -0.14263955598f;
  p = p * t + 0.199995404836f;
  p = p * t + -0.333333317612f;
  return nb_select(nb_is_nan(x), x, nb_copysign32(p * t * z + r + turned, x));
}
// asin on [0, 1/2] as a + a^3 p(a^2); beyond, by pi/2 - 2 asin(sqrt((1 - a) / 2)). `arc` is asin(r), r that argument.
template <class V> NB_FN V nb_asin_core32(V r, V t) {
  V p = t * 0.0336908472029f + 0.0171492383576f;
  p = p * t + 0.0311006627355f;
  p = p * t + 0.0445994015285f;
  p = p * t + 0.075000945435f;
  p = p * t + 0.166666663374f;
  return p * t * nb_squarable(r) + r;
}
template <class V> NB_FN V nb_asin32(V x) {
  V a = nb_abs(x);
  auto far = nb_gt(a, nb_splat<V>(0.5f));
  V z = nb_squarable(a), t = nb_select(far, (1.0f - a) * 0.5f, z * z), r = nb_select(far, nb_sqrt(t), a);
  V arc = nb_asin_core32(r, t);
  return nb_copysign32(nb_select(far, 1.57079632679f - 2.0f * arc, arc), x);
}
template <class V> NB_FN V nb_acos32(V x) {
  V a = nb_abs(x);
  auto far = nb_gt(a, nb_splat<V>(0.5f));
  V z = nb_squarable(a), t = nb_select(far, (1.0f - a) * 0.5f, z * z), r = nb_select(far, nb_sqrt(t), x);
  V arc = nb_asin_core32(r, t);
  V turned = nb_select(nb_lt(x, V{}), 3.14159265359f - 2.0f * arc, 2.0f * arc);
  return nb_select(far, turned, 1.57079632679f - arc);
}
// exp(a / 2) is squared in two steps, so that nothing overflows before the result does.
template <class V> NB_FN V nb_sinh32(V x) {
  V a = nb_abs(x), e = nb_expm132(a), h = nb_exp32(a * 0.5f);
  V near = (e + e / (e + 1.0f)) * 0.5f;
  return nb_copysign32(nb_select(nb_gt(a, nb_splat<V>(16.0f)), h * 0.5f * h, near), x);
}
template <class V> NB_FN V nb_cosh32(V x) {
  V h = nb_exp32(nb_abs(x) * 0.5f);
  V bounded = nb_select(nb_gt(h, nb_splat<V>(0x1p20f)), nb_splat<V>(0x1p20f), h);  // beyond, exp(-x) does not count
  return h * 0.5f * h + 0.5f / bounded / bounded;
}
template <class V> NB_FN V nb_asinh32(V x) {
  V a = nb_abs(x), large = nb_log32(a) + 0.693147180560f;
  V z = nb_squarable(a), near = nb_log1p32(a + z * z / (nb_sqrt(z * z + 1.0f) + 1.0f));
  return nb_copysign32(nb_select(nb_gt(a, nb_splat<V>(1e8f)), large, near), x);
}
template <class V> NB_FN V nb_acosh32(V x) {
  V t = x - 1.0f, near = nb_log1p32(t + nb_sqrt(t * (t + 2.0f)));
  V y = nb_select(nb_gt(x, nb_splat<V>(1e8f)), nb_log32(x) + 0.693147180560f, near);
  return nb_select(nb_lt(x, nb_splat<V>(1.0f)), nb_splat<V>(__builtin_nanf("")), y);
}
template <class V> NB_FN V nb_atanh32(V x) {
  V a = nb_abs(x), y = nb_log1p32(2.0f * a / (1.0f - a)) * 0.5f;
  y = nb_select(nb_eq(a, nb_splat<V>(1.0f)), nb_splat<V>(__builtin_inff()), y);
  return nb_select(nb_gt(a, nb_splat<V>(1.0f)), nb_splat<V>(__builtin_nanf("")), nb_copysign32(y, x));
}
NB_MATH(nb_erfc, nb_erfc32(x), nb_libm_erfc) NB_MATH(nb_erfinv, nb_erfinv32(x), nb_erfinv64)
NB_MATH(nb_exp2, nb_exp2_32(x), nb_libm_exp2) NB_MATH(nb_log2, nb_log32(x) * 1.44269504089f, nb_libm_log2)
NB_MATH(nb_asin, nb_asin32(x), nb_libm_asin) NB_MATH(nb_acos, nb_acos32(x), nb_libm_acos)
NB_MATH(nb_atan, nb_atan32(x), nb_libm_atan) NB_MATH(nb_sinh, nb_sinh32(x), nb_libm_sinh)
NB_MATH(nb_cosh, nb_cosh32(x), nb_libm_cosh) NB_MATH(nb_asinh, nb_asinh32(x), nb_libm_asinh)
NB_MATH(nb_acosh, nb_acosh32(x), nb_libm_acosh) NB_MATH(nb_atanh, nb_atanh32(x), nb_libm_atanh)
#undef NB_MATH

// ---- Random numbers
// The products of the low halves of 64-bit lanes. GCC does not see that a whole product is more than is needed.
template <class Wide, class X> NB_FN Wide nb_multiply_low(X x, X by) {
#if defined(__AVX2__) && !defined(__clang__)
  if constexpr (sizeof(X) == 32) return (Wide)__builtin_ia32_pmuludq256(x, by);
#endif
#if defined(__AVX512F__) && !defined(__clang__)
  typedef long long Eight __attribute__((vector_size(64)));
  if constexpr (sizeof(X) == 64) return (Wide)__builtin_ia32_pmuludq512_mask(x, by, Eight{}, 255);
#endif
  return ((Wide)x & 0xffffffff) * ((Wide)by & 0xffffffff);
}
// Both halves of a product: the lower one is the result. Even and odd lanes apart, as machines multiply them.
NB_FN unsigned nb_multiply_wide(unsigned x, unsigned by, unsigned& high) {
  unsigned long whole = (unsigned long)x * by;
  high = unsigned(whole >> 32);
  return unsigned(whole);
}
NB_FN nb_vec<unsigned> nb_multiply_wide(nb_vec<unsigned> x, unsigned by, nb_vec<unsigned>& high) {
  typedef unsigned long Wide __attribute__((vector_size(sizeof(x))));
  constexpr unsigned long low = 0xffffffff;
  nb_mask factor = (nb_mask)(nb_vec<unsigned>{} + by);
  Wide even = nb_multiply_low<Wide>((nb_mask)x, factor), odd = nb_multiply_low<Wide>((nb_mask)((Wide)x >> 32), factor);
  high = (nb_vec<unsigned>)((even >> 32) | (odd & ~low));
  return x * by;
}
// Philox4x32-10: a word of the block (c0, c1).
template <class V, class W> NB_FN V nb_philox_word(unsigned k0, unsigned k1, V c0, V c1, W word) {
  V c2 = {}, c3 = {}, high0, high1;
  for (int round = 0; round < 10; ++round) {
    V low0 = nb_multiply_wide(c0, 0xD2511F53, high0), low1 = nb_multiply_wide(c2, 0xCD9E8D57, high1);
    c0 = high1 ^ c1 ^ k0, c1 = low1, c2 = high0 ^ c3 ^ k1, c3 = low0;
    k0 += 0x9E3779B9, k1 += 0xBB67AE85;
  }
  return word == 0 ? c0 : word == 1 ? c1 : word == 2 ? c2 : c3;
}
// Word index % 4 of block index / 4.
NB_FN unsigned nb_philox(unsigned k0, unsigned k1, long index) {
  unsigned long block = (unsigned long)index / 4;
  return nb_philox_word(k0, k1, unsigned(block), unsigned(block >> 32), int(index & 3));
}
NB_FN nb_vec<unsigned> nb_philox(unsigned k0, unsigned k1, nb_vec<long> index) {
  nb_vec<unsigned long> block = (nb_vec<unsigned long>)index / 4;
  return nb_philox_word(k0, k1, __builtin_convertvector(block, nb_vec<unsigned>),
                        __builtin_convertvector(block >> 32, nb_vec<unsigned>),
                        __builtin_convertvector(index & 3, nb_mask));
}
NB_FN nb_vec<unsigned> nb_philox(unsigned k0, unsigned k1, nb_vec<int> index) {
  return nb_philox_word(k0, k1, (nb_vec<unsigned>)index / 4, nb_vec<unsigned>{}, index & 3);
}
