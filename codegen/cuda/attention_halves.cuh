// Attention of bf16 and f16 on tensor cores. F: fragments of 16 rows that each of `threads` / 32 warps keeps of the block's
// tile of R rows. Tiles that a block walks lie in two places: one is copied while the other is multiplied. What the first
// product gives is the next one's operand as it lies in registers: two neighbouring 16 x 8 results are a 16 x 16 factor.

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

// acc[f][n] += A[f] B[n]': F x 16 rows of `a`, 8 rows of `b` for each n, `depth` elements each.
template <int F, int tiles, int depth, class T>
NB_FN void nb_halves_product(float (&acc)[F][tiles][4], const T* a, int a_pitch, const T* b, int b_pitch) {
#pragma unroll
  for (int k = 0; k < depth; k += 16) {
    unsigned x[F][4];
#pragma unroll
    for (int f = 0; f < F; ++f) nb_load_a(x[f], a + f * 16 * a_pitch + k, a_pitch);
#pragma unroll
    for (int n = 0; n < tiles; n += 2) {
      unsigned y[4];
      nb_load_b(y, b + n * 8 * b_pitch + k, b_pitch);
#pragma unroll
      for (int f = 0; f < F; ++f) nb_mma_16816(acc[f][n], x[f], y, T{}), nb_mma_16816(acc[f][n + 1], x[f], y + 2, T{});
    }
  }
}
// acc[f][n] += P[f] B[n]: P is results of a product, B the rows of a tile from its column n * 8 on.
template <int F, int steps, int tiles, class T>
NB_FN void nb_halves_product_of(float (&acc)[F][tiles][4], const float (&p)[F][steps][4], const T* b, int b_pitch) {
#pragma unroll
  for (int k = 0; k < steps; k += 2) {
    unsigned x[F][4];
#pragma unroll
    for (int f = 0; f < F; ++f)
#pragma unroll
      for (int r = 0; r < 4; ++r) x[f][r] = nb_two(T{}, p[f][k + r / 2][r % 2 * 2], p[f][k + r / 2][r % 2 * 2 + 1]);
#pragma unroll
    for (int n = 0; n < tiles; n += 2) {
      unsigned y[4];
      nb_load_b_of_k(y, b + k * 8 * b_pitch + n * 8, b_pitch);
#pragma unroll
      for (int f = 0; f < F; ++f) nb_mma_16816(acc[f][n], x[f], y, T{}), nb_mma_16816(acc[f][n + 1], x[f], y + 2, T{});
    }
  }
}

// Starts copies of `rows` rows of `width` elements, of which `have` are there, padded with zeros.
template <int rows, int width, int pitch, int threads, class T> NB_FN void nb_copy_rows(T* tile, const T* from, long have) {
  constexpr int padded = NB_UP(width, 16);
  if (width % 8 == 0 && nb_is_aligned(from)) {
#pragma unroll
    for (int first = 0; first < rows * padded / 8; first += threads) {
      const int p = first + threadIdx.x, r = p / (padded / 8), c = p % (padded / 8) * 8;
      if (rows * padded / 8 % threads != 0 && r >= rows) break;
      if (r < have && c < width) nb_cp_async_16(tile + r * pitch + c, from + r * width + c);
      else nb_store_pack(tile + r * pitch + c, nb_pack<T, 8>{});
    }
  } else {
    for (int p = threadIdx.x; p < rows * padded; p += threads) {
      const int r = p / padded, c = p % padded;
      T x = {};
      if (r < have && c < width) x = from[r * width + c];
      tile[r * pitch + c] = x;
    }
  }
}
template <int width, int F, int tiles, class T>
NB_FN void nb_store_halves(T* to, long have, const float (&x)[F][tiles][4]) {
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
struct nb_tile { long row, first; };
template <bool last_first> NB_FN nb_tile nb_tile_of(long block, long rows, long tiles, int size) {
  const long tile = block / rows;
  return {block % rows, (last_first ? tiles - 1 - tile : tile) * size};
}

template <int F, int tiles> NB_FN void nb_scale(float (&acc)[F][tiles][4], float by) {
  for (int f = 0; f < F; ++f)
    for (int n = 0; n < tiles; ++n)
      for (int e = 0; e < 4; ++e) acc[f][n][e] *= by;
}

constexpr float kNbLog2e = 1.44269504088896341f, kNbLn2 = 0.693147180559945309f;

// A step of the softmax of scores p: weights in their place, with a running maximum and sum of every row, by which earlier
// sums are shrunk. `kept`: of the warp's rows, where weights are dropped.
template <int C, bool drops, int F, int tiles>
NB_FN void nb_halves_softmax(float (&p)[F][C / 8][4], float (&acc)[F][tiles][4], float (&top)[F][2], float (&sum)[F][2],
                             float scale, const unsigned char* kept) {
  const int lane = threadIdx.x % 32;
  const float none = -__builtin_inff(), sign = scale < 0 ? -1.0f : 1.0f;
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
      const float base = most == none ? 0.0f : most, shrink = nb_exp2_of_halves(top[f][half] - base);
      top[f][half] = most, sum[f][half] *= shrink;
#pragma unroll
      for (int n = 0; n < C / 8; ++n)
#pragma unroll
        for (int e = 2 * half; e < 2 * half + 2; ++e) {
          sum[f][half] += p[f][n][e] = nb_exp2_of_halves(p[f][n][e] * scale - base);
          // Weights of 0 are those that nobody drew for.
          if (drops && p[f][n][e] > 0 && !kept[r * (C + 4) + n * 8 + lane % 4 * 2 + e % 2]) p[f][n][e] = 0;
        }
#pragma unroll
      for (int n = 0; n < tiles; ++n) acc[f][n][2 * half] *= shrink, acc[f][n][2 * half + 1] *= shrink;
    }
}

template <int R, int C, int F, int D, int W, bool causal, bool drops, class T, class M>
NB_FN void nb_halves_attention(unsigned char* room, nb_heads s, T* out, float* logsumexp, const T* q, const T* k,
                               const T* v, const M* mask, const unsigned* key) {
  constexpr int threads = R / F * 2, pitch = NB_UP(D, 16) + 8, pitch_w = NB_UP(W, 16) + 8, stage = C * (pitch + pitch_w);
  T *q_tile = (T*)room, *kv_tiles = q_tile + R * pitch;
  unsigned char* kept = (unsigned char*)(kv_tiles + 2 * stage);
  const int lane = threadIdx.x % 32, own_rows = threadIdx.x / 32 * F * 16;
  // A scale of 0 stays one that leaves what nobody sees at minus infinity.
  const float none = -__builtin_inff(), scale = s.scale == 0 ? 1e-38f : s.scale * kNbLog2e, sign = scale < 0 ? -1.0f : 1.0f;
  const long tiles = (s.queries + R - 1) / R;
  for (long block = blockIdx.x; block < s.rows * tiles; block += gridDim.x) {
    const nb_tile at = nb_tile_of<causal>(block, s.rows, tiles, R);
    const long row = at.row, first = at.first, own = first + own_rows, kv = s.keys_of(row);
    const M* own_mask = s.mask_of(row, mask);
    const T *k_from = k + kv * s.keys * D, *v_from = v + kv * s.keys * W;
    float acc[F][NB_UP(W, 16) / 8][4] = {}, top[F][2], sum[F][2] = {};
    for (int f = 0; f < F; ++f) top[f][0] = top[f][1] = none;
    const long seen = first + R + s.diagonal, last = causal && seen < s.keys ? seen : s.keys;
    nb_copy_rows<R, D, pitch, threads>(q_tile, q + (row * s.queries + first) * D, s.queries - first);
    auto copy = [&](long j0, T* to) {
      nb_copy_rows<C, D, pitch, threads>(to, k_from + j0 * D, s.keys - j0);
      nb_copy_rows<C, W, pitch_w, threads>(to + C * pitch, v_from + j0 * W, s.keys - j0);
      nb_cp_commit();
    };
    if (last > 0) copy(0, kv_tiles);
    for (long j0 = 0, step = 0; j0 < last; j0 += C, ++step) {
      const T *k_tile = kv_tiles + step % 2 * stage, *v_tile = k_tile + C * pitch;
      nb_cp_wait<0>();
      __syncthreads();
      if (j0 + C < last) copy(j0 + C, kv_tiles + (step + 1) % 2 * stage);
      if constexpr (drops) {
        nb_load_kept<R, C, C + 4>(kept, s, key, row, first, j0);
        __syncthreads();
      }
      float p[F][C / 8][4] = {};
      nb_halves_product<F, C / 8, NB_UP(D, 16)>(p, q_tile + own_rows * pitch, pitch, k_tile, pitch);
      // Nobody has drawn for queries that are not there.
      const bool edge = own_mask || j0 + C > s.keys || (causal && j0 + C - 1 > own + s.diagonal) || (drops && own + F * 16 > s.queries);
      if (edge) {
#pragma unroll
        for (int f = 0; f < F; ++f)
#pragma unroll
          for (int n = 0; n < C / 8; ++n)
#pragma unroll
            for (int e = 0; e < 4; ++e)
              if (!s.sees<causal>(own + f * 16 + lane / 4 + e / 2 * 8, j0 + n * 8 + lane % 4 * 2 + e % 2, own_mask))
                p[f][n][e] = none * sign;
      }
      nb_halves_softmax<C, drops>(p, acc, top, sum, scale, kept + own_rows * (C + 4));
      nb_halves_product_of(acc, p, v_tile, pitch_w);
    }
#pragma unroll
    for (int f = 0; f < F; ++f)
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        for (int lanes = 1; lanes < 4; lanes *= 2) sum[f][half] += nb_shuffle_xor(sum[f][half], lanes);
        const float total = sum[f][half], share = total > 0 ? (drops ? s.kept : 1.0f) / total : 0.0f;
#pragma unroll
        for (int n = 0; n < NB_UP(W, 16) / 8; ++n) acc[f][n][2 * half] *= share, acc[f][n][2 * half + 1] *= share;
        const long i = own + f * 16 + lane / 4 + half * 8;
        if (lane % 4 == 0 && i < s.queries)
          logsumexp[row * s.queries + i] = total > 0 ? top[f][half] * kNbLn2 + nb_log(total) : none;
      }
    nb_store_halves<W>(out + (row * s.queries + own) * W, s.queries - own, acc);
    nb_cp_wait<0>();  // of a block that saw no key
    __syncthreads();
  }
}

// dQ of a tile of queries, over the keys that it sees.
template <int R, int C, int F, int D, int W, bool causal, bool drops, class T, class M>
NB_FN void nb_halves_attention_grad_queries(unsigned char* room, nb_heads s, T* dq, const T* q, const T* k, const T* v,
                                            const float* logsumexp, const float* delta, const T* ct, const M* mask,
                                            const unsigned* key) {
  constexpr int threads = R / F * 2, pitch = NB_UP(D, 16) + 8, pitch_w = NB_UP(W, 16) + 8, stage = C * (pitch + pitch_w);
  T *q_tile = (T*)room, *ct_tile = q_tile + R * pitch, *kv_tiles = ct_tile + R * pitch_w;
  unsigned char* kept = (unsigned char*)(kv_tiles + 2 * stage);
  const int lane = threadIdx.x % 32, own_rows = threadIdx.x / 32 * F * 16;
  const float scale = s.scale * kNbLog2e;
  const long tiles = (s.queries + R - 1) / R;
  for (long block = blockIdx.x; block < s.rows * tiles; block += gridDim.x) {
    const nb_tile at = nb_tile_of<causal>(block, s.rows, tiles, R);
    const long row = at.row, first = at.first, own = first + own_rows, kv = s.keys_of(row);
    const M* own_mask = s.mask_of(row, mask);
    const T *k_from = k + kv * s.keys * D, *v_from = v + kv * s.keys * W;
    nb_copy_rows<R, D, pitch, threads>(q_tile, q + (row * s.queries + first) * D, s.queries - first);
    nb_copy_rows<R, W, pitch_w, threads>(ct_tile, ct + (row * s.queries + first) * W, s.queries - first);
    float acc[F][NB_UP(D, 16) / 8][4] = {}, base[F][2] = {}, loses[F][2] = {};
#pragma unroll
    for (int f = 0; f < F; ++f)
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const long i = own + f * 16 + lane / 4 + half * 8;
        if (i < s.queries) base[f][half] = logsumexp[row * s.queries + i] * kNbLog2e, loses[f][half] = delta[row * s.queries + i];
        if (base[f][half] == -__builtin_inff()) base[f][half] = 0;
      }
    const long seen = first + R + s.diagonal, last = causal && seen < s.keys ? seen : s.keys;
    auto copy = [&](long j0, T* to) {
      nb_copy_rows<C, D, pitch, threads>(to, k_from + j0 * D, s.keys - j0);
      nb_copy_rows<C, W, pitch_w, threads>(to + C * pitch, v_from + j0 * W, s.keys - j0);
      nb_cp_commit();
    };
    if (last > 0) copy(0, kv_tiles);
    for (long j0 = 0, step = 0; j0 < last; j0 += C, ++step) {
      const T *k_tile = kv_tiles + step % 2 * stage, *v_tile = k_tile + C * pitch;
      nb_cp_wait<0>();
      __syncthreads();
      if (j0 + C < last) copy(j0 + C, kv_tiles + (step + 1) % 2 * stage);
      if constexpr (drops) {
        nb_load_kept<R, C, C + 4>(kept, s, key, row, first, j0);
        __syncthreads();
      }
      float p[F][C / 8][4] = {}, ds[F][C / 8][4] = {};
      nb_halves_product<F, C / 8, NB_UP(D, 16)>(p, q_tile + own_rows * pitch, pitch, k_tile, pitch);
      nb_halves_product<F, C / 8, NB_UP(W, 16)>(ds, ct_tile + own_rows * pitch_w, pitch_w, v_tile, pitch_w);
      const bool edge = own_mask || j0 + C > s.keys || (causal && j0 + C - 1 > own + s.diagonal) || (drops && own + F * 16 > s.queries);
#pragma unroll
      for (int f = 0; f < F; ++f)
#pragma unroll
        for (int n = 0; n < C / 8; ++n)
#pragma unroll
          for (int e = 0; e < 4; ++e) {
            const int r = own_rows + f * 16 + lane / 4 + e / 2 * 8, c = n * 8 + lane % 4 * 2 + e % 2;
            const bool sees = !edge || s.sees<causal>(first + r, j0 + c, own_mask);
            if (drops) ds[f][n][e] *= sees && kept[r * (C + 4) + c] ? s.kept : 0.0f;
            ds[f][n][e] = (ds[f][n][e] - loses[f][e / 2]) * nb_exp2_of_halves(p[f][n][e] * scale - base[f][e / 2]);
            if (!sees) ds[f][n][e] = 0;
          }
      nb_halves_product_of(acc, ds, k_tile, pitch);
    }
    nb_scale(acc, s.scale);
    nb_store_halves<D>(dq + (row * s.queries + own) * D, s.queries - own, acc);
    nb_cp_wait<0>();
    __syncthreads();
  }
}

// dK and dV of a tile of keys, over the queries of all heads that see it.
template <int R, int C, int F, int D, int W, bool causal, bool drops, class T, class M>
NB_FN void nb_halves_attention_grad_keys(unsigned char* room, nb_heads s, T* dk, T* dv, const T* q, const T* k,
                                         const T* v, const float* logsumexp, const float* delta, const T* ct,
                                         const M* mask, const unsigned* key) {
  constexpr int threads = R / F * 2, pitch = NB_UP(D, 16) + 8, pitch_w = NB_UP(W, 16) + 8, stage = C * (pitch + pitch_w);
  T *k_tile = (T*)room, *v_tile = k_tile + R * pitch, *tiles_at = v_tile + R * pitch_w;
  float* rows_at = (float*)(tiles_at + 2 * stage);  // of each stage: base, then what it loses
  unsigned char* kept = (unsigned char*)(rows_at + 4 * C);
  const int lane = threadIdx.x % 32, own_rows = threadIdx.x / 32 * F * 16;
  const float scale = s.scale * kNbLog2e;
  const long tiles = (s.keys + R - 1) / R, group = s.heads / s.kv_heads;
  for (long block = blockIdx.x; block < s.rows / group * tiles; block += gridDim.x) {
    const nb_tile at = nb_tile_of<false>(block, s.rows / group, tiles, R);
    const long kv = at.row, first = at.first, own = first + own_rows;
    nb_copy_rows<R, D, pitch, threads>(k_tile, k + (kv * s.keys + first) * D, s.keys - first);
    nb_copy_rows<R, W, pitch_w, threads>(v_tile, v + (kv * s.keys + first) * W, s.keys - first);
    float acc_k[F][NB_UP(D, 16) / 8][4] = {}, acc_v[F][NB_UP(W, 16) / 8][4] = {};
    const long sees_first = first - s.diagonal, start = causal && sees_first > 0 ? sees_first / C * C : 0;
    const long steps = start < s.queries ? (s.queries - start + C - 1) / C : 0;
    auto row_of = [&](long step) { return kv / s.kv_heads * s.heads + kv % s.kv_heads * group + step / steps; };
    auto copy = [&](long step) {
      const long row = row_of(step), i0 = start + step % steps * C, have = s.queries - i0;
      T* to = tiles_at + step % 2 * stage;
      float* base = rows_at + step % 2 * 2 * C;
      nb_copy_rows<C, D, pitch, threads>(to, q + (row * s.queries + i0) * D, have);
      nb_copy_rows<C, W, pitch_w, threads>(to + C * pitch, ct + (row * s.queries + i0) * W, have);
      nb_cp_commit();
      for (int x = threadIdx.x; x < C; x += threads) {
        const float l = x < have ? logsumexp[row * s.queries + i0 + x] : 0.0f;
        base[x] = l == -__builtin_inff() ? 0.0f : l * kNbLog2e;
        base[C + x] = x < have ? delta[row * s.queries + i0 + x] : 0.0f;
      }
    };
    if (steps > 0) copy(0);
    for (long step = 0; step < steps * group; ++step) {
      const long row = row_of(step), i0 = start + step % steps * C;
      const M* own_mask = s.mask_of(row, mask);
      const T *q_tile = tiles_at + step % 2 * stage, *ct_tile = q_tile + C * pitch;
      const float *base = rows_at + step % 2 * 2 * C, *loses = base + C;
      nb_cp_wait<0>();
      __syncthreads();
      if (step + 1 < steps * group) copy(step + 1);
      if constexpr (drops) {
        nb_load_kept<C, R, R + 4>(kept, s, key, row, i0, first);
        __syncthreads();
      }
      float p[F][C / 8][4] = {}, ds[F][C / 8][4] = {};
      nb_halves_product<F, C / 8, NB_UP(D, 16)>(p, k_tile + own_rows * pitch, pitch, q_tile, pitch);
      nb_halves_product<F, C / 8, NB_UP(W, 16)>(ds, v_tile + own_rows * pitch_w, pitch_w, ct_tile, pitch_w);
      const bool edge = own_mask || i0 + C > s.queries || own + F * 16 > s.keys || (causal && own + F * 16 - 1 > i0 + s.diagonal);
#pragma unroll
      for (int f = 0; f < F; ++f)
#pragma unroll
        for (int n = 0; n < C / 8; ++n)
#pragma unroll
          for (int e = 0; e < 4; ++e) {
            const int x = n * 8 + lane % 4 * 2 + e % 2, y = own_rows + f * 16 + lane / 4 + e / 2 * 8;
            const bool sees = !edge || s.sees<causal>(i0 + x, first + y, own_mask);
            const float m = !drops ? 1.0f : sees && kept[x * (R + 4) + y] ? s.kept : 0.0f;
            p[f][n][e] = sees ? nb_exp2_of_halves(p[f][n][e] * scale - base[x]) : 0.0f;
            ds[f][n][e] = p[f][n][e] * (ds[f][n][e] * m - loses[x]);
            p[f][n][e] *= m;
          }
      nb_halves_product_of(acc_v, p, ct_tile, pitch_w);
      nb_halves_product_of(acc_k, ds, q_tile, pitch);
    }
    nb_scale(acc_k, s.scale);
    nb_store_halves<D>(dk + (kv * s.keys + own) * D, s.keys - own, acc_k);
    nb_store_halves<W>(dv + (kv * s.keys + own) * W, s.keys - own, acc_v);
    nb_cp_wait<0>();
    __syncthreads();
  }
}
