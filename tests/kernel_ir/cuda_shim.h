// CUDA's words for a host compiler: threads run one after the other, from the last to the first or the other way.
#include <math.h>

#define __global__
#define __device__

struct ShimPosition {
  unsigned x;
};
static ShimPosition blockIdx, threadIdx, blockDim, gridDim;

static inline int __float_as_int(float x) {
  int i;
  __builtin_memcpy(&i, &x, 4);
  return i;
}
static inline float __int_as_float(int i) {
  float x;
  __builtin_memcpy(&x, &i, 4);
  return x;
}
template <class T>
static T atomicAdd(T* p, T x) {
  T old = *p;
  *p = T(old + x);
  return old;
}
template <class T>
static T atomicMax(T* p, T x) {
  T old = *p;
  *p = old > x ? old : x;
  return old;
}
template <class T>
static T atomicMin(T* p, T x) {
  T old = *p;
  *p = old < x ? old : x;
  return old;
}
template <class T>
static T atomicAnd(T* p, T x) {
  T old = *p;
  *p = T(old & x);
  return old;
}
template <class T>
static T atomicOr(T* p, T x) {
  T old = *p;
  *p = T(old | x);
  return old;
}

template <int... I>
struct ShimList {};
template <int n, int... I>
struct ShimCount : ShimCount<n - 1, n - 1, I...> {};
template <int... I>
struct ShimCount<0, I...> {
  typedef ShimList<I...> type;
};
template <class... P, int... I>
static void shim_call(void (*f)(P...), void** args, ShimList<I...>) {
  f((P)args[I]...);
}
template <class... P>
static void shim_launch(void (*f)(P...), void** args, unsigned blocks, unsigned threads, bool backwards) {
  gridDim.x = blocks, blockDim.x = threads;
  for (unsigned t = 0; t < blocks * threads; ++t) {
    unsigned at = backwards ? blocks * threads - 1 - t : t;
    blockIdx.x = at / threads, threadIdx.x = at % threads;
    shim_call(f, args, typename ShimCount<sizeof...(P)>::type());
  }
}
