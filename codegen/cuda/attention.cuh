// Attention and its way back without scores in memory: a block keeps a tile of queries, or of keys, in shared memory and
// walks the others tile by tile. Dao, "FlashAttention-2", 2023. Results lie in registers as those of mma.m16n8k16 do: of
// 16 rows x 8 columns a lane holds rows lane / 4 and lane / 4 + 8, columns lane % 4 * 2 and the next. R: rows of the tile
// that a block keeps, 16 or 32 for each of its warps; C: rows of the tiles that it walks, a multiple of 16. Here are the
// kernels of f32, by multiply-adds; those of halves, on tensor cores, are in attention_halves.cuh.

#define NB_UP(n, m) (((n) + (m) - 1) / (m) * (m))

// acc[n] += A B[n]': A is 16 rows and B[n] 8 rows of `depth` floats in shared memory.
template <int tiles>
NB_FN void nb_rows_times_rows(float (&acc)[tiles][4], const float* a, int a_pitch, const float* b, int b_pitch, int depth) {
  const int lane = threadIdx.x % 32;
  for (int k = 0; k < depth; ++k) {
    const float x0 = a[lane / 4 * a_pitch + k], x1 = a[(lane / 4 + 8) * a_pitch + k];
#pragma unroll
    for (int n = 0; n < tiles; ++n) {
      const float* bt = b + (n * 8 + lane % 4 * 2) * b_pitch + k;
      const float y0 = bt[0], y1 = bt[b_pitch];
      acc[n][0] += x0 * y0, acc[n][1] += x0 * y1, acc[n][2] += x1 * y0, acc[n][3] += x1 * y1;
    }
  }
}

// `rows` rows of `width` elements, of which `have` are there, padded with zeros.
template <int rows, int width, int pitch, class T> NB_FN void nb_load_rows(T* tile, const T* from, long have) {
  constexpr int pack = 16 / sizeof(T), padded = NB_UP(width, 16);
  if (width % pack == 0 && nb_is_aligned(from)) {
    for (int p = threadIdx.x; p < rows * padded / pack; p += blockDim.x) {
      const int r = p / (padded / pack), c = p % (padded / pack) * pack;
      nb_pack<T, pack> x = {};
      if (r < have && c < width) x = nb_load_pack<pack>(from + r * long(width) + c);
      nb_store_pack(tile + r * pitch + c, x);
    }
  } else {
    for (int p = threadIdx.x; p < rows * padded; p += blockDim.x) {
      const int r = p / padded, c = p % padded;
      T x = {};
      if (r < have && c < width) x = from[r * long(width) + c];
      tile[r * pitch + c] = x;
    }
  }
}
// The same transposed: row c of the tile is column c.
template <int rows, int width, int pitch, class T> NB_FN void nb_load_columns(T* tile, const T* from, long have) {
  constexpr int padded = NB_UP(width, 8);
  for (int p = threadIdx.x; p < rows * padded; p += blockDim.x) {
    const int r = p / padded, c = p % padded;
    T x = {};
    if (r < have && c < width) x = from[r * long(width) + c];
    tile[c * pitch + r] = x;
  }
}
// A warp's 16 rows of results as an operand of its next product.
template <int tiles, class T> NB_FN void nb_keep(T* tile, int pitch, const float (&x)[tiles][4]) {
  const int lane = threadIdx.x % 32;
  for (int n = 0; n < tiles; ++n)
    for (int e = 0; e < 4; ++e)
      tile[(lane / 4 + e / 2 * 8) * pitch + n * 8 + lane % 4 * 2 + e % 2] = nb_narrow(T{}, x[n][e]);
}
template <int width, int tiles, class T> NB_FN void nb_store_rows(T* to, long have, const float (&x)[tiles][4]) {
  const int lane = threadIdx.x % 32;
  for (int n = 0; n < tiles; ++n)
    for (int e = 0; e < 4; ++e) {
      const int r = lane / 4 + e / 2 * 8, c = n * 8 + lane % 4 * 2 + e % 2;
      if (r < have && c < width) to[r * long(width) + c] = nb_narrow(T{}, x[n][e]);
    }
}

// Does a mask of this type add to scores? One of bools says which keys are seen.
template <class M> constexpr bool kNbAdds = true;
template <> constexpr bool kNbAdds<bool> = false;

// Sizes of a call, and who sees whom: query i of a causal one the keys up to i + diagonal. `rows` counts the heads of all
// examples. Batch elements in a row may share a mask, or a stream of random words: a weight whose word is `least` or more
// is multiplied by `kept`, others are dropped. The words of a row of weights follow each other.
struct nb_heads {
  long rows, queries, heads, kv_heads, keys, mask_batch, mask_heads, streams;
  float scale, kept;
  unsigned least;
  long diagonal, word, word_batch, word_head, word_query;
  __device__ long keys_of(long row) const { return row / heads * kv_heads + row % heads / (heads / kv_heads); }
  // Of a head: [queries, keys]; 0 where it sees all.
  template <class M> __device__ const M* mask_of(long row, const M* mask) const {
    if (mask_batch == 0) return 0;
    const long b = row / heads * mask_batch / (rows / heads), h = mask_heads == 1 ? 0 : row % heads;
    return mask + (b * mask_heads + h) * queries * keys;
  }
  template <bool causal, class M> __device__ bool sees(int i, int j, const M* own_mask) const {
    if (i >= int(queries) || j >= int(keys) || (causal && j > i + int(diagonal))) return false;
    if constexpr (kNbAdds<M>) return true;
    else return !own_mask || own_mask[i * keys + j];
  }
  // The score of a query and a key that it sees, from their product.
  template <class M> __device__ float score(float product, int i, int j, const M* own_mask) const {
    if constexpr (kNbAdds<M>) return product * scale + float(nb_widen(own_mask[i * keys + j]));
    else return product * scale;
  }
  // Of the weight of query i and key 0; `own` counts the heads that share the stream.
  __device__ long word_of(long own, long i) const {
    return word + own / heads * word_batch + own % heads * word_head + i * word_query;
  }
};

// tile[r][c]: is the weight of query i0 + r and key j0 + c kept? A thread makes four words at a time.
template <int rows, int columns, int pitch>
NB_FN void nb_load_kept(unsigned char* tile, const nb_heads& s, const unsigned* key, long row, long i0, long j0) {
  constexpr int blocks = columns / 4 + 1;
  const long sharing = s.rows / s.streams;
  const unsigned k0 = key[row / sharing * 2], k1 = key[row / sharing * 2 + 1];
  for (int p = threadIdx.x; p < rows * blocks; p += blockDim.x) {
    const int r = p / blocks;
    if (i0 + r >= s.queries) break;
    const long first = s.word_of(row % sharing, i0 + r) + j0, block = first / 4 + p % blocks;
    const int before = int(block * 4 - first);
    unsigned words[4];
    nb_philox_block(k0, k1, block, words);
#pragma unroll
    for (int e = 0; e < 4; ++e)
      if (before + e >= 0 && before + e < columns) tile[r * pitch + before + e] = words[e] >= s.least;
  }
}

template <int R, int C, int D, int W, bool causal, bool drops, class T, class M>
NB_FN void nb_attention(unsigned char* room, nb_heads s, T* out, float* logsumexp, const T* q, const T* k, const T* v,
                        const M* mask, const unsigned* key) {
  constexpr int pitch = NB_UP(D, 16) + 8, across = C + 8;
  T *q_tile = (T*)room, *k_tile = q_tile + R * pitch, *v_tile = k_tile + C * pitch,
    *p_tile = v_tile + NB_UP(W, 8) * across;
  unsigned char* kept = (unsigned char*)(p_tile + R * across);
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const float none = -__builtin_inff();
  const long tiles = (s.queries + R - 1) / R;
  p_tile += warp * 16 * across;
  for (long block = blockIdx.x; block < s.rows * tiles; block += gridDim.x) {
    const long row = block / tiles, first = block % tiles * R, own = first + warp * 16, kv = s.keys_of(row);
    const M* own_mask = s.mask_of(row, mask);
    nb_load_rows<R, D, pitch>(q_tile, q + (row * s.queries + first) * D, s.queries - first);
    float acc[NB_UP(W, 8) / 8][4] = {}, top[2] = {none, none}, sum[2] = {};
    const long seen = first + R + s.diagonal, last = causal && seen < s.keys ? seen : s.keys;
    for (long j0 = 0; j0 < last; j0 += C) {
      __syncthreads();
      nb_load_rows<C, D, pitch>(k_tile, k + (kv * s.keys + j0) * D, s.keys - j0);
      nb_load_columns<C, W, across>(v_tile, v + (kv * s.keys + j0) * W, s.keys - j0);
      if constexpr (drops) nb_load_kept<R, C, C + 4>(kept, s, key, row, first, j0);
      __syncthreads();
      float p[C / 8][4] = {};
      nb_rows_times_rows(p, q_tile + warp * 16 * pitch, pitch, k_tile, pitch, NB_UP(D, 16));
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        float most = top[half];
        for (int n = 0; n < C / 8; ++n)
          for (int e = 2 * half; e < 2 * half + 2; ++e) {
            const int i = own + lane / 4 + half * 8, j = j0 + n * 8 + lane % 4 * 2 + e % 2;
            p[n][e] = s.sees<causal>(i, j, own_mask) ? s.score(p[n][e], i, j, own_mask) : none;
            most = nb_maximum(most, p[n][e]);
          }
        for (int lanes = 1; lanes < 4; lanes *= 2) most = nb_maximum(most, nb_shuffle_xor(most, lanes));
        const float base = most == none ? 0.0f : most, shrink = nb_exp(top[half] - base);
        top[half] = most, sum[half] *= shrink;
        for (int n = 0; n < C / 8; ++n)
          for (int e = 2 * half; e < 2 * half + 2; ++e) {
            sum[half] += p[n][e] = nb_exp(p[n][e] - base);
            // Weights of 0 are those that nobody drew for.
            if (drops && p[n][e] > 0 && !kept[(warp * 16 + lane / 4 + half * 8) * (C + 4) + n * 8 + lane % 4 * 2 + e % 2]) p[n][e] = 0;
          }
        for (int n = 0; n < NB_UP(W, 8) / 8; ++n) acc[n][2 * half] *= shrink, acc[n][2 * half + 1] *= shrink;
      }
      nb_keep(p_tile, across, p);
      __syncwarp();
      nb_rows_times_rows(acc, p_tile, across, v_tile, across, C);
    }
    for (int half = 0; half < 2; ++half) {
      for (int lanes = 1; lanes < 4; lanes *= 2) sum[half] += nb_shuffle_xor(sum[half], lanes);
      const float share = sum[half] > 0 ? (drops ? s.kept : 1.0f) / sum[half] : 0.0f;
      for (int n = 0; n < NB_UP(W, 8) / 8; ++n) acc[n][2 * half] *= share, acc[n][2 * half + 1] *= share;
      const long i = own + lane / 4 + half * 8;
      if (lane % 4 == 0 && i < s.queries) logsumexp[row * s.queries + i] = sum[half] > 0 ? top[half] + nb_log(sum[half]) : none;
    }
    nb_store_rows<W>(out + (row * s.queries + own) * W, s.queries - own, acc);
    __syncthreads();
  }
}

// dQ of a tile of queries, over the keys that it sees.
template <int R, int C, int D, int W, bool causal, bool drops, class T, class M>
NB_FN void nb_attention_grad_queries(unsigned char* room, nb_heads s, T* dq, const T* q, const T* k, const T* v,
                                     const float* logsumexp, const float* delta, const T* ct, const M* mask,
                                     const unsigned* key) {
  constexpr int pitch = NB_UP(D, 16) + 8, pitch_w = NB_UP(W, 16) + 8, across = C + 8;
  T *q_tile = (T*)room, *ct_tile = q_tile + R * pitch, *k_tile = ct_tile + R * pitch_w, *v_tile = k_tile + C * pitch,
    *k_columns = v_tile + C * pitch_w, *p_tile = k_columns + NB_UP(D, 8) * across;
  unsigned char* kept = (unsigned char*)(p_tile + R * across);
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const long tiles = (s.queries + R - 1) / R;
  p_tile += warp * 16 * across;
  for (long block = blockIdx.x; block < s.rows * tiles; block += gridDim.x) {
    const long row = block / tiles, first = block % tiles * R, own = first + warp * 16, kv = s.keys_of(row);
    const M* own_mask = s.mask_of(row, mask);
    nb_load_rows<R, D, pitch>(q_tile, q + (row * s.queries + first) * D, s.queries - first);
    nb_load_rows<R, W, pitch_w>(ct_tile, ct + (row * s.queries + first) * W, s.queries - first);
    float acc[NB_UP(D, 8) / 8][4] = {}, base[2] = {}, loses[2] = {};
    for (int half = 0; half < 2; ++half) {
      const long i = own + lane / 4 + half * 8;
      if (i < s.queries) base[half] = logsumexp[row * s.queries + i], loses[half] = delta[row * s.queries + i];
      if (base[half] == -__builtin_inff()) base[half] = 0;
    }
    const long seen = first + R + s.diagonal, last = causal && seen < s.keys ? seen : s.keys;
    for (long j0 = 0; j0 < last; j0 += C) {
      __syncthreads();
      nb_load_rows<C, D, pitch>(k_tile, k + (kv * s.keys + j0) * D, s.keys - j0);
      nb_load_columns<C, D, across>(k_columns, k + (kv * s.keys + j0) * D, s.keys - j0);
      nb_load_rows<C, W, pitch_w>(v_tile, v + (kv * s.keys + j0) * W, s.keys - j0);
      if constexpr (drops) nb_load_kept<R, C, C + 4>(kept, s, key, row, first, j0);
      __syncthreads();
      float p[C / 8][4] = {}, ds[C / 8][4] = {};
      nb_rows_times_rows(p, q_tile + warp * 16 * pitch, pitch, k_tile, pitch, NB_UP(D, 16));
      nb_rows_times_rows(ds, ct_tile + warp * 16 * pitch_w, pitch_w, v_tile, pitch_w, NB_UP(W, 16));
      for (int n = 0; n < C / 8; ++n)
        for (int e = 0; e < 4; ++e) {
          const int r = lane / 4 + e / 2 * 8, c = n * 8 + lane % 4 * 2 + e % 2;
          const bool sees = s.sees<causal>(own + r, j0 + c, own_mask);
          if (drops) ds[n][e] *= sees && kept[(warp * 16 + r) * (C + 4) + c] ? s.kept : 0.0f;
          const float weight = sees ? nb_exp(s.score(p[n][e], own + r, j0 + c, own_mask) - base[e / 2]) : 0.0f;
          ds[n][e] = sees ? weight * (ds[n][e] - loses[e / 2]) * s.scale : 0.0f;
        }
      nb_keep(p_tile, across, ds);
      __syncwarp();
      nb_rows_times_rows(acc, p_tile, across, k_columns, across, C);
    }
    nb_store_rows<D>(dq + (row * s.queries + own) * D, s.queries - own, acc);
    __syncthreads();
  }
}

// Which cotangents a grid of tiles of keys gives: where their sums do not fit into registers together, each has a grid.
enum class nb_gives { both, keys, values };

// dK and dV of a tile of keys, over the queries of all heads that see it.
template <int R, int C, int D, int W, bool causal, bool drops, nb_gives gives = nb_gives::both, class T, class M>
NB_FN void nb_attention_grad_keys(unsigned char* room, nb_heads s, T* dk, T* dv, const T* q, const T* k, const T* v,
                                  const float* logsumexp, const float* delta, const T* ct, const M* mask,
                                  const unsigned* key) {
  constexpr bool of_k = gives != nb_gives::values, of_v = gives != nb_gives::keys;
  constexpr int pitch = NB_UP(D, 16) + 8, pitch_w = NB_UP(W, 16) + 8, across = C + 8;
  T *k_tile = (T*)room, *v_tile = k_tile + R * pitch, *q_tile = v_tile + of_k * R * pitch_w, *ct_tile = q_tile + C * pitch,
    *q_columns = ct_tile + of_k * C * pitch_w, *ct_columns = q_columns + of_k * NB_UP(D, 8) * across,
    *p_tile = ct_columns + of_v * NB_UP(W, 8) * across;
  float *base = (float*)(p_tile + R * across), *loses = base + C;
  unsigned char* kept = (unsigned char*)(loses + C);
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const long tiles = (s.keys + R - 1) / R, group = s.heads / s.kv_heads;
  p_tile += warp * 16 * across;
  for (long block = blockIdx.x; block < s.rows / group * tiles; block += gridDim.x) {
    const long kv = block / tiles, first = block % tiles * R, own = first + warp * 16;
    nb_load_rows<R, D, pitch>(k_tile, k + (kv * s.keys + first) * D, s.keys - first);
    if constexpr (of_k) nb_load_rows<R, W, pitch_w>(v_tile, v + (kv * s.keys + first) * W, s.keys - first);
    float acc_k[NB_UP(D, 8) / 8][4] = {}, acc_v[NB_UP(W, 8) / 8][4] = {};
    const long sees_first = first - s.diagonal, start = causal && sees_first > 0 ? sees_first / C * C : 0;
    for (long g = 0; g < group; ++g) {
      const long row = kv / s.kv_heads * s.heads + kv % s.kv_heads * group + g;
      const M* own_mask = s.mask_of(row, mask);
      for (long i0 = start; i0 < s.queries; i0 += C) {
        const T *q_from = q + (row * s.queries + i0) * D, *ct_from = ct + (row * s.queries + i0) * W;
        const long have = s.queries - i0;
        __syncthreads();
        nb_load_rows<C, D, pitch>(q_tile, q_from, have);
        if constexpr (of_k) nb_load_columns<C, D, across>(q_columns, q_from, have);
        if constexpr (of_k) nb_load_rows<C, W, pitch_w>(ct_tile, ct_from, have);
        if constexpr (of_v) nb_load_columns<C, W, across>(ct_columns, ct_from, have);
        if constexpr (drops) nb_load_kept<C, R, R + 4>(kept, s, key, row, i0, first);
        for (int x = threadIdx.x; x < C; x += blockDim.x) {
          const float l = x < have ? logsumexp[row * s.queries + i0 + x] : 0.0f;
          base[x] = l == -__builtin_inff() ? 0.0f : l;
          loses[x] = x < have ? delta[row * s.queries + i0 + x] : 0.0f;
        }
        __syncthreads();
        float p[C / 8][4] = {}, ds[C / 8][4] = {};
        nb_rows_times_rows(p, k_tile + warp * 16 * pitch, pitch, q_tile, pitch, NB_UP(D, 16));
        if constexpr (of_k) nb_rows_times_rows(ds, v_tile + warp * 16 * pitch_w, pitch_w, ct_tile, pitch_w, NB_UP(W, 16));
        for (int n = 0; n < C / 8; ++n)
          for (int e = 0; e < 4; ++e) {
            const int x = n * 8 + lane % 4 * 2 + e % 2, y = lane / 4 + e / 2 * 8;
            const bool sees = s.sees<causal>(i0 + x, own + y, own_mask);
            const float m = !drops ? 1.0f : sees && kept[x * (R + 4) + warp * 16 + y] ? s.kept : 0.0f;
            p[n][e] = sees ? nb_exp(s.score(p[n][e], i0 + x, own + y, own_mask) - base[x]) : 0.0f;
            ds[n][e] = p[n][e] * (ds[n][e] * m - loses[x]) * s.scale;
            p[n][e] *= m;
          }
        if constexpr (of_v) {
          nb_keep(p_tile, across, p);
          __syncwarp();
          nb_rows_times_rows(acc_v, p_tile, across, ct_columns, across, C);
          __syncwarp();
        }
        if constexpr (of_k) {
          nb_keep(p_tile, across, ds);
          __syncwarp();
          nb_rows_times_rows(acc_k, p_tile, across, q_columns, across, C);
        }
      }
    }
    if constexpr (of_k) nb_store_rows<D>(dk + (kv * s.keys + own) * D, s.keys - own, acc_k);
    if constexpr (of_v) nb_store_rows<W>(dv + (kv * s.keys + own) * W, s.keys - own, acc_v);
    __syncthreads();
  }
}
