// What generated kernels are written in: vectors of NB_L lanes, loads and stores with tails, NaN-safe mathematics.
// No includes: a header costs more to compile than all kernels of a model. Every function takes a scalar or a
// vector (their last bits may differ: the compiler contracts differently). Tails run on vectors too, so that an
// element's value does not depend on where a tail begins. bool is `bool` in scalars and an int lane of 0 or -1 in
// vectors; 16-bit floats are computed in float.
// Polynomials: Chebyshev fits of degree as written, errors below 1e-8 relative on their intervals.

#define NB_FN static inline __attribute__((always_inline))
#define NB_INLINE __attribute__((always_inline))

typedef signed char nb_i8;
typedef unsigned char nb_u8;
typedef unsigned short nb_u16;
typedef unsigned long nb_u64;
struct nb_bf16 { unsigned short bits; };
struct nb_f16 { unsigned short bits; };
struct nb_f8e4m3 { unsigned char bits; };
struct nb_f8e5m2 { unsigned char bits; };
struct nb_full {};  // a whole vector, where a tail passes its number of lanes

template <class T> struct nb_lanes_of { typedef T type __attribute__((vector_size(sizeof(T) * NB_L))); };
template <class T> using nb_vec = typename nb_lanes_of<T>::type;
template <class V> struct nb_elem { using type = V; static constexpr bool vector = false; };
#define NB_VECTOR(T) template <> struct nb_elem<nb_vec<T>> { using type = T; static constexpr bool vector = true; };
NB_VECTOR(signed char) NB_VECTOR(unsigned char) NB_VECTOR(short) NB_VECTOR(unsigned short)
NB_VECTOR(int) NB_VECTOR(unsigned) NB_VECTOR(long) NB_VECTOR(unsigned long) NB_VECTOR(float) NB_VECTOR(double)
#undef NB_VECTOR
template <int bytes> struct nb_sint;
template <> struct nb_sint<1> { using type = signed char; };
template <> struct nb_sint<2> { using type = short; };
template <> struct nb_sint<4> { using type = int; };
template <> struct nb_sint<8> { using type = long; };
template <class A, class B> constexpr bool nb_same = false;
template <class A> constexpr bool nb_same<A, A> = true;
template <class V> using nb_scalar = typename nb_elem<V>::type;
template <class V> constexpr bool nb_is_vec = nb_elem<V>::vector;
template <class T> constexpr bool nb_is_float = nb_same<T, float> || nb_same<T, double>;
template <class T> constexpr bool nb_is_signed = T(-1) < T(0);
using nb_mask = nb_vec<int>;

template <class V, class S> NB_FN V nb_splat(S s) {
  if constexpr (nb_is_vec<V>) return nb_scalar<V>(s) - V{};  // V{} + -0 would be 0
  else return V(s);
}
template <> NB_INLINE inline nb_mask nb_splat<nb_mask, bool>(bool s) { return nb_mask{} - int(s); }
// f(lane) for the first n lanes, 0 beyond.
template <class V, class F> NB_FN V nb_each(nb_full, F f) {
  V v;
  for (int l = 0; l < NB_L; ++l) v[l] = f(l);
  return v;
}
template <class V, class F> NB_FN V nb_each(long n, F f) {
  V v = {};
  for (long l = 0; l < n; ++l) v[l] = f(l);
  return v;
}
NB_FN nb_vec<long> nb_iota(long first) {
  return nb_each<nb_vec<long>>(nb_full{}, [](int l) { return long(l); }) + first;
}
NB_FN nb_vec<int> nb_iota32(long first) {
  return nb_each<nb_vec<int>>(nb_full{}, [](int l) { return l; }) + int(first);
}

// ---- Bits and selection
NB_FN int nb_bits(float x) { int i; __builtin_memcpy(&i, &x, 4); return i; }
NB_FN nb_vec<int> nb_bits(nb_vec<float> x) { return (nb_vec<int>)x; }
NB_FN float nb_float(int i) { float x; __builtin_memcpy(&x, &i, 4); return x; }
NB_FN nb_vec<float> nb_float(nb_vec<int> i) { return (nb_vec<float>)i; }
template <class M> NB_FN M nb_not(M m) {
  if constexpr (nb_same<M, bool>) return !m;
  else return ~m;
}
template <class V, class M> NB_FN auto nb_to_mask(M m) {
  if constexpr (nb_is_vec<V>) return __builtin_convertvector(m, nb_mask);
  else return bool(m);
}
#define NB_COMPARE(name, op) \
  template <class V> NB_FN auto name(V a, V b) { return nb_to_mask<V>(a op b); }
NB_COMPARE(nb_eq, ==) NB_COMPARE(nb_ne, !=) NB_COMPARE(nb_lt, <) NB_COMPARE(nb_le, <=) NB_COMPARE(nb_gt, >) NB_COMPARE(nb_ge, >=)
#undef NB_COMPARE
template <class M, class V> NB_FN V nb_select(M m, V a, V b) {
  if constexpr (!nb_is_vec<M>) {
    return m ? a : b;
  } else {
    auto wide = __builtin_convertvector(m, nb_vec<typename nb_sint<sizeof(nb_scalar<V>)>::type>);
    return wide ? a : b;
  }
}
template <class V> NB_FN auto nb_to_int(V x) {
  if constexpr (nb_is_vec<V>) return __builtin_convertvector(x, nb_vec<int>);
  else return int(x);
}
template <class I> NB_FN auto nb_to_float(I i) {
  if constexpr (nb_is_vec<I>) return __builtin_convertvector(i, nb_vec<float>);
  else return float(i);
}
template <class V> NB_FN auto nb_is_nan(V x) { return nb_ne(x, x); }
template <class V> NB_FN auto nb_is_finite(V x) { return nb_eq(x - x, V{} ); }

// ---- Memory
template <class V, class T> NB_FN V nb_from(T x) { return V(x); }  // one stored element as a number
NB_FN float nb_widen(nb_bf16 x) { return nb_float(int(x.bits) << 16); }
// Widening and narrowing keep the bits of a NaN, because values that are only moved are widened and narrowed too. They use no
// arithmetic on subnormal floats, which is slow. I is an int, or a vector of them.
template <class I> NB_FN auto nb_widen16(I bits) {
  I m = bits & 0x7fff, small = nb_bits(nb_to_float(m) * 0x1p-24f), normal = (m << 13) + (112 << 23);
  I large = nb_select(nb_gt(m, nb_splat<I>(0x7bff)), (m << 13) | 0x7f800000, normal);
  return nb_float(nb_select(nb_lt(m, nb_splat<I>(0x400)), small, large) | (bits & 0x8000) << 16);
}
template <class V> NB_FN auto nb_narrow16(V x) {
  auto u = nb_bits(x), sign = (u >> 16) & 0x8000, m = u & 0x7fffffff, zero = u & 0;
  auto normal = (m + 0xfff + ((m >> 13) & 1) - (112 << 23)) >> 13;
  auto small = nb_bits(nb_float(m) + 0.5f) - 0x3f000000;  // the addition rounds to 2^-24
  auto nan = (m >> 13) & 0x3ff;
  nan = 0x7c00 | nb_select(nb_eq(nan, zero), zero + 0x200, nan);
  auto bits = nb_select(nb_lt(m, zero + 0x38800000), small, normal);
  bits = nb_select(nb_ge(m, zero + 0x477ff000), zero + 0x7c00, bits);
  return sign | nb_select(nb_gt(m, zero + 0x7f800000), nan, bits);
}
template <class I> NB_FN auto nb_widen_e4m3(I bits) {
  I m = bits & 0x7f, small = nb_bits(nb_to_float(m) * 0x1p-9f), normal = (m << 20) + (120 << 23);
  I large = nb_select(nb_eq(m, nb_splat<I>(0x7f)), nb_splat<I>(0x7fc00000), normal);
  return nb_float(nb_select(nb_lt(m, nb_splat<I>(8)), small, large) | (bits & 0x80) << 24);
}
NB_FN float nb_widen(nb_f8e4m3 x) { return nb_widen_e4m3(int(x.bits)); }
NB_FN float nb_widen(nb_f16 x) { return nb_widen16(int(x.bits)); }
NB_FN float nb_widen(nb_f8e5m2 x) { return nb_widen16(x.bits << 8); }
template <class T> NB_FN T nb_widen(T x) { return x; }
template <class V> NB_FN auto nb_narrow_b16(V x) {
  auto u = nb_bits(x), high = u >> 16, zero = u & 0, rounded = (u + 0x7fff + (high & 1)) >> 16;
  auto nan = high | nb_select(nb_eq(high & 0x7f, zero), zero + 0x40, zero);
  return nb_select(nb_is_nan(x), nan, rounded);
}
NB_FN nb_bf16 nb_narrow(nb_bf16, float x) { return {(unsigned short)nb_narrow_b16(x)}; }
NB_FN nb_f16 nb_narrow(nb_f16, float x) { return {(unsigned short)nb_narrow16(x)}; }
// x in a format with this bias, number of mantissa bits and code of overflow; rounds to nearest even. A NaN keeps its leading
// mantissa bits, or gets `quiet` if they are 0.
template <class V> NB_FN auto nb_narrow8(V x, int bias, int mantissa, int overflow, int quiet) {
  auto u = nb_bits(x), sign = (u >> 24) & 0x80, m = u & 0x7fffffff, zero = u & 0;
  const int shift = 23 - mantissa;
  const float magic = nb_float((127 + 24 - mantissa - bias) << 23);
  auto small = nb_bits(nb_float(m) + magic) - nb_bits(magic);
  auto normal = (m + ((1 << (shift - 1)) - 1) + ((m >> shift) & 1) - ((127 - bias) << 23)) >> shift;
  auto code = nb_select(nb_lt(m, zero + ((128 - bias) << 23)), small, normal);
  code = nb_select(nb_ge(code, zero + overflow) | nb_ge(m, zero + 0x7f800000), zero + overflow, code);
  auto payload = (m & 0x7fffff) >> shift;
  auto nan = overflow | nb_select(nb_eq(payload, zero), zero + quiet, payload);
  return sign | nb_select(nb_gt(m, zero + 0x7f800000), nan, code);
}
template <class V> NB_FN auto nb_narrow_e4m3(V x) { return nb_narrow8(x, 7, 3, 0x7f, 7); }
template <class V> NB_FN auto nb_narrow_e5m2(V x) { return nb_narrow8(x, 15, 2, 0x7c, 2); }
NB_FN nb_f8e4m3 nb_narrow(nb_f8e4m3, float x) { return {(unsigned char)nb_narrow_e4m3(x)}; }
NB_FN nb_f8e5m2 nb_narrow(nb_f8e5m2, float x) { return {(unsigned char)nb_narrow_e5m2(x)}; }
template <class T, class S> NB_FN T nb_narrow(T, S x) { return T(x); }
template <class V, class T> NB_FN V nb_load(const T* p, nb_full) {
  if constexpr (nb_same<T, bool>) {
    nb_vec<unsigned char> v;
    __builtin_memcpy(&v, p, sizeof v);
    return -__builtin_convertvector(v, nb_mask);
  } else if constexpr (nb_same<T, nb_bf16>) {
    nb_vec<unsigned short> v;
    __builtin_memcpy(&v, p, sizeof v);
    return (nb_vec<float>)(__builtin_convertvector(v, nb_vec<unsigned>) << 16);
  } else if constexpr (nb_same<T, nb_f16>) {
    nb_vec<unsigned short> v;
    __builtin_memcpy(&v, p, sizeof v);
    return nb_widen16(__builtin_convertvector(v, nb_vec<int>));
  } else if constexpr (nb_same<T, nb_f8e4m3> || nb_same<T, nb_f8e5m2>) {
    nb_vec<unsigned char> v;
    __builtin_memcpy(&v, p, sizeof v);
    auto bits = __builtin_convertvector(v, nb_vec<int>);
    if constexpr (nb_same<T, nb_f8e4m3>) return nb_widen_e4m3(bits);
    else return nb_widen16(bits << 8);
  } else {
    V v;
    __builtin_memcpy(&v, p, sizeof v);
    return v;
  }
}
template <class V, class T> NB_FN V nb_load(const T* p, long n) {
  if constexpr (nb_same<T, bool>) return nb_each<V>(n, [&](long l) { return -int(p[l]); });
  else return nb_each<V>(n, [&](long l) { return nb_widen(p[l]); });
}
// For kernels of many loads: a loop over a tail's lanes for each of them would be most of the compiler's work.
template <class V, class T> static __attribute__((noinline)) V nb_load_tail(const T* p, long n) { return nb_load<V>(p, n); }
template <class V, class T> NB_FN V nb_load_called(const T* p, nb_full n) { return nb_load<V>(p, n); }
template <class V, class T> NB_FN V nb_load_called(const T* p, long n) { return nb_load_tail<V>(p, n); }
template <class T, class V> NB_FN void nb_store(T* p, V v, nb_full) {
  if constexpr (nb_same<T, bool>) {
    auto bytes = __builtin_convertvector(-v, nb_vec<unsigned char>);
    __builtin_memcpy(p, &bytes, sizeof bytes);
  } else if constexpr (nb_same<T, nb_bf16>) {
    auto out = __builtin_convertvector(nb_narrow_b16(v), nb_vec<unsigned short>);
    __builtin_memcpy(p, &out, sizeof out);
  } else if constexpr (nb_same<T, nb_f16>) {
    auto out = __builtin_convertvector(nb_narrow16(v), nb_vec<unsigned short>);
    __builtin_memcpy(p, &out, sizeof out);
  } else if constexpr (nb_same<T, nb_f8e4m3>) {
    auto out = __builtin_convertvector(nb_narrow_e4m3(v), nb_vec<unsigned char>);
    __builtin_memcpy(p, &out, sizeof out);
  } else if constexpr (nb_same<T, nb_f8e5m2>) {
    auto out = __builtin_convertvector(nb_narrow_e5m2(v), nb_vec<unsigned char>);
    __builtin_memcpy(p, &out, sizeof out);
  } else {
    __builtin_memcpy(p, &v, sizeof v);
  }
}
template <class T, class V> NB_FN void nb_store(T* p, V v, long n) {
  for (long l = 0; l < n; ++l) p[l] = nb_narrow(T{}, v[l]);
}
// Past the caches, where p is aligned: for tensors that the caches could not keep anyway, whose lines would be read
// only to be overwritten. Ends with nb_streamed().
// The registers that one such store writes: 64 or 32 bytes, and 16 bytes where all lanes are no more.
template <int bytes> struct nb_register { typedef float type __attribute__((vector_size(bytes))); };
NB_FN void nb_stream_register(float* p, nb_register<16>::type v) {
#ifdef __clang__
  __builtin_nontemporal_store(v, (nb_register<16>::type*)p);
#else
  __builtin_ia32_movntps(p, v);
#endif
}
NB_FN void nb_stream_register(float* p, nb_register<32>::type v) {
#ifdef __clang__
  __builtin_nontemporal_store(v, (nb_register<32>::type*)p);
#else
  __builtin_ia32_movntps256(p, v);
#endif
}
#ifdef __AVX512F__
NB_FN void nb_stream_register(float* p, nb_register<64>::type v) {
#ifdef __clang__
  __builtin_nontemporal_store(v, (nb_register<64>::type*)p);
#else
  __builtin_ia32_movntps512(p, v);
#endif
}
constexpr int nb_widest_register = 64;
#else
constexpr int nb_widest_register = 32;
#endif
template <class T, class V, class N> NB_FN void nb_stream(T* p, V v, N n) {
  if constexpr (nb_same<N, nb_full> && nb_same<T, nb_scalar<V>> && sizeof(V) >= 16) {
    constexpr int bytes = sizeof(V) < nb_widest_register ? int(sizeof(V)) : nb_widest_register;
    using piece = typename nb_register<bytes>::type;
    if ((unsigned long)p % bytes == 0) {
      piece pieces[sizeof(V) / bytes];
      __builtin_memcpy(pieces, &v, sizeof v);
      for (unsigned long i = 0; i < sizeof(V) / bytes; ++i) nb_stream_register((float*)((piece*)p + i), pieces[i]);
      return;
    }
  }
  nb_store(p, v, n);
}
NB_FN void nb_streamed() { __builtin_ia32_sfence(); }

// ---- Conversions
NB_FN long nb_count(nb_full) { return NB_L; }
NB_FN long nb_count(long n) { return n; }
// x rounded to the values of a narrower float.
template <class H, class V> NB_FN V nb_round_to(V x) {
  if constexpr (nb_is_vec<V>) {
    H t[NB_L];
    nb_store(t, x, nb_full{});
    return nb_load<V>(t, nb_full{});
  } else {
    return nb_widen(nb_narrow(H{}, x));
  }
}
// The stored bits of x read as another type of the same size.
template <class To, class From, class V> NB_FN auto nb_bitcast(V x) {
  if constexpr (nb_is_vec<V>) {
    From from[NB_L];
    To to[NB_L];
    nb_store(from, x, nb_full{});
    __builtin_memcpy(to, from, sizeof to);
    return nb_load<nb_vec<decltype(nb_widen(To{}))>>(to, nb_full{});
  } else {
    From from = nb_narrow(From{}, x);
    To to;
    __builtin_memcpy(&to, &from, sizeof to);
    return nb_widen(to);
  }
}
template <class S, class F> NB_FN S nb_saturate(F x) {  // towards zero; NaN gives 0
  constexpr S low = nb_is_signed<S> ? S(S(1) << (8 * sizeof(S) - 1)) : S(0);
  constexpr S high = S(~low);
  return x != x ? S(0) : x <= F(low) ? low : x >= F(high) ? high : S(x);
}
// `S` is the wanted element type; bool vectors are masks.
template <class S, class V> NB_FN auto nb_convert(V x) {
  using E = nb_scalar<V>;
  if constexpr (!nb_is_vec<V>) {
    if constexpr (nb_same<S, bool>) return x != V(0);
    else if constexpr (nb_is_float<V> && !nb_is_float<S>) return nb_saturate<S>(x);
    else return S(x);
  } else if constexpr (nb_same<S, bool>) {
    return nb_ne(x, V{});
  } else if constexpr (nb_is_float<E> && !nb_is_float<S>) {
    return nb_each<nb_vec<S>>(nb_full{}, [&](int l) { return nb_saturate<S>(x[l]); });
  } else {
    return __builtin_convertvector(x, nb_vec<S>);
  }
}
template <class S> NB_FN nb_vec<S> nb_convert_mask(nb_mask m) { return __builtin_convertvector(-m, nb_vec<S>); }

// ---- Arithmetic
template <class V> NB_FN V nb_add(V a, V b) { return a + b; }
template <class V> NB_FN V nb_sub(V a, V b) { return a - b; }
template <class V> NB_FN V nb_mul(V a, V b) { return a * b; }
template <class V> NB_FN V nb_neg(V a) { return -a; }
template <class V> NB_FN V nb_and(V a, V b) { return a & b; }
template <class V> NB_FN V nb_or(V a, V b) { return a | b; }
template <class V> NB_FN V nb_xor(V a, V b) { return a ^ b; }
template <class V> NB_FN V nb_maximum(V a, V b) {
  if constexpr (nb_is_float<nb_scalar<V>>) return nb_select(nb_or(nb_gt(a, b), nb_is_nan(a)), a, b);
  else return nb_select(nb_gt(a, b), a, b);
}
template <class V> NB_FN V nb_minimum(V a, V b) {
  if constexpr (nb_is_float<nb_scalar<V>>) return nb_select(nb_or(nb_lt(a, b), nb_is_nan(a)), a, b);
  else return nb_select(nb_lt(a, b), a, b);
}
// Applies a scalar function lane by lane.
#define NB_LANEWISE1(name, scalar)                                                                  \
  template <class V> NB_FN V name(V x) {                                                            \
    if constexpr (nb_is_vec<V>) return nb_each<V>(nb_full{}, [&](int l) { return scalar(x[l]); });  \
    else return scalar(x);                                                                          \
  }
#define NB_LANEWISE2(name, scalar)                                                                        \
  template <class V> NB_FN V name(V x, V y) {                                                             \
    if constexpr (nb_is_vec<V>) return nb_each<V>(nb_full{}, [&](int l) { return scalar(x[l], y[l]); });  \
    else return scalar(x, y);                                                                             \
  }
template <class T> NB_FN T nb_div1(T a, T b) {  // by zero: all bits set; overflow: the dividend
  if constexpr (nb_is_float<T>) return a / b;
  else if (b == 0) return T(-1);
  else if (nb_is_signed<T> && b == T(-1)) return T(0 - (unsigned long)a);
  else return T(a / b);
}
template <class T> NB_FN T nb_rem1(T a, T b) {
  if constexpr (nb_same<T, float>) return __builtin_fmodf(a, b);
  else if constexpr (nb_same<T, double>) return __builtin_fmod(a, b);
  else if (b == 0) return a;
  else if (nb_is_signed<T> && b == T(-1)) return T(0);
  else return T(a % b);
}
template <class T> NB_FN T nb_pow1(T a, T b) {
  if constexpr (nb_same<T, float>) return __builtin_powf(a, b);
  else if constexpr (nb_same<T, double>) return __builtin_pow(a, b);
  else {
    if (b < T(0)) return a == T(1) ? T(1) : a == T(-1) ? (b % T(2) ? T(-1) : T(1)) : T(0);
    unsigned long r = 1, x = (unsigned long)a;
    for (unsigned long e = (unsigned long)b; e; e >>= 1, x *= x) if (e & 1) r *= x;
    return T(r);
  }
}
template <class T> NB_FN T nb_shift_left1(T a, T b) {
  return b < T(0) || b >= T(8 * sizeof(T)) ? T(0) : T((unsigned long)a << b);
}
template <class T> NB_FN T nb_shift_right1(T a, T b) {
  if (b < T(0) || b >= T(8 * sizeof(T))) return a < T(0) ? T(-1) : T(0);
  return T(a >> b);
}
// As an unsigned number of the same size.
template <class T> NB_FN unsigned long nb_unsigned(T a) { return (unsigned long)a & (~0ul >> (64 - 8 * sizeof(T))); }
template <class T> NB_FN T nb_shift_right_logical1(T a, T b) {
  return b < T(0) || b >= T(8 * sizeof(T)) ? T(0) : T(nb_unsigned(a) >> b);
}
template <class T> NB_FN T nb_popcount1(T a) { return T(__builtin_popcountl(nb_unsigned(a))); }
template <class T> NB_FN T nb_clz1(T a) {
  return T(nb_unsigned(a) ? __builtin_clzl(nb_unsigned(a)) - long(64 - 8 * sizeof(T)) : long(8 * sizeof(T)));
}
template <class T> NB_FN T nb_floordiv1(T a, T b) { return a / b - (a % b < 0); }
template <class T> NB_FN T nb_mod1(T a, T b) { return a % b + (a % b < 0 ? b : 0); }
template <class T> NB_FN T nb_atan21(T a, T b) {
  if constexpr (nb_same<T, float>) return __builtin_atan2f(a, b);
  else return __builtin_atan2(a, b);
}
NB_LANEWISE2(nb_rem, nb_rem1) NB_LANEWISE2(nb_pow, nb_pow1) NB_LANEWISE2(nb_atan2, nb_atan21)
NB_LANEWISE2(nb_shift_left, nb_shift_left1) NB_LANEWISE2(nb_shift_right, nb_shift_right1)
NB_LANEWISE2(nb_shift_right_logical, nb_shift_right_logical1)
NB_LANEWISE1(nb_popcount, nb_popcount1) NB_LANEWISE1(nb_clz, nb_clz1)
NB_LANEWISE2(nb_floordiv, nb_floordiv1) NB_LANEWISE2(nb_mod, nb_mod1) NB_LANEWISE2(nb_idiv, nb_div1)
template <class V> NB_FN V nb_div(V a, V b) {
  if constexpr (nb_is_float<nb_scalar<V>>) return a / b;
  else return nb_idiv(a, b);
}
#define NB_LIBM(name, function)                                                    \
  template <class T> NB_FN T name##1(T x) {                                        \
    if constexpr (nb_same<T, float>) return __builtin_##function##f(x);            \
    else return __builtin_##function(x);                                           \
  }                                                                                \
  NB_LANEWISE1(name, name##1)
NB_LIBM(nb_sqrt, sqrt) NB_LIBM(nb_floor, floor) NB_LIBM(nb_ceil, ceil) NB_LIBM(nb_round, rint) NB_LIBM(nb_tan, tan)
NB_LIBM(nb_libm_exp, exp) NB_LIBM(nb_libm_expm1, expm1) NB_LIBM(nb_libm_log, log) NB_LIBM(nb_libm_log1p, log1p)
NB_LIBM(nb_libm_sin, sin) NB_LIBM(nb_libm_cos, cos) NB_LIBM(nb_libm_tanh, tanh) NB_LIBM(nb_libm_erf, erf)
template <class V> NB_FN V nb_abs(V x) {
  if constexpr (nb_same<nb_scalar<V>, float>) return nb_float(nb_bits(x) & 0x7fffffff);
  else return nb_select(nb_gt(x, V{}), x, V(V{} - x));  // of -0 too
}
template <> NB_INLINE inline double nb_abs<double>(double x) { return __builtin_fabs(x); }
// x as a float, odd in its last bit where bits are lost: rounding that to a format of at most 22 bits gives what rounding
// x gives, as if there were no float between.
template <class V> NB_FN auto nb_odd(V x) {
  using E = nb_scalar<V>;
  if constexpr (nb_same<E, long> || nb_same<E, unsigned long>) {  // to 53 bits, in the same way
    V size = x;
    if constexpr (nb_is_signed<E>) size = x ^ (x >> 63);
    V cut = (x & ~E(4095)) | ((((x & E(4095)) + E(4095)) >> 12) << 11);
    x = nb_select(nb_ne(V(size >> 53), V{}), cut, x);
  }
  auto exact = nb_convert<double>(x);
  auto f = nb_convert<float>(exact);
  auto back = nb_convert<double>(f);
  auto bits = nb_bits(f);
  auto next = nb_select(nb_gt(nb_abs(back), nb_abs(exact)), bits - 1, bits + 1);
  return nb_float(nb_select(nb_and(nb_ne(back, exact), nb_eq(bits & 1, bits & 0)), next, bits));
}
template <class V> NB_FN V nb_sign(V x) {
  V one = nb_splat<V>(nb_scalar<V>(1));
  if constexpr (nb_is_signed<nb_scalar<V>>)
    return nb_select(nb_gt(x, V{}), one, nb_select(nb_lt(x, V{}), V(-one), V(x + V{})));  // 0 of -0
  else return nb_select(nb_gt(x, V{}), one, x);
}
template <class V> NB_FN V nb_rsqrt(V x) { return nb_splat<V>(nb_scalar<V>(1)) / nb_sqrt(x); }

// ---- Transcendental functions in f32; f64 goes to libm lane by lane.
// Rounding to an integer by adding 1.5 * 2^23 works for |x| < 2^22, also on vectors.
template <class V> NB_FN V nb_nearest(V x) { return (x + 12582912.0f) - 12582912.0f; }
// Arithmetic on subnormal numbers takes a hundred cycles longer than on others. The functions below therefore keep their
// intermediate results away from them: a subnormal occurs only as an argument or as the right result.
// x, or 0 if x is so small that its square, and products with it, would be subnormal.
template <class V> NB_FN V nb_squarable(V x) {
  return nb_select(nb_lt(nb_abs(x), nb_splat<V>(0x1p-60f)), V{}, x);
}
// p * 2^k, rounded once, for p in [1/2, 3/2] and results below 2^128. A subnormal result is rounded by an addition whose
// last bit has the value 2^-149 in the scale of y = result * 2^126.
template <class V, class I> NB_FN V nb_scale(V p, I k) {
  auto small = nb_lt(k, nb_splat<I>(-125));
  I zero = I{}, one = nb_bits(nb_splat<V>(1.0f)), shift = nb_splat<I>(126 << 23);
  I bits = nb_bits(p) + (k << 23) + nb_select(small, shift, zero);
  V y = nb_float(bits);
  I rounded = nb_bits(y + 1.0f) - one;
  return nb_float(nb_select(nb_and(small, nb_lt(bits, one)), rounded, bits - nb_select(small, shift, zero)));
}
template <class V> NB_FN V nb_exp32(V x) {
  V c = nb_select(nb_gt(x, nb_splat<V>(88.7228317f)), nb_splat<V>(88.7228317f), x);  // NaN compares false and stays
  c = nb_select(nb_lt(c, nb_splat<V>(-104.0f)), nb_splat<V>(-104.0f), c);
  V n = nb_nearest(c * 1.44269504088896341f);
  V r = c - n * 0.693359375f;
  r = r - n * -2.12194440054690581e-4f;
  V p = r * 1.98909808698e-4f + 1.3933641032e-3f;
  p = p * r + 8.33331093445e-3f;
  p = p * r + 4.1666465006e-2f;
  p = p * r + 0.166666666816f;
  p = p * r + 0.500000001346f;
  p = (p * r + 1.0f) * r + 1.0f;
  V y = nb_scale(p, nb_to_int(nb_select(nb_is_nan(n), V{}, n)));
  return nb_select(nb_gt(x, nb_splat<V>(88.7228317f)), nb_splat<V>(__builtin_inff()), y);
}
template <class V> NB_FN V nb_log32(V x) {
  auto tiny = nb_lt(x, nb_splat<V>(1.17549435e-38f));
  V y = nb_select(tiny, nb_to_float(nb_bits(x)), x);   // a subnormal x is its bits * 2^-149
  auto bits = nb_bits(y);
  auto e = ((bits - 0x3f3504f3) >> 23);                // y = 2^e * m, m in [sqrt(1/2), sqrt(2))
  V f = nb_float(bits - (e << 23)) - 1.0f;
  V ef = nb_to_float(e) - nb_select(tiny, nb_splat<V>(149.0f), V{});
  V p = f * -0.0620150011902f + 0.105308647389f;
  p = p * f + -0.106461916382f;
  p = p * f + 0.110377833591f;
  p = p * f + -0.124507433209f;
  p = p * f + 0.142865245478f;
  p = p * f + -0.166680015231f;
  p = p * f + 0.200000100397f;
  p = p * f + -0.24999990275f;
  p = p * f + 0.333333332812f;
  V z = f * f;
  V r = (p * f * z + ef * -2.12194440054690581e-4f) - z * 0.5f + f + ef * 0.693359375f;
  V inf = nb_splat<V>(__builtin_inff());
  r = nb_select(nb_eq(x, inf), x, r);
  r = nb_select(nb_eq(x, V{}), -inf, r);
  return nb_select(nb_or(nb_lt(x, V{}), nb_is_nan(x)), nb_splat<V>(__builtin_nanf("")), r);
}
template <class V> NB_FN V nb_copysign32(V magnitude, V sign) {
  return nb_float((nb_bits(magnitude) & 0x7fffffff) | (nb_bits(sign) & int(0x80000000)));
}
template <class V> NB_FN V nb_expm132(V x) {
  V z = nb_squarable(x);
  V p = z * 2.76828561695e-06f + 2.49397333001e-05f;
  p = p * z + 0.000198410735562f;
  p = p * z + 0.00138886728621f;
  p = p * z + 0.0083333334315f;
  p = p * z + 0.0416666677471f;
  p = p * z + 0.166666666666f;
  p = p * z + 0.5f;
  V near = p * (z * z) + x;
  return nb_copysign32(nb_select(nb_lt(nb_abs(x), nb_splat<V>(0.5f)), near, nb_exp32(x) - 1.0f), x);
}
template <class V> NB_FN V nb_log1p32(V x) {
  V u = x + 1.0f;
  V y = nb_log32(u) + (x - (u - 1.0f)) / u;            // adds back what the sum's rounding lost
  return nb_select(nb_or(nb_eq(u, nb_splat<V>(1.0f)), nb_eq(x, nb_splat<V>(__builtin_inff()))), x,
                   nb_select(nb_eq(u, V{}), nb_splat<V>(-__builtin_inff()), y));
}
template <class V> NB_FN V nb_tanh32(V x) {
  V z = nb_squarable(x), t = z * z;
  V p = t * 0.00229274481618f + -0.00834394551584f;
  p = p * t + 0.021768918651f;
  p = p * t + -0.0539592595772f;
  p = p * t + 0.133333035569f;
  p = p * t + -0.333333331721f;
  V near = p * t * z + x;
  V a = nb_abs(x);
  V far = 1.0f - 2.0f / (nb_exp32(a + a) + 1.0f);
  return nb_copysign32(nb_select(nb_lt(a, nb_splat<V>(0.625f)), near, far), x);
}
template <class V> NB_FN V nb_erf32(V x) {
  V z = nb_squarable(x), t = z * z;
  V p = t * -9.66704457149e-06f + 0.000112659590256f;
  p = p * t + -0.000848408040554f;
  p = p * t + 0.00522103180786f;
  p = p * t + -0.0268654307277f;
  p = p * t + 0.112837824952f;
  p = p * t + -0.37612638468f;
  p = p * t + 1.12837916706f;
  V a = nb_abs(x);
  V c = nb_select(nb_gt(a, nb_splat<V>(3.95f)), nb_splat<V>(3.95f), a);
  V q = c * 1.65832052157e-06f + -4.64599236542e-05f;   // log(erfc(c))
  q = q * c + 0.000600055478965f;
  q = q * c + -0.00477419102811f;
  q = q * c + 0.0264608791517f;
  q = q * c + -0.110147179474f;
  q = q * c + -0.631757550491f;
  q = q * c + -1.13027207467f;
  q = q * c + 0.000329357089162f;
  V far = nb_copysign32(1.0f - nb_exp32(q), x);
  return nb_select(nb_lt(a, nb_splat<V>(1.0f)), p * x, nb_select(nb_is_nan(x), x, far));
}
// quarter: 0 for sin, 1 for cos. Beyond 1024 the three-part reduction loses bits: those lanes go to libm.
template <class V> NB_FN V nb_sincos32(V x, int quarter) {
  V n = nb_nearest(x * 0.636619772367581343f);
  V r = x - n * 1.5703125f;
  r = r - n * 0.0004837512969970703f;
  r = r - n * 7.549789954891882e-08f;
  V z = nb_squarable(r), t = z * z;
  V s = t * 2.72499258031e-06f + -0.000198400867354f;
  s = s * t + 0.00833333187471f;
  s = s * t + -0.166666666639f;
  s = s * t * z + r;
  V c = t * -2.73009592039e-07f + 2.48006003772e-05f;
  c = c * t + -0.0013888887672f;
  c = c * t + 0.0416666666643f;
  c = c * t * t - t * 0.5f + 1.0f;
  auto far = nb_not(nb_lt(nb_abs(x), nb_splat<V>(1024.0f)));
  auto q = nb_to_int(nb_select(far, V{}, n)) + quarter;
  V y = nb_select(nb_eq(q & 1, q & 0), s, c);
  y = nb_select(nb_eq(q & 2, q & 0), y, -y);
  if (quarter == 0) y = nb_select(nb_eq(x, V{}), x, y);  // the sign of 0
  if constexpr (nb_is_vec<V>) {
    for (int l = 0; l < NB_L; ++l)
      if (__builtin_expect(far[l], 0)) y[l] = quarter ? __builtin_cosf(x[l]) : __builtin_sinf(x[l]);
    return y;
  } else {
    return far ? (quarter ? __builtin_cosf(x) : __builtin_sinf(x)) : y;
  }
}
// name##_called is for kernels of many calls: with all of them taken in, the compiler's time would be theirs.
#define NB_MATH(name, f32, f64)                                        \
  template <class V> NB_FN V name(V x) {                               \
    if constexpr (nb_same<nb_scalar<V>, float>) return f32;            \
    else return f64(x);                                                \
  }                                                                    \
  template <class V> static __attribute__((noinline)) V name##_called(V x) { return name(x); }
NB_MATH(nb_exp, nb_exp32(x), nb_libm_exp) NB_MATH(nb_expm1, nb_expm132(x), nb_libm_expm1)
NB_MATH(nb_log, nb_log32(x), nb_libm_log) NB_MATH(nb_log1p, nb_log1p32(x), nb_libm_log1p)
NB_MATH(nb_tanh, nb_tanh32(x), nb_libm_tanh) NB_MATH(nb_erf, nb_erf32(x), nb_libm_erf)
NB_MATH(nb_sin, nb_sincos32(x, 0), nb_libm_sin) NB_MATH(nb_cos, nb_sincos32(x, 1), nb_libm_cos)
