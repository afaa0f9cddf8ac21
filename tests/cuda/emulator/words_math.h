// CUDA's mathematics and bit casts for a host compiler, over libm. Text in front of a source, after words.h.
#pragma once
template <class To, class From>
static inline To nb_emu_bits(From x) {
  static_assert(sizeof(To) == sizeof(From), "");
  To out;
  memcpy(&out, &x, sizeof(To));
  return out;
}
static inline int __float_as_int(float x) { return nb_emu_bits<int>(x); }
static inline unsigned __float_as_uint(float x) { return nb_emu_bits<unsigned>(x); }
static inline float __int_as_float(int x) { return nb_emu_bits<float>(x); }
static inline float __uint_as_float(unsigned x) { return nb_emu_bits<float>(x); }
static inline long long __double_as_longlong(double x) { return nb_emu_bits<long long>(x); }
static inline double __longlong_as_double(long long x) { return nb_emu_bits<double>(x); }

static inline int __popc(unsigned x) { return __builtin_popcount(x); }
static inline int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
static inline int __clz(int x) { return x ? __builtin_clz(unsigned(x)) : 32; }
static inline int __clzll(long long x) { return x ? __builtin_clzll((unsigned long long)x) : 64; }
static inline int __ffs(int x) { return __builtin_ffs(x); }
static inline unsigned __byte_perm(unsigned x, unsigned y, unsigned selector) {
  unsigned long both = x | (unsigned long)y << 32;
  unsigned out = 0;
  for (int i = 0; i < 4; ++i) out |= unsigned(both >> (selector >> 4 * i & 7) * 8 & 255) << 8 * i;
  return out;
}
static inline unsigned __umulhi(unsigned a, unsigned b) { return unsigned((unsigned long)a * b >> 32); }

static inline int min(int a, int b) { return a < b ? a : b; }
static inline int max(int a, int b) { return a > b ? a : b; }
static inline long min(long a, long b) { return a < b ? a : b; }
static inline long max(long a, long b) { return a > b ? a : b; }
static inline unsigned min(unsigned a, unsigned b) { return a < b ? a : b; }
static inline unsigned max(unsigned a, unsigned b) { return a > b ? a : b; }

template <class T>
static __forceinline__ T __ldg(const T* p) {
  return *p;
}

// The fast functions of the device have larger errors than these. libc has declared functions of these names.
#define __expf(x) expf(x)
#define __exp10f(x) exp10f(x)
#define __logf(x) logf(x)
#define __log2f(x) log2f(x)
#define __sinf(x) sinf(x)
#define __cosf(x) cosf(x)
#define __tanf(x) tanf(x)
#define __powf(x, y) powf(x, y)
static inline float __fdividef(float x, float y) { return x / y; }
static inline float __frcp_rn(float x) { return 1 / x; }
static inline float __fsqrt_rn(float x) { return sqrtf(x); }
static inline float __fmaf_rn(float x, float y, float z) { return fmaf(x, y, z); }
// Operations that are never joined with others.
__attribute__((noinline)) static float __fadd_rn(float x, float y) { return x + y; }
__attribute__((noinline)) static float __fmul_rn(float x, float y) { return x * y; }
static inline float __saturatef(float x) { return x > 0 ? x < 1 ? x : 1 : 0; }
static inline float rsqrtf(float x) { return 1 / sqrtf(x); }
static inline double rsqrt(double x) { return 1 / sqrt(x); }

// libm has no inverse of erf: Newton's steps from an approximation by logarithms (S. Winitzki, 2008).
static inline double erfinv(double signed_y) {
  double y = fabs(signed_y);
  if (!(y < 1)) return y == 1 ? copysign(HUGE_VAL, signed_y) : NAN;
  double w = log1p(-y * y), t = 4.3307467508 + w / 2;  // 2 / (pi 0.147)
  double x = sqrt(sqrt(t * t - w / 0.147) - t);
  for (int step = 0; step < 4; ++step) {
    double error = y < 0.5 ? y - erf(x) : erfc(x) - (1 - y);
    x += error / (1.1283791670955126 * exp(-x * x));  // 2 / sqrt(pi)
  }
  return copysign(x, signed_y);
}
static inline float erfinvf(float y) { return float(erfinv(double(y))); }
