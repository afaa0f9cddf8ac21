// Attention of bf16 and f16 on tensor cores. Tiles that a block walks lie in `stages` places: one is multiplied while others are
// copied. What the first product gives is the next one's factor as it lies in registers: two neighbouring 16 x 8 results are
// a 16 x 16 factor. Who multiplies is a type, `By`: warps (mma), or warpgroups of four (wgmma, sm_90a). It has the tiles in
// shared memory, how many fragments of 16 rows a warp keeps, how many rows are multiplied together and where they start, and
// products. begin() stands between what their sums were before and the first of them; they are done after await(), all but the
// last `pending` ones.

// ---- By warps, each with F fragments of 16 rows of the block's tile
// A of mma.m16n8k16 from 16 rows, and B from 16 rows that are its columns (two of 8), or from 16 rows that are its k.
template <class T> NB_FN void nb_load_a(unsigned (&x)[4], const T* tile, int pitch) {
  const int lane = threadIdx.x % 32;
  nb_ldmatrix_x4(x, tile + lane % 16 * pitch + lane / 16 * 8);
}
template <class T> NB_FN void nb_load_b(unsigned (&y)[4], const T* tile, int pitch) {
  const int lane = threadIdx.x % 32;
  nb_ldmatrix_x4(y, tile + (lane % 8 + lane / 16 * 8) * pitch + lane / 8 % 2 * 8);
}
template <class T> NB_FN void nb_load_b_of_k(unsigned (&y)[4], const T* tile, int pitch) {
  const int lane = threadIdx.x % 32;
  nb_ldmatrix_x4_trans(y, tile + lane % 16 * pitch + lane / 16 * 8);
}
// Of the results that are a fragment of the next product's factor.
template <class T, int steps> NB_FN void nb_load_results(unsigned (&x)[4], const float (&p)[steps][4], int k) {
#pragma unroll
  for (int r = 0; r < 4; ++r) x[r] = nb_two(T{}, p[k + r / 2][r % 2 * 2], p[k + r / 2][r % 2 * 2 + 1]);
}

template <int F> struct nb_by_warps {
  static constexpr int fragments = F, together = F * 16, stages = 2;
  static __device__ int start() { return threadIdx.x / 32 * together; }
  // Rows are padded, so that those that ldmatrix reads together lie in different banks.
  template <class T, int rows, int width> struct Tile {
    static constexpr int depth = NB_UP(width, 16), pitch = depth + 8, size = rows * pitch;
    T* at;
    __device__ T* place(unsigned r, unsigned c) const { return at + r * pitch + c; }
  };
  // acc[f][n] += A[f] B[n]': F x 16 rows of `a` from `start` on, 8 rows of `b` for each n.
  template <int tiles, class T, int R, int C, int D>
  static __device__ void product(float (&acc)[F][tiles][4], Tile<T, R, D> a, int start, Tile<T, C, D> b) {
#pragma unroll
    for (int k = 0; k < a.depth; k += 16) {
      unsigned x[F][4];
#pragma unroll
      for (int f = 0; f < F; ++f) nb_load_a(x[f], a.place(start + f * 16, k), a.pitch);
#pragma unroll
      for (int n = 0; n < tiles; n += 2) {
        unsigned y[4];
        nb_load_b(y, b.place(n * 8, k), b.pitch);
#pragma unroll
        for (int f = 0; f < F; ++f) nb_mma_16816(acc[f][n], x[f], y, T{}), nb_mma_16816(acc[f][n + 1], x[f], y + 2, T{});
      }
    }
  }
  // acc[f][n] += P[f] B[n]: P is results of a product, B the rows of a tile from its column n * 8 on.
  template <int steps, int tiles, class T, int C, int W>
  static __device__ void product_of(float (&acc)[F][tiles][4], const float (&p)[F][steps][4], Tile<T, C, W> b) {
#pragma unroll
    for (int k = 0; k < steps; k += 2) {
      unsigned x[F][4];
#pragma unroll
      for (int f = 0; f < F; ++f) nb_load_results<T>(x[f], p[f], k);
#pragma unroll
      for (int n = 0; n < tiles; n += 2) {
        unsigned y[4];
        nb_load_b_of_k(y, b.place(k * 8, n * 8), b.pitch);
#pragma unroll
        for (int f = 0; f < F; ++f) nb_mma_16816(acc[f][n], x[f], y, T{}), nb_mma_16816(acc[f][n + 1], x[f], y + 2, T{});
      }
    }
  }
  template <int pending, int tiles> static __device__ void await(float (&)[F][tiles][4]) {}
  template <class... Acc> static __device__ void begin(Acc&...) {}
  static __device__ void see_copies() {}
};

// ---- By warpgroups, each with 64 rows of the block's tile, and widths that are multiples of 64
#if defined(NB_EMULATOR) || defined(__CUDA_ARCH_FEAT_SM90_ALL)
template <int places> struct nb_by_warpgroups {
  static constexpr int fragments = 1, together = 64, stages = places;
  static __device__ int start() { return nb_wg_group() * together; }
  // 64 columns, swizzled, of all rows, then the next 64.
  template <class T, int rows, int width> struct Tile {
    static constexpr int depth = width, size = rows * width;
    T* at;
    __device__ T* place(unsigned r, unsigned c) const { return at + c / 64 * (rows * 64) + nb_wg_place<true>(r, c % 64); }
  };
  template <int tiles, class T, int R, int C, int D>
  static __device__ void product(float (&acc)[1][tiles][4], Tile<T, R, D> a, int start, Tile<T, C, D> b) {
#pragma unroll
    for (int k = 0; k < D; k += 16) nb_wg_mma<true, true>(acc, a.at + k / 64 * (R * 64) + start * 64, b.at + k / 64 * (C * 64), k / 16 % 4);
    nb_wg_commit();
  }
  template <int steps, int tiles, class T, int C, int W>
  static __device__ void product_of(float (&acc)[1][tiles][4], const float (&p)[1][steps][4], Tile<T, C, W> b) {
    unsigned x[steps / 2][4];
#pragma unroll
    for (int k = 0; k < steps; k += 2) nb_load_results<T>(x[k / 2], p[0], k);
    begin(acc);
#pragma unroll
    for (int k = 0; k < steps / 2; ++k) nb_wg_mma_of<C>(acc, x[k], b.at, k);
    nb_wg_commit();
  }
  template <int pending, int tiles> static __device__ void await(float (&acc)[1][tiles][4]) {
    nb_wg_wait<pending>();
    nb_wg_hold(acc);
  }
  template <class... Acc> static __device__ void begin(Acc&... acc) {
    (nb_wg_hold(acc), ...);
    nb_wg_fence();
  }
  static __device__ void see_copies() { nb_wg_see_copies(); }
};
#endif

// ---- Tiles
// Starts copies of the tile's rows, of which `have` are there, padded with zeros.
template <int rows, int width, int threads, class Tile, class T>
NB_FN void nb_copy_rows(Tile tile, const T* from, int have) {
  if (width % 8 == 0 && nb_is_aligned(from)) {
    constexpr int packs = Tile::depth / 8;
    // Where copies of a thread share no column, places of many would take registers that sums of many features need.
    constexpr int together = packs > 16 && threads % packs != 0 ? 1 : rows * packs / threads + 1;
#pragma unroll together
    for (int first = 0; first < rows * packs; first += threads) {
      const unsigned p = first + threadIdx.x, r = p / packs, c = p % packs * 8;
      if (rows * packs % threads != 0 && r >= unsigned(rows)) break;
      nb_cp_async_if<16>(tile.place(r, c), from + r * width + c, int(r) < have && c < width);
    }
  } else {
#pragma unroll 1  // seldom gone: it should cost no registers
    for (int p = threadIdx.x; p < rows * Tile::depth; p += threads) {
      const int r = p / Tile::depth, c = p % Tile::depth;
      if (r < have && c < width) *tile.place(r, c) = from[r * width + c];
      else *tile.place(r, c) = T{};
    }
  }
}
// The tiles that a block walks, two of C rows for each step, in `stages` places.
template <class By, int C, int D, int W, int threads, class T> struct nb_walk {
  using First = typename By::template Tile<T, C, D>;
  using Second = typename By::template Tile<T, C, W>;
  static constexpr int stage = First::size + Second::size, size = By::stages * stage;
  T* at;
  __device__ First first(int step) const { return {at + step % By::stages * stage}; }
  __device__ Second second(int step) const { return {first(step).at + First::size}; }
  // Of the rows from x and y on, of which `have` are there; 0: the step is none.
  __device__ void copy(int step, const T* x, const T* y, int have) const {
    if (have > 0) {
      nb_copy_rows<C, D, threads>(first(step), x, have);
      nb_copy_rows<C, W, threads>(second(step), y, have);
    }
    nb_cp_commit();
  }
  // Of the first `last` of `rows` rows: tile after tile, from x and y on.
  __device__ void copy_along(int step, const T* x, const T* y, int last, int rows) const {
    const long first = step * C;
    copy(step, x + first * D, y + first * W, first < last ? rows - int(first) : 0);
  }
  // Until all threads have copied what the next step reads, and have read what the next copy overwrites.
  __device__ void wait() const {
    nb_cp_wait<By::stages - 2>();
    By::see_copies();
    __syncthreads();
  }
};

template <int F, int tiles, class Function> NB_FN void nb_each(Function function) {
#pragma unroll
  for (int f = 0; f < F; ++f)
#pragma unroll
    for (int n = 0; n < tiles; ++n)
#pragma unroll
      for (int e = 0; e < 4; ++e) function(f, n, e);
}

template <int width, int F, int tiles, class T>
NB_FN void nb_store_halves(T* to, int have, const float (&x)[F][tiles][4]) {
  const int lane = threadIdx.x % 32;
  const bool pairs = width % 2 == 0 && (unsigned long)to % 4 == 0;
#pragma unroll
  for (int f = 0; f < F; ++f)
#pragma unroll
    for (int n = 0; n < tiles; ++n)
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int r = f * 16 + lane / 4 + half * 8, c = n * 8 + lane % 4 * 2;
        const float first = x[f][n][2 * half], second = x[f][n][2 * half + 1];
        if (r >= have || c >= width) continue;
        T* at = to + r * long(width) + c;
        if (pairs) {
          *(unsigned*)at = nb_two(T{}, first, second);
        } else {
          at[0] = nb_narrow(T{}, first);
          if (c + 1 < width) at[1] = nb_narrow(T{}, second);
        }
      }
}

// The blocks of a grid take the tiles of all rows; of a causal call those first that see most.
struct nb_tile { int row, first; };
template <bool last_first> NB_FN nb_tile nb_tile_of(int block, int rows, int tiles, int size) {
  const int tile = block / rows;
  return {block % rows, (last_first ? tiles - 1 - tile : tile) * size};
}

template <int F, int tiles> NB_FN void nb_scale(float (&acc)[F][tiles][4], float by) {
  nb_each<F, tiles>([&](int f, int n, int e) { acc[f][n][e] *= by; });
}

// A row's maximum may grow by so many powers of 2 before its sums are shrunk; weights are at most 2^kNbGrowth.
constexpr float kNbLog2e = 1.44269504088896341f, kNbLn2 = 0.693147180559945309f, kNbGrowth = 8;

// How products become the powers of 2 that weights are. Logarithms are of base 2 and products are scaled as powers are made; where
// a mask adds numbers these are natural and made of products before, so that of large numbers only differences are scaled. A scale
// of 0 stays one that leaves what nobody sees at minus infinity.
template <class M> struct nb_powers {
  static constexpr float of_natural = kNbAdds<M> ? 1.0f : kNbLog2e, to_natural = kNbAdds<M> ? 1.0f : kNbLn2;
  float scale, hidden;
  __device__ explicit nb_powers(float given)
      : scale(kNbAdds<M> ? 1.0f : given == 0 ? 1e-38f : given * kNbLog2e), hidden(scale < 0 ? __builtin_inff() : -__builtin_inff()) {}
  // Of logarithms that are scaled already.
  __device__ static float ratio(float x, float base) { return nb_exp2_of_halves(kNbAdds<M> ? (x - base) * kNbLog2e : x - base); }
  __device__ float weight(float p, float base) const { return kNbAdds<M> ? ratio(p, base) : nb_exp2_of_halves(p * scale - base); }
};

// Products of a warp's rows, from `row` on, with columns from `column` on: what a query does not see is hidden, and to others a
// mask of numbers is added. Rows are queries and columns keys, or the other way round.
template <bool causal, bool keys_down, int F, int tiles, class M>
NB_FN void nb_mask_scores(float (&p)[F][tiles][4], const nb_heads& s, int row, int column, const M* own_mask,
                          const nb_powers<M>& powers) {
  const int lane = threadIdx.x % 32;
  nb_each<F, tiles>([&](int f, int n, int e) {
    const int y = row + f * 16 + lane / 4 + e / 2 * 8, x = column + n * 8 + lane % 4 * 2 + e % 2;
    const int i = keys_down ? x : y, j = keys_down ? y : x;
    if (!s.sees<causal>(i, j, own_mask)) p[f][n][e] = powers.hidden;
    else if constexpr (kNbAdds<M>) p[f][n][e] = s.score(p[f][n][e], i, j, own_mask);
  });
}

// A step of the softmax of scores p: weights in their place, with a running maximum and sum of every row, by which earlier
// sums are shrunk. `kept`: of the warp's rows, where weights are dropped.
template <int C, bool drops, int F, int tiles, class M>
NB_FN void nb_halves_softmax(float (&p)[F][C / 8][4], float (&acc)[F][tiles][4], float (&top)[F][2], float (&sum)[F][2],
                             const nb_powers<M>& powers, const unsigned char* kept) {
  const int lane = threadIdx.x % 32;
  const float none = -__builtin_inff(), scale = powers.scale, sign = scale < 0 ? -1.0f : 1.0f;
#pragma unroll
  for (int f = 0; f < F; ++f)
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int r = f * 16 + lane / 4 + half * 8;
      // Of the largest product, or of the smallest where the scale is negative. A NaN reaches the sum by itself.
      float most = none;
#pragma unroll
      for (int n = 0; n < C / 8; ++n) most = fmaxf(most, fmaxf(p[f][n][2 * half] * sign, p[f][n][2 * half + 1] * sign));
      for (int lanes = 1; lanes < 4; lanes *= 2) most = fmaxf(most, nb_shuffle_xor(most, lanes));
      most = fmaxf(top[f][half], most * (scale * sign));
      if (most - top[f][half] <= (kNbAdds<M> ? kNbGrowth * kNbLn2 : kNbGrowth)) most = top[f][half];
      const float base = most == none ? 0.0f : most, shrink = powers.ratio(top[f][half], base);
      const bool grows = top[f][half] != most;
      top[f][half] = most, sum[f][half] *= shrink;
#pragma unroll
      for (int n = 0; n < C / 8; ++n)
#pragma unroll
        for (int e = 2 * half; e < 2 * half + 2; ++e) {
          sum[f][half] += p[f][n][e] = powers.weight(p[f][n][e], base);
          // Weights of 0 are those that nobody drew for.
          if (drops && p[f][n][e] > 0 && !kept[r * (C + 4) + n * 8 + lane % 4 * 2 + e % 2]) p[f][n][e] = 0;
        }
      if (!__any_sync(0xffffffffu, grows)) continue;
#pragma unroll
      for (int n = 0; n < tiles; ++n) acc[f][n][2 * half] *= shrink, acc[f][n][2 * half + 1] *= shrink;
    }
}

template <class By, int R, int C, int D, int W, bool causal, bool drops, class T, class M>
NB_FN void nb_halves_attention(unsigned char* room, nb_heads s, T* out, float* logsumexp, const T* q, const T* k,
                               const T* v, const M* mask, const unsigned* key) {
  constexpr int F = By::fragments, threads = R / F * 2;
  const typename By::template Tile<T, R, D> q_tile{(T*)room};
  const nb_walk<By, C, D, W, threads, T> walk{q_tile.at + q_tile.size};
  unsigned char* kept = (unsigned char*)(walk.at + walk.size);
  const int lane = threadIdx.x % 32, own_rows = threadIdx.x / 32 * F * 16, start = R == By::together ? 0 : By::start();
  const float none = -__builtin_inff();
  const nb_powers<M> powers(s.scale);
  const int queries = s.queries, keys = s.keys, diagonal = s.diagonal;
  const int tiles = (queries + R - 1) / R;
  for (int block = blockIdx.x; block < int(s.rows) * tiles; block += gridDim.x) {
    const nb_tile at = nb_tile_of<causal>(block, int(s.rows), tiles, R);
    const int row = at.row, kv = int(s.keys_of(row)), first = at.first, own = first + own_rows;
    const M* own_mask = s.mask_of(row, mask);
    const T *k_from = k + kv * s.keys * D, *v_from = v + kv * s.keys * W;
    float acc[F][NB_UP(W, 16) / 8][4] = {}, top[F][2], sum[F][2] = {};
    for (int f = 0; f < F; ++f) top[f][0] = top[f][1] = none;
    const int seen = first + R + diagonal, last = causal && seen < keys ? seen : keys;
    nb_copy_rows<R, D, threads>(q_tile, q + (row * s.queries + first) * D, queries - first);
    for (int step = 0; step < By::stages - 1; ++step) walk.copy_along(step, k_from, v_from, last, keys);
    for (int j0 = 0, step = 0; j0 < last; j0 += C, ++step) {
      walk.wait();
      walk.copy_along(step + By::stages - 1, k_from, v_from, last, keys);
      if constexpr (drops) {
        nb_load_kept<R, C, C + 4>(kept, s, key, row, first, j0);
        __syncthreads();
      }
      if (causal && j0 > first + start + By::together - 1 + diagonal) continue;
      float p[F][C / 8][4] = {};
      By::begin(p);
      By::product(p, q_tile, start, walk.first(step));
      By::template await<0>(p);
      // Nobody has drawn for queries that are not there.
      const bool edge = own_mask || j0 + C > keys || (causal && j0 + C - 1 > own + diagonal) || (drops && own + F * 16 > queries);
      if (edge) nb_mask_scores<causal, false>(p, s, own, j0, own_mask, powers);
      nb_halves_softmax<C, drops>(p, acc, top, sum, powers, kept + own_rows * (C + 4));
      By::product_of(acc, p, walk.second(step));
      By::template await<0>(acc);
    }
#pragma unroll
    for (int f = 0; f < F; ++f)
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        for (int lanes = 1; lanes < 4; lanes *= 2) sum[f][half] += nb_shuffle_xor(sum[f][half], lanes);
        const float total = sum[f][half], share = total > 0 ? (drops ? s.kept : 1.0f) / total : 0.0f;
#pragma unroll
        for (int n = 0; n < NB_UP(W, 16) / 8; ++n) acc[f][n][2 * half] *= share, acc[f][n][2 * half + 1] *= share;
        const int i = own + f * 16 + lane / 4 + half * 8;
        if (lane % 4 == 0 && i < queries)
          logsumexp[row * s.queries + i] = total > 0 ? top[f][half] * powers.to_natural + nb_log(total) : none;
      }
    nb_store_halves<W>(out + (row * s.queries + own) * W, queries - own, acc);
    nb_cp_wait<0>();  // of a block that saw no key
    __syncthreads();
  }
}

// dQ of a tile of queries, over the keys that it sees.
template <class By, int R, int C, int D, int W, bool causal, bool drops, class T, class M>
NB_FN void nb_halves_attention_grad_queries(unsigned char* room, nb_heads s, T* dq, const T* q, const T* k, const T* v,
                                            const float* logsumexp, const float* delta, const T* ct, const M* mask,
                                            const unsigned* key) {
  constexpr int F = By::fragments, threads = R / F * 2;
  const typename By::template Tile<T, R, D> q_tile{(T*)room};
  const typename By::template Tile<T, R, W> ct_tile{q_tile.at + q_tile.size};
  const nb_walk<By, C, D, W, threads, T> walk{ct_tile.at + ct_tile.size};
  unsigned char* kept = (unsigned char*)(walk.at + walk.size);
  const int lane = threadIdx.x % 32, own_rows = threadIdx.x / 32 * F * 16, start = R == By::together ? 0 : By::start();
  const nb_powers<M> powers(s.scale);
  const int queries = s.queries, keys = s.keys, diagonal = s.diagonal;
  const int tiles = (queries + R - 1) / R;
  for (int block = blockIdx.x; block < int(s.rows) * tiles; block += gridDim.x) {
    const nb_tile at = nb_tile_of<causal>(block, int(s.rows), tiles, R);
    const int row = at.row, kv = int(s.keys_of(row)), first = at.first, own = first + own_rows;
    const M* own_mask = s.mask_of(row, mask);
    const T *k_from = k + kv * s.keys * D, *v_from = v + kv * s.keys * W;
    nb_copy_rows<R, D, threads>(q_tile, q + (row * s.queries + first) * D, queries - first);
    nb_copy_rows<R, W, threads>(ct_tile, ct + (row * s.queries + first) * W, queries - first);
    float acc[F][NB_UP(D, 16) / 8][4] = {}, base[F][2] = {}, loses[F][2] = {};
#pragma unroll
    for (int f = 0; f < F; ++f)
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int i = own + f * 16 + lane / 4 + half * 8;
        if (i < queries) base[f][half] = logsumexp[row * s.queries + i] * powers.of_natural, loses[f][half] = delta[row * s.queries + i];
        if (base[f][half] == -__builtin_inff()) base[f][half] = 0;
      }
    const int seen = first + R + diagonal, last = causal && seen < keys ? seen : keys;
    for (int step = 0; step < By::stages - 1; ++step) walk.copy_along(step, k_from, v_from, last, keys);
    for (int j0 = 0, step = 0; j0 < last; j0 += C, ++step) {
      walk.wait();
      walk.copy_along(step + By::stages - 1, k_from, v_from, last, keys);
      if constexpr (drops) {
        nb_load_kept<R, C, C + 4>(kept, s, key, row, first, j0);
        __syncthreads();
      }
      if (causal && j0 > first + start + By::together - 1 + diagonal) continue;
      float p[F][C / 8][4] = {}, ds[F][C / 8][4];
      nb_each<F, C / 8>([&](int f, int n, int e) { ds[f][n][e] = drops ? 0.0f : -loses[f][e / 2]; });
      By::begin(p, ds);
      By::product(p, q_tile, start, walk.first(step));
      By::product(ds, ct_tile, start, walk.second(step));
      By::template await<1>(p);
      const bool edge = own_mask || j0 + C > keys || (causal && j0 + C - 1 > own + diagonal) || (drops && own + F * 16 > queries);
      if (edge) nb_mask_scores<causal, false>(p, s, own, j0, own_mask, powers);
      nb_each<F, C / 8>([&](int f, int n, int e) { p[f][n][e] = powers.weight(p[f][n][e], base[f][e / 2]); });
      By::template await<0>(ds);
      nb_each<F, C / 8>([&](int f, int n, int e) {
        const int r = own_rows + f * 16 + lane / 4 + e / 2 * 8, c = n * 8 + lane % 4 * 2 + e % 2;
        if (drops) ds[f][n][e] = ds[f][n][e] * (p[f][n][e] > 0 && kept[r * (C + 4) + c] ? s.kept : 0.0f) - loses[f][e / 2];
        ds[f][n][e] *= p[f][n][e];
      });
      By::product_of(acc, ds, walk.first(step));
      By::template await<0>(acc);
    }
    nb_scale(acc, s.scale);
    nb_store_halves<D>(dq + (row * s.queries + own) * D, queries - own, acc);
    nb_cp_wait<0>();
    __syncthreads();
  }
}

// The tiles of queries of heads that share keys, one after the other.
struct nb_rows_of_group {
  int row, i0;
  __device__ void walk(int by, int first, const nb_heads& s) {
    i0 += by;
    if (s.heads != s.kv_heads && i0 >= int(s.queries)) i0 = first, ++row;
  }
};

// Two numbers of each row of a walked tile of queries: the base of its weights, and what it loses. A thread loads one of them when
// the tile's copy begins, and keeps it when what lay there is read no more.
template <class By, int C, int threads, class M> struct nb_row_numbers {
  static_assert(threads >= 2 * C, "a thread loads one number");
  static constexpr int size = By::stages * 2 * C;
  float* at;
  __device__ const float* bases(int step) const { return at + step % By::stages * 2 * C; }
  __device__ const float* losses(int step) const { return bases(step) + C; }
  __device__ float load(const float* logsumexp, const float* delta, int have) const {
    const int own = threadIdx.x % C;
    if ((threads > 2 * C && threadIdx.x >= 2 * C) || own >= have) return 0;
    const float x = (threadIdx.x < C ? logsumexp : delta)[own];
    return threadIdx.x >= C ? x : x == -__builtin_inff() ? 0.0f : x * nb_powers<M>::of_natural;
  }
  __device__ void keep(int step, float x) const {
    if (threads == 2 * C || threadIdx.x < 2 * C) at[step % By::stages * 2 * C + threadIdx.x] = x;
  }
};

// dK and dV of a tile of keys, over the queries of all heads that see it.
template <class By, int R, int C, int D, int W, bool causal, bool drops, nb_gives gives = nb_gives::both, class T, class M>
NB_FN void nb_halves_attention_grad_keys(unsigned char* room, nb_heads s, T* dk, T* dv, const T* q, const T* k,
                                         const T* v, const float* logsumexp, const float* delta, const T* ct,
                                         const M* mask, const unsigned* key) {
  constexpr int F = By::fragments, threads = R / F * 2;
  constexpr bool of_k = gives != nb_gives::values, of_v = gives != nb_gives::keys;
  const typename By::template Tile<T, R, D> k_tile{(T*)room};
  const typename By::template Tile<T, R, W> v_tile{k_tile.at + k_tile.size};
  const nb_walk<By, C, D, W, threads, T> walk{v_tile.at + of_k * v_tile.size};
  const nb_row_numbers<By, C, threads, M> numbers{(float*)(walk.at + walk.size)};
  unsigned char* kept = (unsigned char*)(numbers.at + numbers.size);
  const int lane = threadIdx.x % 32, own_rows = threadIdx.x / 32 * F * 16, start = R == By::together ? 0 : By::start();
  const nb_powers<M> powers(s.scale);
  const int queries = s.queries, keys = s.keys, diagonal = s.diagonal, tiles = (keys + R - 1) / R, group = int(s.heads / s.kv_heads);
  for (int block = blockIdx.x; block < int(s.rows / group) * tiles; block += gridDim.x) {
    const nb_tile at = nb_tile_of<false>(block, int(s.rows / group), tiles, R);
    const int kv = at.row, first = at.first, own = first + own_rows;
    nb_copy_rows<R, D, threads>(k_tile, k + (kv * s.keys + first) * D, keys - first);
    if constexpr (of_k) nb_copy_rows<R, W, threads>(v_tile, v + (kv * s.keys + first) * W, keys - first);
    float acc_k[F][NB_UP(D, 16) / 8][4] = {}, acc_v[F][NB_UP(W, 16) / 8][4] = {};
    const int sees_first = first - diagonal, i_first = causal && sees_first > 0 ? sees_first / C * C : 0;
    const int all_steps = i_first < queries ? (queries - i_first + C - 1) / C * group : 0;
    nb_rows_of_group now{int(kv / s.kv_heads * s.heads + kv % s.kv_heads * group), i_first}, later = now;
    auto copy = [&](int step) {
      const long from = later.row * s.queries + later.i0;
      const int have = step < all_steps ? queries - later.i0 : 0;
      later.walk(C, i_first, s);
      walk.copy(step, q + from * D, ct + from * W, have);
      return numbers.load(logsumexp + from, delta + from, have);
    };
    for (int step = 0; step < By::stages - 1; ++step) numbers.keep(step, copy(step));
    for (int step = 0; step < all_steps; ++step) {
      const int row = now.row, i0 = now.i0, next = step + By::stages - 1;
      const M* own_mask = s.mask_of(row, mask);
      const float *base = numbers.bases(step), *loses = numbers.losses(step);
      walk.wait();
      const float ahead = copy(next);
      now.walk(C, i_first, s);
      if constexpr (drops) {
        nb_load_kept<C, R, R + 4>(kept, s, key, row, i0, first);
        __syncthreads();
      }
      if (!causal || i0 + C - 1 + diagonal >= first + start) {
        float p[F][C / 8][4] = {}, ds[F][C / 8][4], given[F][C / 8][4], drawn[F][C / 8][4];
        auto two = [&](const float* rows, int n) { return nb_load_pack<2>(rows + n * 8 + lane % 4 * 2); };
        nb_each<F, C / 8>([&](int f, int n, int e) { ds[f][n][e] = drops ? 0.0f : -two(loses, n).at[e % 2]; });
        if constexpr (of_k) By::begin(p, ds);
        else By::begin(p);
        By::product(p, k_tile, start, walk.first(step));
        if constexpr (of_k) By::product(ds, v_tile, start, walk.second(step));
        By::template await<of_k>(p);
        const bool edge = own_mask || i0 + C > queries || own + F * 16 > keys || (causal && own + F * 16 - 1 > i0 + diagonal);
        if (edge) nb_mask_scores<causal, true>(p, s, own, i0, own_mask, powers);
        nb_each<F, C / 8>([&](int f, int n, int e) {
          const int x = n * 8 + lane % 4 * 2 + e % 2, y = own_rows + f * 16 + lane / 4 + e / 2 * 8;
          p[f][n][e] = powers.weight(p[f][n][e], two(base, n).at[e % 2]);
          drawn[f][n][e] = !drops ? 1.0f : p[f][n][e] > 0 && kept[x * (R + 4) + y] ? s.kept : 0.0f;  // nobody drew for a weight of 0
          given[f][n][e] = p[f][n][e] * drawn[f][n][e];
        });
        if constexpr (of_v) By::product_of(acc_v, given, walk.second(step));
        if constexpr (of_k) {
          By::template await<of_v>(ds);
          nb_each<F, C / 8>([&](int f, int n, int e) {
            if (drops) ds[f][n][e] = ds[f][n][e] * drawn[f][n][e] - two(loses, n).at[e % 2];
            ds[f][n][e] *= p[f][n][e];
          });
          By::product_of(acc_k, ds, walk.first(step));
        }
        if constexpr (of_v) By::template await<0>(acc_v);
        if constexpr (of_k) By::template await<0>(acc_k);
      }
      numbers.keep(next, ahead);
    }
    nb_scale(acc_k, s.scale);
    if constexpr (of_k) nb_store_halves<D>(dk + (kv * s.keys + own) * D, keys - own, acc_k);
    if constexpr (of_v) nb_store_halves<W>(dv + (kv * s.keys + own) * W, keys - own, acc_v);
    nb_cp_wait<0>();
    __syncthreads();
  }
}
