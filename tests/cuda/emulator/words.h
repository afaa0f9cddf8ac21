// CUDA's words for a host compiler. Text in front of a source, after abi.h.
#pragma once
#include <math.h>
#include <string.h>

extern "C" {
__attribute__((visibility("hidden"))) extern const NbEmuHost* nb_emu_host;
// A thread keeps its place as long as it runs.
__attribute__((visibility("hidden"), const)) NbEmuPosition nb_emu_thread();
__attribute__((visibility("hidden"), const)) NbEmuPosition nb_emu_block();
__attribute__((visibility("hidden"), const)) NbEmuPosition nb_emu_threads();
__attribute__((visibility("hidden"), const)) NbEmuPosition nb_emu_blocks();
__attribute__((visibility("hidden"), const)) unsigned nb_emu_lane();
__attribute__((visibility("hidden"), const)) void* nb_emu_shared();
}

#define __global__ __attribute__((noinline))
#define __device__
#define __host__
#define __constant__ static
#define __forceinline__ inline __attribute__((always_inline))
#define __launch_bounds__(...)
#define __grid_constant__
#define __restrict__ __restrict
#define __align__(n) __attribute__((aligned(n)))
#define __shared__ static __attribute__((section("nb_emu_static")))
#define NB_SHARED(T, name) T* const name = (T*)nb_emu_shared()

#define threadIdx (nb_emu_thread())
#define blockIdx (nb_emu_block())
#define blockDim (nb_emu_threads())
#define gridDim (nb_emu_blocks())
#define warpSize 32

// ---- Vectors
struct alignas(8) float2 {
  float x, y;
};
struct alignas(16) float4 {
  float x, y, z, w;
};
struct alignas(16) double2 {
  double x, y;
};
struct alignas(8) int2 {
  int x, y;
};
struct alignas(16) int4 {
  int x, y, z, w;
};
struct alignas(8) uint2 {
  unsigned x, y;
};
struct alignas(16) uint4 {
  unsigned x, y, z, w;
};
static inline float2 make_float2(float x, float y) { return {x, y}; }
static inline float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }
static inline int4 make_int4(int x, int y, int z, int w) { return {x, y, z, w}; }
static inline uint2 make_uint2(unsigned x, unsigned y) { return {x, y}; }
static inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) { return {x, y, z, w}; }

// ---- Meetings
static __forceinline__ void __syncthreads() { nb_emu_host->block_barrier("__syncthreads"); }
static __forceinline__ void __syncwarp(unsigned mask = 0xffffffffu) {
  nb_emu_host->warp("__syncwarp", mask, nullptr, 0, nullptr, -2, nullptr);
}
static inline void __threadfence() {}
static inline void __threadfence_block() {}

template <class T>
static __forceinline__ T nb_emu_shuffle(const char* word, unsigned mask, T x, int from) {
  static_assert(sizeof(T) == 4 || sizeof(T) == 8, "shuffles take 4 or 8 bytes");
  T out;
  nb_emu_host->warp(word, mask, &x, sizeof(T), &out, from, nullptr);
  return out;
}
template <class T>
static __forceinline__ T __shfl_sync(unsigned mask, T x, int lane, int width = 32) {
  int own = nb_emu_lane();
  return nb_emu_shuffle("__shfl_sync", mask, x, (own & ~(width - 1)) | (lane & (width - 1)));
}
template <class T>
static __forceinline__ T __shfl_xor_sync(unsigned mask, T x, int lanes, int width = 32) {
  int own = nb_emu_lane(), from = own ^ lanes;
  return nb_emu_shuffle("__shfl_xor_sync", mask, x, (from & ~(width - 1)) > (own & ~(width - 1)) ? own : from);
}
template <class T>
static __forceinline__ T __shfl_down_sync(unsigned mask, T x, unsigned lanes, int width = 32) {
  int own = nb_emu_lane(), in = own & (width - 1);
  return nb_emu_shuffle("__shfl_down_sync", mask, x, in + int(lanes) < width ? own + int(lanes) : own);
}
template <class T>
static __forceinline__ T __shfl_up_sync(unsigned mask, T x, unsigned lanes, int width = 32) {
  int own = nb_emu_lane(), in = own & (width - 1);
  return nb_emu_shuffle("__shfl_up_sync", mask, x, in >= int(lanes) ? own - int(lanes) : own);
}
static inline void nb_emu_vote(unsigned char* slots, unsigned mask) {
  unsigned votes = 0;
  for (int lane = 0; lane < 32; ++lane)
    if ((mask >> lane) & 1) votes |= unsigned(slots[lane * kNbEmuSlot] != 0) << lane;
  for (int lane = 0; lane < 32; ++lane) memcpy(slots + lane * kNbEmuSlot, &votes, 4);
}
static __forceinline__ unsigned __ballot_sync(unsigned mask, int predicate) {
  unsigned vote = predicate != 0, out;
  nb_emu_host->warp("__ballot_sync", mask, &vote, 4, &out, nb_emu_lane(), nb_emu_vote);
  return out;
}
static __forceinline__ int __any_sync(unsigned mask, int predicate) { return __ballot_sync(mask, predicate) != 0; }
static __forceinline__ int __all_sync(unsigned mask, int predicate) { return __ballot_sync(mask, !predicate) == 0; }

// ---- Atomics: one fiber runs at a time; the checker hears of them by note_atomic alone
#define NB_EMU_ATOMIC(name, result)                                                    \
  template <class T>                                                                   \
  __attribute__((no_sanitize("thread"), noinline)) static T nb_emu_##name(T* p, T x) { \
    T old = *p;                                                                        \
    *p = T(result);                                                                    \
    return old;                                                                        \
  }                                                                                    \
  template <class T>                                                                   \
  static __forceinline__ T name(T* p, T x) {                                           \
    nb_emu_host->note_atomic(p, sizeof(T));                                            \
    return nb_emu_##name(p, x);                                                        \
  }
NB_EMU_ATOMIC(atomicAdd, old + x)
NB_EMU_ATOMIC(atomicSub, old - x)
NB_EMU_ATOMIC(atomicMax, old > x ? old : x)
NB_EMU_ATOMIC(atomicMin, old < x ? old : x)
NB_EMU_ATOMIC(atomicAnd, old& x)
NB_EMU_ATOMIC(atomicOr, old | x)
NB_EMU_ATOMIC(atomicXor, old ^ x)
NB_EMU_ATOMIC(atomicExch, x)
#undef NB_EMU_ATOMIC
template <class T>
__attribute__((no_sanitize("thread"), noinline)) static T nb_emu_atomicCAS(T* p, T want, T x) {
  T old = *p;
  if (old == want) *p = x;
  return old;
}
template <class T>
static __forceinline__ T atomicCAS(T* p, T want, T x) {
  nb_emu_host->note_atomic(p, sizeof(T));
  return nb_emu_atomicCAS(p, want, x);
}

// ---- What needs PTX: models
static __forceinline__ void nb_emu_cp_async(void* shared, const void* global, int bytes) {
  nb_emu_host->copy_async(shared, global, bytes);
}
static __forceinline__ void nb_emu_cp_commit() { nb_emu_host->copy_commit(); }
static __forceinline__ void nb_emu_cp_wait(int groups) { nb_emu_host->copy_wait(groups); }
static __forceinline__ void nb_emu_barrier_init(void* at, unsigned count) { nb_emu_host->barrier_init(at, count); }
static __forceinline__ void nb_emu_barrier_expect(void* at, unsigned bytes) { nb_emu_host->barrier_expect(at, bytes); }
static __forceinline__ void nb_emu_barrier_wait(void* at, unsigned parity) { nb_emu_host->barrier_wait(at, parity); }
static __forceinline__ void nb_emu_fence_async() { nb_emu_host->fence_async(); }
template <class... Where>
static __forceinline__ void nb_emu_copy_box(void* at, void* shared, const void* map, Where... where) {
  const int all[] = {where...};
  nb_emu_host->copy_box(at, shared, (const NbEmuTensorMap*)map, all, sizeof...(where));
}

// wgmma: all lanes of a warp issue it together, and wait together.
static inline void nb_emu_wgmma_run(const NbEmuWgmma* w) {
  float sums[kNbEmuMostSums];
  nb_emu_host->wgmma_sums(w, sums, false);
  w->run(sums, w);
  nb_emu_host->wgmma_sums(w, sums, true);
}
static inline void nb_emu_wgmma(const NbEmuWgmma& w) {
  nb_emu_host->warp("wgmma", 0xffffffffu, nullptr, 0, nullptr, -2, nullptr);
  if (nb_emu_host->wgmma_ask(&w)) nb_emu_wgmma_run(&w);
}
static inline void nb_emu_wgmma_commit() { nb_emu_host->wgmma_commit(); }
static inline void nb_emu_wgmma_wait(int groups_left) {
  nb_emu_host->warp("wgmma.wait_group", 0xffffffffu, nullptr, 0, nullptr, -2, nullptr);
  NbEmuWgmma w;
  while (nb_emu_host->wgmma_next(groups_left, &w)) nb_emu_wgmma_run(&w);
}

static inline float nb_emu_float(unsigned bits) {
  float f;
  memcpy(&f, &bits, 4);
  return f;
}
static inline float nb_emu_bf16(unsigned bits) { return nb_emu_float(bits << 16); }
static inline float nb_emu_f16(unsigned bits) {
  unsigned sign = (bits >> 15 & 1) << 31, e = bits >> 10 & 31, m = bits & 1023;
  if (e == 31) return nb_emu_float(sign | 0x7f800000u | m << 13);
  if (e == 0) return (sign ? -1.0f : 1.0f) * float(m) * 5.9604644775390625e-8f;  // 2^-24
  return nb_emu_float(sign | (e + 112) << 23 | m << 13);
}
static inline float nb_emu_e5m2(unsigned bits) { return nb_emu_f16((bits & 255) << 8); }
static inline float nb_emu_e4m3(unsigned bits) {
  unsigned e = bits >> 3 & 15, m = bits & 7;
  float x = e == 0 ? float(m) / 512 : nb_emu_float((e + 120) << 23 | m << 20);
  if ((bits & 127) == 127) x = __builtin_nanf("");
  return bits & 128 ? -x : x;
}
static inline float nb_emu_tf32(unsigned bits) { return nb_emu_float(bits & 0xffffe000u); }

// What tensor cores add to `start`: k products, each exact. The order of addition is not documented. `group` products at a time and
// `bits` behind the leading one are what they keep, where results are rounded as GPUs do.
#ifdef NB_EMU_GPU_ROUNDING
// As measured (Fasi, Higham, Mikaitis, Pranesh, "Numerical behavior of NVIDIA tensor cores", PeerJ CS 2021, of the A100): eight
// products and what is there already are cut off at 24 bits behind the leading bit of the largest, added, and cut off to 24 bits.
// Of 8-bit floats 32 products at 13 bits (DeepSeek-V3 Technical Report, 2024, section 3.5.2, of Hopper: "the highest 14 bits").
static inline float nb_emu_toward_zero(double x) {
  float f = float(x);
  return f - f == 0 && fabs(double(f)) > fabs(x) ? nextafterf(f, 0) : f;
}
template <int group = 8, int bits = 24, class Product>
static inline float tensor_core_sum(float start, int k, Product product) {
  for (int first = 0; first < k; first += group) {
    double terms[group + 1] = {start}, most = fabs(double(start)), sum = 0;
    for (int i = 0; i < group; ++i) terms[i + 1] = product(first + i), most = fmax(most, fabs(terms[i + 1]));
    const bool plain = most > 0 && most < __builtin_inf();
    const double unit = plain ? ldexp(1.0, ilogb(most) - bits) : 1;
    for (double t : terms) sum += plain ? trunc(t / unit) * unit : t;
    start = nb_emu_toward_zero(sum);
  }
  return start;
}
#else
template <int group = 8, int bits = 24, class Product>
static inline float tensor_core_sum(float start, int k, Product product) {
  double sum = start;
  for (int i = 0; i < k; ++i) sum += product(i);
  return float(sum);
}
#endif

// D[16][8] += A[16][k] B[k][8]; lanes hold elements as the PTX manual's pictures of m16n8k32, m16n8k16 and m16n8k8 show.
struct NbEmuMma {
  unsigned a[4], b[2];
  float d[4];
};
template <int k, class A, class B>
static inline void nb_emu_mma(unsigned char* slots, A element_a, B element_b) {
  float a[16][k], b[k][8];
  constexpr int pack = k / 8, width = 32 / pack;  // elements of one register, bits of each
  NbEmuMma lanes[32];
  for (int lane = 0; lane < 32; ++lane) {
    memcpy(&lanes[lane], slots + lane * kNbEmuSlot, sizeof(NbEmuMma));
    int group = lane / 4, in = lane % 4;
    for (int r = 0; r < 4; ++r)
      for (int e = 0; e < pack; ++e)
        a[group + (r & 1) * 8][in * pack + (r >> 1) * (k / 2) + e] = element_a(lanes[lane].a[r] >> (e * width));
    for (int r = 0; r < 2; ++r)
      for (int e = 0; e < pack; ++e) b[in * pack + r * (k / 2) + e][group] = element_b(lanes[lane].b[r] >> (e * width));
  }
  for (int lane = 0; lane < 32; ++lane) {
    for (int r = 0; r < 4; ++r) {
      int row = lane / 4 + (r >> 1) * 8, column = lane % 4 * 2 + (r & 1);
      auto product = [&](int i) { return double(a[row][i]) * b[i][column]; };
      lanes[lane].d[r] = tensor_core_sum<k == 32 ? 32 : 8, k == 32 ? 13 : 24>(lanes[lane].d[r], k, product);
    }
    memcpy(slots + lane * kNbEmuSlot, &lanes[lane], sizeof(NbEmuMma));
  }
}
static inline void nb_emu_mma_bf16(unsigned char* slots, unsigned) {
  auto element = [](unsigned bits) { return nb_emu_bf16(bits & 0xffff); };
  nb_emu_mma<16>(slots, element, element);
}
static inline void nb_emu_mma_f16(unsigned char* slots, unsigned) {
  auto element = [](unsigned bits) { return nb_emu_f16(bits & 0xffff); };
  nb_emu_mma<16>(slots, element, element);
}
static inline void nb_emu_mma_tf32(unsigned char* slots, unsigned) {
  nb_emu_mma<8>(slots, nb_emu_tf32, nb_emu_tf32);
}
template <float (*a)(unsigned), float (*b)(unsigned)> static inline void nb_emu_mma_f8(unsigned char* slots, unsigned) {
  nb_emu_mma<32>(slots, a, b);
}
static inline void nb_emu_mma_with(const char* word, NbEmuFinish finish, float* d, const unsigned* a,
                                   const unsigned* b) {
  NbEmuMma x;
  memcpy(x.a, a, 16);
  memcpy(x.b, b, 8);
  memcpy(x.d, d, 16);
  nb_emu_host->warp(word, 0xffffffffu, &x, sizeof(x), &x, nb_emu_lane(), finish);
  memcpy(d, x.d, 16);
}

// ldmatrix .x4: lane 8 i + r names row r (16 bytes) of matrix i; lane l receives of each matrix the two 16-bit elements
// 2 (l % 4) of row l / 4; .trans: of column l / 4.
static inline void nb_emu_matrix_rows(const char* word, unsigned char* rows, const void* row) {
  struct alignas(16) Row {
    unsigned words[4];
  } own = *(const Row*)row;
  nb_emu_host->warp(word, 0xffffffffu, &own, 16, rows, -1, nullptr);
}
static inline void nb_emu_ldmatrix_x4(unsigned* r, const void* row) {
  unsigned char rows[32 * kNbEmuSlot];
  nb_emu_matrix_rows("ldmatrix", rows, row);
  int lane = nb_emu_lane();
  for (int i = 0; i < 4; ++i) memcpy(&r[i], rows + (8 * i + lane / 4) * kNbEmuSlot + lane % 4 * 4, 4);
}
static inline void nb_emu_ldmatrix_x4_trans(unsigned* r, const void* row) {
  unsigned char rows[32 * kNbEmuSlot];
  nb_emu_matrix_rows("ldmatrix.trans", rows, row);
  int lane = nb_emu_lane();
  for (int i = 0; i < 4; ++i)
    for (int e = 0; e < 2; ++e)
      memcpy((char*)&r[i] + 2 * e, rows + (8 * i + lane % 4 * 2 + e) * kNbEmuSlot + lane / 4 * 2, 2);
}
// cvt.rna: half a step of the last kept bit is added to the magnitude; infinities and NaN stay.
static inline unsigned nb_emu_to_tf32(unsigned bits) {
  if ((bits & 0x7f800000u) == 0x7f800000u) return bits & 0x7fffffu ? 0x7fffffffu : bits;
  return (bits + 0x1000u) & 0xffffe000u;
}
