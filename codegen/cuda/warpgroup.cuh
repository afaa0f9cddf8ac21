// Products of a warpgroup, four warps: wgmma of sm_90a reads tiles of bf16 and f16 from shared memory, in the layout of
// 128 bytes whose 16-byte parts are swizzled (PTX ISA, "Matrix descriptor" and "Strides"). A tile is 64 elements of k. Where k
// is the fastest axis a row of the tile is 128 bytes of it; else 64 neighbours on the other axis are, for every k, and the next
// 64 follow all of k.

// Where element x along a factor's own axis, y along k, lies in its tile.
template <bool k_fast> NB_FN int nb_wg_place(unsigned x, unsigned y) {
  if constexpr (k_fast) return x * 64 + ((y / 8) ^ (x % 8)) * 8 + y % 8;
  else return x / 64 * 4096 + y * 64 + ((x % 64 / 8) ^ (y % 8)) * 8 + x % 8;
}

// The same of 8-bit floats, of which a row has 128 of k: wgmma takes no others than such with k fastest.
NB_FN int nb_wg_place_bytes(unsigned x, unsigned y) { return x * 128 + ((y / 16) ^ (x % 8)) * 16 + y % 16; }
// What tensor cores have summed of a tile joins what f32 keeps.
template <int fragments> NB_FN void nb_wg_add(float (&d)[1][fragments][4], const float (&part)[1][fragments][4]) {
#pragma unroll
  for (int n = 0; n < fragments; ++n)
#pragma unroll
    for (int e = 0; e < 4; ++e) d[0][n][e] += part[0][n][e];
}

// This thread's warpgroup: a shuffle tells the compiler that a warp agrees, so that places of tiles stay in uniform registers.
NB_FN int nb_wg_group() { return __shfl_sync(0xffffffffu, int(threadIdx.x / 128), 0); }

// Tiles that the copy engine brings (TMA): one thread asks for a box of an array, whose map the launch brings along as a parameter that
// is a CUtensorMap, and a barrier in shared memory (mbarrier) counts the bytes that arrive. Its phases, which take turns as 0 and 1, end
// when all expected bytes are there. Elements beyond the array's ends arrive as 0, and count.
struct __align__(64) nb_tensor_map {
  unsigned char of_driver[128];
};

#ifdef NB_EMULATOR
#define NB_SHARED_TILES(T, name) NB_SHARED(T, name)
template <int stages> NB_FN void nb_copies_begin(nb_u64* there) {
  if (threadIdx.x == 0)
    for (int s = 0; s < stages; ++s) nb_emu_barrier_init(there + s, 1);
  __syncthreads();
}
NB_FN void nb_copies_expect(nb_u64* there, unsigned bytes) { nb_emu_barrier_expect(there, bytes); }
NB_FN void nb_copies_wait(nb_u64* there, unsigned phase) { nb_emu_barrier_wait(there, phase); }
template <class... Where> NB_FN void nb_copy_box(void* to, const nb_tensor_map& map, nb_u64* there, Where... where) {
  nb_emu_copy_box(there, to, &map, where...);
}
NB_FN void nb_wg_fence() {}
NB_FN void nb_wg_commit() { nb_emu_wgmma_commit(); }
template <int groups> NB_FN void nb_wg_wait() { nb_emu_wgmma_wait(groups); }
template <int fragments> NB_FN void nb_wg_hold(float (&)[1][fragments][4]) {}
NB_FN void nb_wg_see_copies() { nb_emu_fence_async(); }
NB_FN void nb_wg_together() {}
// d += A B, `step` x 16 elements of k: 64 rows of A, those of this warpgroup; a lane's results lie as those of mma.m16n8k16.
template <bool a_k_fast, bool b_k_fast, int fragments, class T>
NB_FN void nb_wg_mma(float (&d)[1][fragments][4], const T* a, const T* b, int step) {
  nb_emu_wgmma({[](float* sums, const NbEmuWgmma* w) {
                  const T *a = (const T*)w->a, *b = (const T*)w->b;
                  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32 % 4;
                  for (int n = 0; n < fragments; ++n)
                    for (int e = 0; e < 4; ++e) {
                      const int row = warp * 16 + lane / 4 + e / 2 * 8, column = n * 8 + lane % 4 * 2 + e % 2;
                      sums[n * 4 + e] = tensor_core_sum(sums[n * 4 + e], 16, [&](int i) {
                        const int k = w->step * 16 + i;
                        return double(nb_widen(a[nb_wg_place<a_k_fast>(row, k)])) * double(nb_widen(b[nb_wg_place<b_k_fast>(column, k)]));
                      });
                    }
                },
                a, b, {}, step, d[0][0], fragments * 4});
}
// The same where A lies in registers, as a factor of mma.m16n8k16 does, and B in a tile of `k` rows of k: 64 columns, then the next.
template <int k, int fragments, class T>
NB_FN void nb_wg_mma_of(float (&d)[1][fragments][4], const unsigned (&a)[4], const T* b, int step) {
  nb_emu_wgmma({[](float* sums, const NbEmuWgmma* w) {
                  const T* b = (const T*)w->b;
                  const int lane = threadIdx.x % 32;
                  for (int n = 0; n < fragments; ++n) {
                    unsigned y[2] = {};
                    for (int e = 0; e < 4; ++e) {
                      const int row = w->step * 16 + lane % 4 * 2 + e % 2 + e / 2 * 8;
                      const T x = b[n / 8 * k * 64 + nb_wg_place<true>(row, n % 8 * 8 + lane / 4)];
                      y[e / 2] |= unsigned(x.bits) << e % 2 * 16;
                    }
                    nb_mma_16816(*(float(*)[4])(sums + n * 4), w->x, y, T{});
                  }
                },
                nullptr, b, {a[0], a[1], a[2], a[3]}, step, d[0][0], fragments * 4});
}
// d += A B of 8-bit floats, `step` x 32 elements of k; the first step begins the sums.
template <int fragments, class A, class B> NB_FN void nb_wg_mma_bytes(float (&d)[1][fragments][4], const A* a, const B* b, int step) {
  nb_emu_wgmma({[](float* sums, const NbEmuWgmma* w) {
                  const A* a = (const A*)w->a;
                  const B* b = (const B*)w->b;
                  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32 % 4;
                  for (int n = 0; n < fragments; ++n)
                    for (int e = 0; e < 4; ++e) {
                      const int row = warp * 16 + lane / 4 + e / 2 * 8, column = n * 8 + lane % 4 * 2 + e % 2;
                      sums[n * 4 + e] = tensor_core_sum<32, 13>(w->step > 0 ? sums[n * 4 + e] : 0, 32, [&](int i) {
                        const int k = w->step * 32 + i;
                        return double(nb_widen(a[nb_wg_place_bytes(row, k)])) * double(nb_widen(b[nb_wg_place_bytes(column, k)]));
                      });
                    }
                },
                a, b, {}, step, d[0][0], fragments * 4});
}
#elif defined(__CUDA_ARCH_FEAT_SM90_ALL)
#define NB_SHARED_TILES(T, name)                                    \
  extern __shared__ __align__(1024) unsigned char nb_tile_room[]; \
  T* const name = (T*)nb_tile_room
template <int stages> NB_FN void nb_copies_begin(nb_u64* there) {
  if (threadIdx.x == 0) {
#pragma unroll
    for (int s = 0; s < stages; ++s) asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(nb_shared_address(there + s)) : "memory");
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  }
  __syncthreads();
}
NB_FN void nb_copies_expect(nb_u64* there, unsigned bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(nb_shared_address(there)), "r"(bytes) : "memory");
}
NB_FN void nb_copies_wait(nb_u64* there, unsigned phase) {
  int over;
  do {
    asm volatile("{.reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2; selp.b32 %0, 1, 0, p;}"
                 : "=r"(over) : "r"(nb_shared_address(there)), "r"(phase) : "memory");
  } while (!over);
}
#define NB_COPY_BOX(rank, places, ...)                                                                                     \
  asm volatile("cp.async.bulk.tensor." #rank "d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {" places "}], [%2];" \
               ::"r"(nb_shared_address(to)), "l"(&map), "r"(nb_shared_address(there)), __VA_ARGS__ : "memory")
NB_FN void nb_copy_box(void* to, const nb_tensor_map& map, nb_u64* there, int x, int y) {
  NB_COPY_BOX(2, "%3, %4", "r"(x), "r"(y));
}
NB_FN void nb_copy_box(void* to, const nb_tensor_map& map, nb_u64* there, int x, int y, int z) {
  NB_COPY_BOX(3, "%3, %4, %5", "r"(x), "r"(y), "r"(z));
}
NB_FN void nb_copy_box(void* to, const nb_tensor_map& map, nb_u64* there, int x, int y, int z, int u) {
  NB_COPY_BOX(4, "%3, %4, %5, %6", "r"(x), "r"(y), "r"(z), "r"(u));
}
NB_FN void nb_copy_box(void* to, const nb_tensor_map& map, nb_u64* there, int x, int y, int z, int u, int v) {
  NB_COPY_BOX(5, "%3, %4, %5, %6, %7", "r"(x), "r"(y), "r"(z), "r"(u), "r"(v));
}
NB_FN void nb_wg_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
NB_FN void nb_wg_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int groups> NB_FN void nb_wg_wait() { asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(groups) : "memory"); }
// Results that have been waited for: the compiler does not know that they were not there before.
template <int fragments> NB_FN void nb_wg_hold(float (&d)[1][fragments][4]) {
#pragma unroll
  for (int n = 0; n < fragments; ++n)
#pragma unroll
    for (int e = 0; e < 4; ++e) asm volatile("" : "+f"(d[0][n][e])::"memory");
}
// What this thread has done in shared memory, before a barrier after which wgmma or the copy engine are at work there.
NB_FN void nb_wg_see_copies() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }
// wgmma wants the lanes of a warp together.
NB_FN void nb_wg_together() { __syncwarp(); }
// Where a part of a tile lies, in units of 16 bytes, and strides between parts: `leading` bytes to the next 64 elements across
// k, 1024 to the next 8 rows.
NB_FN nb_u64 nb_wg_tile(const void* at, int leading = 8192) {
  return nb_u64((nb_shared_address(at) & 0x3ffff) >> 4) | nb_u64(leading >> 4) << 16 | nb_u64(1024 >> 4) << 32 | nb_u64(1) << 62;
}
// d of 4 x N / 8 registers from the first operand on, for N columns of results.
#define NB_R4(n) "+f"(d[n][0]), "+f"(d[n][1]), "+f"(d[n][2]), "+f"(d[n][3])
#define NB_R16(n) NB_R4(n), NB_R4(n + 1), NB_R4(n + 2), NB_R4(n + 3)
#define NB_D_64 \
  "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, " \
  "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
#define NB_D_128 NB_D_64 ", " \
  "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, " \
  "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
#define NB_D_192 NB_D_128 ", " \
  "%64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, " \
  "%80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95"
#define NB_D_256 NB_D_192 ", " \
  "%96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111, " \
  "%112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, %127"
#define NB_R_64 NB_R16(0), NB_R16(4)
#define NB_R_128 NB_R_64, NB_R16(8), NB_R16(12)
#define NB_R_192 NB_R_128, NB_R16(16), NB_R16(20)
#define NB_R_256 NB_R_192, NB_R16(24), NB_R16(28)
// a, b, scale, turned: numbers of the operands after those of d. Both factors in shared memory; then the first in registers.
#define NB_WGMMA(N, type, a, b, scale, a_is_turned, b_is_turned)                                                          \
  template <int a_turned, int b_turned> NB_FN void nb_wgmma(float (&d)[N / 8][4], nb_u64 x, nb_u64 y, nb_##type) {         \
    asm volatile("{.reg .pred p; setp.ne.b32 p, %" #scale ", 0; wgmma.mma_async.sync.aligned.m64n" #N "k16.f32." #type "." #type \
                 " {" NB_D_##N "}, %" #a ", %" #b ", p, 1, 1, %" #a_is_turned ", %" #b_is_turned ";}"                      \
                 : NB_R_##N : "l"(x), "l"(y), "r"(1), "n"(a_turned), "n"(b_turned));                                       \
  }
#define NB_WGMMA_OF(N, type, a0, a1, a2, a3, b, scale)                                                                    \
  NB_FN void nb_wgmma_of(float (&d)[N / 8][4], const unsigned (&x)[4], nb_u64 y, nb_##type) {                              \
    asm volatile("{.reg .pred p; setp.ne.b32 p, %" #scale ", 0; wgmma.mma_async.sync.aligned.m64n" #N "k16.f32." #type "." #type \
                 " {" NB_D_##N "}, {%" #a0 ", %" #a1 ", %" #a2 ", %" #a3 "}, %" #b ", p, 1, 1, 1;}"                        \
                 : NB_R_##N : "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3]), "l"(y), "r"(1));                                 \
  }
NB_WGMMA(64, bf16, 32, 33, 34, 35, 36) NB_WGMMA(64, f16, 32, 33, 34, 35, 36)
NB_WGMMA(128, bf16, 64, 65, 66, 67, 68) NB_WGMMA(128, f16, 64, 65, 66, 67, 68)
NB_WGMMA(256, bf16, 128, 129, 130, 131, 132) NB_WGMMA(256, f16, 128, 129, 130, 131, 132)
NB_WGMMA_OF(64, bf16, 32, 33, 34, 35, 36, 37) NB_WGMMA_OF(64, f16, 32, 33, 34, 35, 36, 37)
NB_WGMMA_OF(128, bf16, 64, 65, 66, 67, 68, 69) NB_WGMMA_OF(128, f16, 64, 65, 66, 67, 68, 69)
NB_WGMMA_OF(192, bf16, 96, 97, 98, 99, 100, 101) NB_WGMMA_OF(192, f16, 96, 97, 98, 99, 100, 101)
NB_WGMMA_OF(256, bf16, 128, 129, 130, 131, 132, 133) NB_WGMMA_OF(256, f16, 128, 129, 130, 131, 132, 133)
// d += A B, `step` x 16 elements of k: 64 rows of A, those of this warpgroup; a lane's results lie as those of mma.m16n8k16.
template <bool a_k_fast, bool b_k_fast, int fragments, class T>
NB_FN void nb_wg_mma(float (&d)[1][fragments][4], const T* a, const T* b, int step) {
  nb_wgmma<!a_k_fast, !b_k_fast>(d[0], nb_wg_tile(a) + step * (a_k_fast ? 2 : 128), nb_wg_tile(b) + step * (b_k_fast ? 2 : 128), T{});
}
// The same where A lies in registers, as a factor of mma.m16n8k16 does, and B in a tile of `k` rows of k: 64 columns, then the next.
template <int k, int fragments, class T>
NB_FN void nb_wg_mma_of(float (&d)[1][fragments][4], const unsigned (&a)[4], const T* b, int step) {
  nb_wgmma_of(d[0], a, nb_wg_tile(b, k * 128) + step * 128, T{});
}
// d += A B of 8-bit floats, `step` x 32 elements of k; the first step begins the sums.
#define NB_WGMMA_F8(A, B)                                                                                                 \
  NB_FN void nb_wgmma_bytes(float (&d)[16][4], nb_u64 x, nb_u64 y, int adds, nb_f8##A, nb_f8##B) {                        \
    asm volatile("{.reg .pred p; setp.ne.b32 p, %66, 0; wgmma.mma_async.sync.aligned.m64n128k32.f32." #A "." #B           \
                 " {" NB_D_128 "}, %64, %65, p, 1, 1;}" : NB_R_128 : "l"(x), "l"(y), "r"(adds));                          \
  }
NB_WGMMA_F8(e4m3, e4m3) NB_WGMMA_F8(e4m3, e5m2) NB_WGMMA_F8(e5m2, e4m3) NB_WGMMA_F8(e5m2, e5m2)
template <class A, class B> NB_FN void nb_wg_mma_bytes(float (&d)[1][16][4], const A* a, const B* b, int step) {
  nb_wgmma_bytes(d[0], nb_wg_tile(a) + step * 2, nb_wg_tile(b) + step * 2, step > 0, A{}, B{});
}
#endif
