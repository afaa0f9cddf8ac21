// What generated CUDA kernels are written in: one element at a time, in the functions that kernel_ir names.
// No includes: NVRTC knows the mathematics and the bit casts by itself. 16-bit and smaller floats are computed in f32.

#ifdef __CUDACC_RTC__
#pragma nv_diag_suppress 177  // functions that nobody calls
#endif
#define NB_FN static __device__ __forceinline__

typedef signed char nb_i8;
typedef unsigned char nb_u8;
typedef unsigned short nb_u16;
typedef unsigned long nb_u64;

// Constants are printed as host compilers spell them.
#define __builtin_inff() __int_as_float(0x7f800000)
#define __builtin_nanf(text) __int_as_float(0x7fc00000)
#define __builtin_inf() double(__builtin_inff())
#define __builtin_nan(text) double(__builtin_nanf(text))

// `inf` is the code of infinity, or of the NaN that stands for it in formats without.
template <class Bits, int mantissa, int bias, unsigned inf, unsigned nan> struct nb_small { Bits bits; };
typedef nb_small<unsigned short, 10, 15, 0x7c00, 0x7e00> nb_f16;
typedef nb_small<unsigned short, 7, 127, 0x7f80, 0x7fc0> nb_bf16;
typedef nb_small<unsigned char, 3, 7, 0x7f, 0x7f> nb_f8e4m3;
typedef nb_small<unsigned char, 2, 15, 0x7c, 0x7e> nb_f8e5m2;

// ---- Teams: a thread, a warp, or a block of `size` threads
template <int size> NB_FN int nb_rank() { return threadIdx.x % size; }
template <int size> NB_FN int nb_team() { return (blockIdx.x * blockDim.x + threadIdx.x) / size; }
template <int size> NB_FN int nb_teams() { return gridDim.x * blockDim.x / size; }
template <int size> NB_FN void nb_sync() {
  if constexpr (size == 32) __syncwarp();
  else __syncthreads();
}
#ifndef NB_SHARED  // dynamic shared memory; an emulator has its own
#define NB_SHARED(T, name)                             \
  extern __shared__ __align__(16) unsigned char nb_room[]; \
  T* const name = (T*)nb_room
#endif

template <class T> NB_FN T nb_shuffle_xor(T x, int lanes) {
  if constexpr (sizeof(T) < 4) return T(__shfl_xor_sync(0xffffffffu, int(x), lanes));
  else return __shfl_xor_sync(0xffffffffu, x, lanes);
}
template <class T> NB_FN T nb_shuffle(T x, int lane) {
  if constexpr (sizeof(T) < 4) return T(__shfl_sync(0xffffffffu, int(x), lane));
  else return __shfl_sync(0xffffffffu, x, lane);
}
NB_FN double* nb_partials() {
  __shared__ double partials[32];
  return partials;
}
// The numbers of all threads of a team, combined in one tree: all get the same bits. In a block there are barriers in it;
// in a warp there are none.
template <int size, class Op, class T> NB_FN T nb_combine(Op op, T x) {
  for (int lanes = 16; lanes > 0; lanes /= 2) x = op(x, nb_shuffle_xor(x, lanes));
  if constexpr (size == 32) {
    x = nb_shuffle(x, 0);
  } else {
    T* partials = (T*)nb_partials();
    __syncthreads();  // all have read those of the call before
    if (threadIdx.x % 32 == 0) partials[threadIdx.x / 32] = x;
    __syncthreads();
    x = partials[0];
    for (int warp = 1; warp < size / 32; ++warp) x = op(x, partials[warp]);
  }
  return x;
}

// ---- Memory
template <class T> NB_FN T nb_widen(T x) { return x; }
template <class B, int mantissa, int bias, unsigned inf, unsigned nan>
NB_FN float nb_widen(nb_small<B, mantissa, bias, inf, nan> x) {
  unsigned sign = 1u << (8 * sizeof(B) - 1), m = x.bits & (sign - 1);
  float f = __int_as_float(int(m << (23 - mantissa))) * __int_as_float((254 - bias) << 23);
  if (m >= inf) f = __int_as_float(m > inf || inf == nan ? 0x7fc00000 : 0x7f800000);
  return x.bits & sign ? -f : f;
}
template <class T, class S> NB_FN T nb_narrow(T, S x) { return T(x); }
// Rounds to nearest even; the addition in `small` rounds to the spacing of subnormals.
template <class B, int mantissa, int bias, unsigned inf, unsigned nan>
NB_FN nb_small<B, mantissa, bias, inf, nan> nb_narrow(nb_small<B, mantissa, bias, inf, nan>, float x) {
  unsigned u = unsigned(__float_as_int(x)), m = u & 0x7fffffff, sign = (u >> 31) << (8 * sizeof(B) - 1), shift = 23 - mantissa;
  int magic = (127 + 24 - mantissa - bias) << 23;
  unsigned small = unsigned(__float_as_int(__int_as_float(int(m)) + __int_as_float(magic)) - magic);
  unsigned normal = (m + (1u << (shift - 1)) - 1 + ((m >> shift) & 1) - (unsigned(127 - bias) << 23)) >> shift;
  unsigned code = m < (unsigned(128 - bias) << 23) ? small : normal;
  return {B(sign | (m > 0x7f800000 ? nan : m == 0x7f800000 || code > inf ? inf : code))};
}
// Halves by the GPU's own conversions; an emulator has those above.
NB_FN float nb_widen(nb_bf16 x) { return __int_as_float(int(unsigned(x.bits) << 16)); }
#ifndef NB_EMULATOR
NB_FN float nb_widen(nb_f16 x) {
  float f;
  asm("cvt.f32.f16 %0, %1;" : "=f"(f) : "h"(x.bits));
  return f;
}
NB_FN nb_bf16 nb_narrow(nb_bf16 x, float f) {
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(x.bits) : "f"(f));
  return x;
}
NB_FN nb_f16 nb_narrow(nb_f16 x, float f) {
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(x.bits) : "f"(f));
  return x;
}
#endif
template <class H> NB_FN float nb_round_to(float x) { return nb_widen(nb_narrow(H{}, x)); }

// ---- Packs: neighbouring elements that move together, by the widest access that their bytes allow
template <class T, int width> struct alignas(sizeof(T) * width < 16 ? sizeof(T) * width : 16) nb_pack { T at[width]; };
template <int width, class T> NB_FN nb_pack<T, width> nb_load_pack(const T* p) { return *(const nb_pack<T, width>*)p; }
template <class T, int width> NB_FN void nb_store_pack(T* p, const nb_pack<T, width>& x) { *(nb_pack<T, width>*)p = x; }
// The same where an address may be any.
template <int width, class T> NB_FN nb_pack<T, width> nb_load_each(const T* p) {
  nb_pack<T, width> x;
  for (int i = 0; i < width; ++i) x.at[i] = p[i];
  return x;
}
template <class T, int width> NB_FN void nb_store_each(T* p, const nb_pack<T, width>& x) {
  for (int i = 0; i < width; ++i) p[i] = x.at[i];
}
NB_FN bool nb_is_aligned(const void* p) { return (unsigned long)p % 16 == 0; }

// ---- Conversions: floats go towards zero and stop at the ends; NaN gives 0
template <class T> struct nb_type { static const bool is_float = false, is_bool = false; };
template <> struct nb_type<float> { static const bool is_float = true, is_bool = false; };
template <> struct nb_type<double> { static const bool is_float = true, is_bool = false; };
template <> struct nb_type<bool> { static const bool is_float = false, is_bool = true; };
template <class T> NB_FN constexpr bool nb_signed() { return T(-1) < T(0); }
template <class S, class T> NB_FN S nb_convert(T x) {
  if constexpr (nb_type<S>::is_bool) {
    return x != T(0);
  } else if constexpr (nb_type<T>::is_float && !nb_type<S>::is_float) {
    const S low = nb_signed<S>() ? S(S(1) << (8 * sizeof(S) - 1)) : S(0), high = S(~low);
    return x != x ? S(0) : x <= T(low) ? low : x >= T(high) ? high : S(x);
  } else {
    return S(x);
  }
}

// x as a float, odd in its last bit where bits are lost: rounding that to a format of at most 22 bits gives what rounding
// x gives, as if there were no float between.
template <class T> NB_FN float nb_odd(T x) {
  if constexpr (!nb_type<T>::is_float && sizeof(T) == 8) {  // to 53 bits, in the same way
    if ((nb_signed<T>() && x < T(0) ? T(~x) : x) >> 53) x = (x & ~T(4095)) | (x & T(4095) ? T(2048) : T(0));
  }
  double exact = double(x);
  float f = float(exact);
  int bits = __float_as_int(f);
  if (double(f) == exact || bits & 1) return f;
  bool beyond = exact < 0 ? double(f) < exact : double(f) > exact;
  return __int_as_float(beyond ? bits - 1 : bits + 1);
}

// The bits of an element in memory as those of another dtype of its size.
template <class To, class From, class V> NB_FN auto nb_bitcast(V x) {
  union { From from; To to; } u;
  u.from = nb_narrow(From{}, x);
  return nb_widen(u.to);
}

// ---- Arithmetic
template <class T> NB_FN T nb_add(T a, T b) { return T(a + b); }
template <class T> NB_FN T nb_sub(T a, T b) { return T(a - b); }
template <class T> NB_FN T nb_mul(T a, T b) { return T(a * b); }
template <class T> NB_FN T nb_neg(T a) { return T(-a); }
template <class T> NB_FN T nb_and(T a, T b) { return T(a & b); }
template <class T> NB_FN T nb_or(T a, T b) { return T(a | b); }
template <class T> NB_FN T nb_xor(T a, T b) { return T(a ^ b); }
template <class T> NB_FN T nb_not(T a) { return !a; }  // of bool; other types are printed in place
template <class T> NB_FN T nb_maximum(T a, T b) { return a > b || a != a ? a : b; }
template <class T> NB_FN T nb_minimum(T a, T b) { return a < b || a != a ? a : b; }
template <class T> NB_FN T nb_abs(T x) {
  if constexpr (nb_type<T>::is_float) return T(fabs(x));
  else return x < T(0) ? T(-x) : x;
}
template <class T> NB_FN T nb_sign(T x) { return x > T(0) ? T(1) : x < T(0) ? T(-1) : x; }
template <class T> NB_FN T nb_div(T a, T b) {  // integers by zero: all bits set; overflow: the dividend
  if constexpr (nb_type<T>::is_float) return a / b;
  else return b == T(0) ? T(-1) : nb_signed<T>() && b == T(-1) ? T(0 - (unsigned long)a) : T(a / b);
}
template <class T> NB_FN T nb_rem(T a, T b) {
  if constexpr (nb_type<T>::is_float) return T(fmod(a, b));
  else return b == T(0) ? a : nb_signed<T>() && b == T(-1) ? T(0) : T(a % b);
}
template <class T> NB_FN T nb_pow(T a, T b) {
  if constexpr (nb_type<T>::is_float) {
    return T(pow(a, b));
  } else {
    if (b < T(0)) return a == T(1) ? T(1) : a == T(-1) ? (b % T(2) ? T(-1) : T(1)) : T(0);
    unsigned long r = 1, x = (unsigned long)a;
    for (unsigned long e = (unsigned long)b; e; e >>= 1, x *= x)
      if (e & 1) r *= x;
    return T(r);
  }
}
template <class T> NB_FN T nb_shift_left(T a, T b) {
  return b < T(0) || b >= T(8 * sizeof(T)) ? T(0) : T((unsigned long)a << b);
}
template <class T> NB_FN T nb_shift_right_logical(T a, T b) {
  const unsigned long mask = ~0ul >> (64 - 8 * sizeof(T));
  return b < T(0) || b >= T(8 * sizeof(T)) ? T(0) : T(((unsigned long)a & mask) >> b);
}
template <class T> NB_FN T nb_popcount(T x) { return T(__popcll((unsigned long)x & (~0ul >> (64 - 8 * sizeof(T))))); }
template <class T> NB_FN T nb_clz(T x) {
  return T(__clzll((unsigned long)x & (~0ul >> (64 - 8 * sizeof(T)))) - (64 - 8 * int(sizeof(T))));
}
template <class T> NB_FN T nb_shift_right(T a, T b) {
  return b < T(0) || b >= T(8 * sizeof(T)) ? (a < T(0) ? T(-1) : T(0)) : T(a >> b);
}
template <class T> NB_FN T nb_floordiv(T a, T b) { return T(a / b - (a % b < 0)); }
template <class T> NB_FN T nb_mod(T a, T b) { return T(a % b + (a % b < 0 ? b : 0)); }
template <class T> NB_FN bool nb_eq(T a, T b) { return a == b; }
template <class T> NB_FN bool nb_ne(T a, T b) { return a != b; }
template <class T> NB_FN bool nb_lt(T a, T b) { return a < b; }
template <class T> NB_FN bool nb_le(T a, T b) { return a <= b; }
template <class T> NB_FN bool nb_gt(T a, T b) { return a > b; }
template <class T> NB_FN bool nb_ge(T a, T b) { return a >= b; }
template <class T> NB_FN bool nb_is_nan(T x) { return x != x; }
template <class T> NB_FN bool nb_is_finite(T x) { return x - x == T(0); }

// ---- What combines in reductions, as values
#define NB_OP(name)           \
  struct nb_##name##_op {     \
    template <class T> __device__ T operator()(T a, T b) const { return nb_##name<T>(a, b); } \
  };
NB_OP(add) NB_OP(mul) NB_OP(maximum) NB_OP(minimum) NB_OP(and) NB_OP(or)
#undef NB_OP

// ---- Mathematics
#define NB_MATH(name, f32, f64)                   \
  NB_FN float nb_##name(float x) { return f32(x); } \
  NB_FN double nb_##name(double x) { return f64(x); }
NB_MATH(exp, expf, exp) NB_MATH(expm1, expm1f, expm1) NB_MATH(log, logf, log) NB_MATH(log1p, log1pf, log1p)
NB_MATH(sqrt, sqrtf, sqrt) NB_MATH(rsqrt, 1.0f / sqrtf, 1.0 / sqrt) NB_MATH(sin, sinf, sin) NB_MATH(cos, cosf, cos)
NB_MATH(tan, tanf, tan) NB_MATH(tanh, tanhf, tanh) NB_MATH(erf, erff, erf) NB_MATH(floor, floorf, floor)
NB_MATH(ceil, ceilf, ceil) NB_MATH(round, rintf, rint) NB_MATH(trunc, truncf, trunc) NB_MATH(cbrt, cbrtf, cbrt)
NB_MATH(erfc, erfcf, erfc) NB_MATH(erfinv, erfinvf, erfinv) NB_MATH(lgamma, lgammaf, lgamma) NB_MATH(exp2, exp2f, exp2)
NB_MATH(log2, log2f, log2) NB_MATH(asin, asinf, asin) NB_MATH(acos, acosf, acos) NB_MATH(atan, atanf, atan)
NB_MATH(sinh, sinhf, sinh) NB_MATH(cosh, coshf, cosh) NB_MATH(asinh, asinhf, asinh) NB_MATH(acosh, acoshf, acosh)
NB_MATH(atanh, atanhf, atanh)
#undef NB_MATH
NB_FN float nb_atan2(float y, float x) { return atan2f(y, x); }
NB_FN double nb_atan2(double y, double x) { return atan2(y, x); }

// 2^x to two units in the last place of an f32, which is more than halves keep.
#ifdef NB_EMULATOR
NB_FN float nb_exp2_of_halves(float x) { return exp2f(x); }
#else
NB_FN float nb_exp2_of_halves(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
#endif

// Philox4x32-10: the four words of a block; word index % 4 of block index / 4.
NB_FN void nb_philox_block(unsigned k0, unsigned k1, unsigned long block, unsigned (&c)[4]) {
  c[0] = unsigned(block), c[1] = unsigned(block >> 32), c[2] = c[3] = 0;
  for (int round = 0; round < 10; ++round, k0 += 0x9E3779B9, k1 += 0xBB67AE85) {
    unsigned long p0 = 0xD2511F53ul * c[0], p1 = 0xCD9E8D57ul * c[2];
    c[0] = unsigned(p1 >> 32) ^ c[1] ^ k0, c[1] = unsigned(p1);
    c[2] = unsigned(p0 >> 32) ^ c[3] ^ k1, c[3] = unsigned(p0);
  }
}
NB_FN unsigned nb_philox(unsigned k0, unsigned k1, long index) {
  unsigned c[4];
  nb_philox_block(k0, k1, (unsigned long)index / 4, c);
  return c[index & 3];
}

// ---- Stores that meet, of integers: any order gives the same
#define NB_ATOMIC(name, function)                                                                              \
  NB_FN void nb_atomic_##name(int* p, int x) { function(p, x); }                                               \
  NB_FN void nb_atomic_##name(unsigned* p, unsigned x) { function(p, x); }                                     \
  NB_FN void nb_atomic_##name(nb_u64* p, nb_u64 x) { function((unsigned long long*)p, (unsigned long long)x); }
NB_ATOMIC(add, atomicAdd) NB_ATOMIC(maximum, atomicMax) NB_ATOMIC(minimum, atomicMin) NB_ATOMIC(and, atomicAnd) NB_ATOMIC(or, atomicOr)
#undef NB_ATOMIC
NB_FN void nb_atomic_add(long* p, long x) { atomicAdd((unsigned long long*)p, (unsigned long long)x); }
NB_FN void nb_atomic_maximum(long* p, long x) { atomicMax((long long*)p, (long long)x); }
NB_FN void nb_atomic_minimum(long* p, long x) { atomicMin((long long*)p, (long long)x); }
NB_FN void nb_atomic_and(long* p, long x) { atomicAnd((unsigned long long*)p, (unsigned long long)x); }
NB_FN void nb_atomic_or(long* p, long x) { atomicOr((unsigned long long*)p, (unsigned long long)x); }

// Two halves in a register, the first one in its lower bits.
#ifdef NB_EMULATOR
template <class H> NB_FN unsigned nb_two(H, float first, float second) {
  return nb_narrow(H{}, first).bits | unsigned(nb_narrow(H{}, second).bits) << 16;
}
#else
NB_FN unsigned nb_two(nb_bf16, float first, float second) {
  unsigned both;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(second), "f"(first));
  return both;
}
NB_FN unsigned nb_two(nb_f16, float first, float second) {
  unsigned both;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(second), "f"(first));
  return both;
}
#endif

// ---- Asynchronous copies and tensor cores, of sm_80 and later. Fragments as the PTX manual draws them.
// A register of a fragment: two neighbouring halves, or one f32.
template <class T> NB_FN unsigned nb_word(const T* p) { return *(const unsigned*)p; }

#ifdef NB_EMULATOR
NB_FN void nb_cp_async_16(void* shared, const void* global) { nb_emu_cp_async(shared, global, 16); }
template <int bytes> NB_FN void nb_cp_async_if(void* shared, const void* global, bool there) {
  if (there) nb_emu_cp_async(shared, global, bytes);
  else nb_store_pack((unsigned*)shared, nb_pack<unsigned, bytes / 4>{});
}
NB_FN void nb_cp_commit() { nb_emu_cp_commit(); }
template <int groups> NB_FN void nb_cp_wait() { nb_emu_cp_wait(groups); }
NB_FN void nb_mma_16816(float* d, const unsigned* a, const unsigned* b, nb_bf16) {
  nb_emu_mma_with("mma.bf16", nb_emu_mma_bf16, d, a, b);
}
NB_FN void nb_mma_16816(float* d, const unsigned* a, const unsigned* b, nb_f16) {
  nb_emu_mma_with("mma.f16", nb_emu_mma_f16, d, a, b);
}
NB_FN void nb_mma_1688_tf32(float* d, const unsigned* a, const unsigned* b) {
  nb_emu_mma_with("mma.tf32", nb_emu_mma_tf32, d, a, b);
}
#define NB_MMA_F8(A, B)                                                                                                      \
  NB_FN void nb_mma_16832(float* d, const float* c, const unsigned* a, const unsigned* b, nb_f8##A, nb_f8##B) {              \
    for (int r = 0; r < 4; ++r) d[r] = c[r];                                                                                 \
    nb_emu_mma_with("mma." #A "." #B, nb_emu_mma_f8<nb_emu_##A, nb_emu_##B>, d, a, b);                                       \
  }
NB_FN void nb_ldmatrix_x4(unsigned* r, const void* shared_row) { nb_emu_ldmatrix_x4(r, shared_row); }
NB_FN void nb_ldmatrix_x4_trans(unsigned* r, const void* shared_row) { nb_emu_ldmatrix_x4_trans(r, shared_row); }
NB_FN unsigned nb_to_tf32(unsigned f32) { return nb_emu_to_tf32(f32); }
#else
NB_FN unsigned nb_shared_address(const void* p) { return unsigned(__cvta_generic_to_shared(p)); }
/// 16 bytes, both addresses multiples of 16; there once the group has been waited for.
NB_FN void nb_cp_async_16(void* shared, const void* global) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(nb_shared_address(shared)), "l"(global) : "memory");
}
/// 4, 8 or 16 bytes at addresses that are multiples of them, or zeros, for which nothing is read.
template <int bytes> NB_FN void nb_cp_async_if(void* shared, const void* global, bool there) {
  const unsigned to = nb_shared_address(shared), from = there ? bytes : 0;
  if constexpr (bytes == 16)
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(global), "r"(from) : "memory");
  else
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"(to), "l"(global), "n"(bytes), "r"(from) : "memory");
}
NB_FN void nb_cp_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
/// Until at most `groups` of this thread's groups are under way.
template <int groups> NB_FN void nb_cp_wait() { asm volatile("cp.async.wait_group %0;" ::"n"(groups) : "memory"); }
/// D[16, 8] += A[16, 16] B[16, 8] by a warp: per lane 4 of d, 4 registers of a, 2 of b.
#define NB_MMA(shape, type)                                                                                    \
  asm("mma.sync.aligned." shape ".row.col.f32." type "." type ".f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, "   \
               "{%8,%9}, {%0,%1,%2,%3};"                                                                       \
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])                                                \
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]))
NB_FN void nb_mma_16816(float* d, const unsigned* a, const unsigned* b, nb_bf16) { NB_MMA("m16n8k16", "bf16"); }
NB_FN void nb_mma_16816(float* d, const unsigned* a, const unsigned* b, nb_f16) { NB_MMA("m16n8k16", "f16"); }
/// D[16, 8] += A[16, 8] B[8, 8]; of a and b the upper 19 bits count.
NB_FN void nb_mma_1688_tf32(float* d, const unsigned* a, const unsigned* b) { NB_MMA("m16n8k8", "tf32"); }
#undef NB_MMA
/// D[16, 8] = C + A[16, 32] B[32, 8], of sm_89 and later.
#define NB_MMA_F8(A, B)                                                                                                      \
  NB_FN void nb_mma_16832(float* d, const float* c, const unsigned* a, const unsigned* b, nb_f8##A, nb_f8##B) {              \
    asm("mma.sync.aligned.m16n8k32.row.col.f32." #A "." #B ".f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%10,%11,%12,%13};"   \
        : "=f"(d[0]), "=f"(d[1]), "=f"(d[2]), "=f"(d[3])                                                                     \
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]), "f"(c[0]), "f"(c[1]), "f"(c[2]), "f"(c[3]));     \
  }
/// Four 8 x 8 matrices of 16-bit elements: lane 8 i + r gives the address of row r of matrix i.
NB_FN void nb_ldmatrix_x4(unsigned* r, const void* shared_row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(nb_shared_address(shared_row))
               : "memory");
}
/// The same matrices transposed.
NB_FN void nb_ldmatrix_x4_trans(unsigned* r, const void* shared_row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(nb_shared_address(shared_row))
               : "memory");
}
/// The bits of an f32 rounded to tf32, to nearest, ties away from zero.
NB_FN unsigned nb_to_tf32(unsigned f32) {
  unsigned tf32;
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(tf32) : "r"(f32));
  return tf32;
}
#endif
NB_MMA_F8(e4m3, e4m3) NB_MMA_F8(e4m3, e5m2) NB_MMA_F8(e5m2, e4m3) NB_MMA_F8(e5m2, e5m2)
#undef NB_MMA_F8
// D += A B. Tensor cores keep about 14 bits of a sum of products of 8-bit floats: so each sums 32 of them alone, and f32 has the
// rest. Those of sm_90 and sm_100 multiply by mma what was converted to f16, and keep f32.
template <class A, class B> NB_FN void nb_mma_16832(float* d, const unsigned* a, const unsigned* b, A, B) {
#if defined(NB_EMULATOR) || __CUDA_ARCH__ < 900 || __CUDA_ARCH__ >= 1200
  const float zeros[4] = {};
  float sums[4];
  nb_mma_16832(sums, zeros, a, b, A{}, B{});
  for (int r = 0; r < 4; ++r) d[r] += sums[r];
#else
  nb_mma_16832(d, d, a, b, A{}, B{});
#endif
}
// Fragments of 8-bit elements from a tile with rows of k: 32 of k and 16 neighbours across. ldmatrix turns pairs of neighbours, so a
// lane has four of k for neighbour 2 (lane / 4) in r[0] and r[2], for the next in r[1] and r[3]: rows of a fragment lie by turns in
// its upper and its lower half. A matrix takes pairs of k in an order in which its eight rows lie in different banks.
template <class T> NB_FN void nb_ldmatrix_x4_bytes_trans(unsigned* r, const T* tile, int pitch) {
  const int lane = threadIdx.x % 32;
  const int k = lane / 16 * 16 + lane % 8 / 2 * 4 + (lane / 8 % 2 ^ lane / 4 % 2) * 2 + lane % 2;
  unsigned x[4];
  nb_ldmatrix_x4_trans(x, tile + k * pitch);
  const bool later_first = lane & 2;
  const unsigned even = later_first ? 0x2064 : 0x6420, odd = later_first ? 0x3175 : 0x7531;
  r[0] = __byte_perm(x[0], x[1], even), r[1] = __byte_perm(x[0], x[1], odd);
  r[2] = __byte_perm(x[2], x[3], even), r[3] = __byte_perm(x[2], x[3], odd);
}
