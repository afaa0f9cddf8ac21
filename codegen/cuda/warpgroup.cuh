// Products of a warpgroup, four warps: wgmma of sm_90a reads tiles of bf16 and f16 from shared memory, in the layout of
// 128 bytes whose 16-byte parts are swizzled (PTX ISA, "Matrix descriptor" and "Strides"). A tile is 64 elements of k. Where k
// is the fastest axis a row of the tile is 128 bytes of it; else 64 neighbours on the other axis are, for every k, and the next
// 64 follow all of k.

// Where element x along a factor's own axis, y along k, lies in its tile.
template <bool k_fast> NB_FN int nb_wg_place(int x, int y) {
  if constexpr (k_fast) return x * 64 + ((y / 8) ^ (x % 8)) * 8 + y % 8;
  else return x / 64 * 4096 + y * 64 + ((x % 64 / 8) ^ (y % 8)) * 8 + x % 8;
}

#ifdef NB_EMULATOR
#define NB_SHARED_TILES(T, name) NB_SHARED(T, name)
NB_FN void nb_wg_fence() {}
NB_FN void nb_wg_commit() {}
template <int groups> NB_FN void nb_wg_wait() {}
NB_FN void nb_wg_see_copies() {}
// d += A B of 64 rows of this warpgroup, `step` x 16 elements of k; a lane's results lie as those of mma.m16n8k16.
template <bool a_k_fast, bool b_k_fast, int fragments, class T>
NB_FN void nb_wg_mma(float (&d)[1][fragments][4], const T* a, const T* b, int step) {
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  for (int n = 0; n < fragments; ++n)
    for (int e = 0; e < 4; ++e) {
      const int row = warp * 16 + lane / 4 + e / 2 * 8, column = n * 8 + lane % 4 * 2 + e % 2;
      double sum = d[0][n][e];
      for (int k = step * 16; k < step * 16 + 16; ++k)
        sum += double(nb_widen(a[nb_wg_place<a_k_fast>(row, k)])) * double(nb_widen(b[nb_wg_place<b_k_fast>(column, k)]));
      d[0][n][e] = float(sum);
    }
}
#elif defined(__CUDA_ARCH_FEAT_SM90_ALL)
#define NB_SHARED_TILES(T, name)                                    \
  extern __shared__ __align__(1024) unsigned char nb_tile_room[]; \
  T* const name = (T*)nb_tile_room
NB_FN void nb_wg_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
NB_FN void nb_wg_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int groups> NB_FN void nb_wg_wait() { asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(groups) : "memory"); }
// What this thread has copied, before a barrier after which wgmma reads it.
NB_FN void nb_wg_see_copies() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }
// Strides between parts of a tile: of 64 elements across k, and of 8 rows.
NB_FN nb_u64 nb_wg_tile(const void* at) {
  return nb_u64((nb_shared_address(at) & 0x3ffff) >> 4) | nb_u64(8192 >> 4) << 16 | nb_u64(1024 >> 4) << 32 | nb_u64(1) << 62;
}
#define NB_R4(n) "+f"(d[n][0]), "+f"(d[n][1]), "+f"(d[n][2]), "+f"(d[n][3])
#define NB_R16(n) NB_R4(n), NB_R4(n + 1), NB_R4(n + 2), NB_R4(n + 3)
#define NB_R64(n) NB_R16(n), NB_R16(n + 4), NB_R16(n + 8), NB_R16(n + 12)
#define NB_WGMMA_128(type)                                                                                     \
  asm volatile("{.reg .pred p; setp.ne.b32 p, %66, 0; wgmma.mma_async.sync.aligned.m64n128k16.f32." type "." type " {" \
      "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, " \
      "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, " \
      "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, " \
      "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63" \
      "}, %64, %65, p, 1, 1, %67, %68;}"                                                                   \
               : NB_R64(0)                                                                         \
               : "l"(a), "l"(b), "r"(1), "n"(a_turned), "n"(b_turned))
#define NB_WGMMA_256(type)                                                                                     \
  asm volatile("{.reg .pred p; setp.ne.b32 p, %130, 0; wgmma.mma_async.sync.aligned.m64n256k16.f32." type "." type " {" \
      "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, " \
      "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, " \
      "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, " \
      "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63, " \
      "%64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, " \
      "%80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95, " \
      "%96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111, " \
      "%112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, %127" \
      "}, %128, %129, p, 1, 1, %131, %132;}"                                                                   \
               : NB_R64(0), NB_R64(16)                                                                         \
               : "l"(a), "l"(b), "r"(1), "n"(a_turned), "n"(b_turned))
template <int a_turned, int b_turned> NB_FN void nb_wgmma(float (&d)[16][4], nb_u64 a, nb_u64 b, nb_bf16) { NB_WGMMA_128("bf16"); }
template <int a_turned, int b_turned> NB_FN void nb_wgmma(float (&d)[16][4], nb_u64 a, nb_u64 b, nb_f16) { NB_WGMMA_128("f16"); }
template <int a_turned, int b_turned> NB_FN void nb_wgmma(float (&d)[32][4], nb_u64 a, nb_u64 b, nb_bf16) { NB_WGMMA_256("bf16"); }
template <int a_turned, int b_turned> NB_FN void nb_wgmma(float (&d)[32][4], nb_u64 a, nb_u64 b, nb_f16) { NB_WGMMA_256("f16"); }
// d += A B of 64 rows of this warpgroup, `step` x 16 elements of k; a lane's results lie as those of mma.m16n8k16.
template <bool a_k_fast, bool b_k_fast, int fragments, class T>
NB_FN void nb_wg_mma(float (&d)[1][fragments][4], const T* a, const T* b, int step) {
  const T* own = a + threadIdx.x / 128 * 4096;
  nb_wgmma<!a_k_fast, !b_k_fast>(d[0], nb_wg_tile(own + step * (a_k_fast ? 16 : 1024)), nb_wg_tile(b + step * (b_k_fast ? 16 : 1024)), T{});
}
#endif
