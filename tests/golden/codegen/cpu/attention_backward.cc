extern "C" void nk_attention_backward(void* const* args, const long*, long begin, long end) {
  const float* q = (const float*)args[0];  // [2,9,24]
  const float* k = (const float*)args[1];  // [2,9,24]
  const float* v = (const float*)args[2];  // [2,9,24]
  const float* o = (const float*)args[3];  // [2,9,24]
  const float* lse = (const float*)args[4];  // [2,9]
  const float* do_ = (const float*)args[5];  // [2,9,24]
  float* dq = (float*)args[6];  // [2,9,24]
  float* dk = (float*)args[7];  // [2,9,24]
  float* dv = (float*)args[8];  // [2,9,24]
  for (long i = begin * 216; i < end * 216; ++i) dk[i] = nb_narrow(float{}, 0.0f);
  for (long i = begin * 216; i < end * 216; ++i) dv[i] = nb_narrow(float{}, 0.0f);
  for (long h = begin * 1; h < end * 1; ++h) {
    for (long i = 0; i < 9; ++i) {
      const float delta = nb_reduce<nb_vec<float>>(nb_add_op{}, 0.0f, 24, [&](long e, auto n) NB_INLINE {
        return (nb_load<nb_vec<float>>(do_ + h * 216 + i * 24 + e, n) * nb_load<nb_vec<float>>(o + h * 216 + i * 24 + e, n));
      });
      alignas(64) float qk[9];
      for (long t = 0; t < 9; ++t) {
        qk[t] = nb_reduce<nb_vec<float>>(nb_add_op{}, 0.0f, 24, [&](long e, auto n) NB_INLINE {
          return (nb_load<nb_vec<float>>(q + h * 216 + i * 24 + e, n) * nb_load<nb_vec<float>>(k + h * 216 + t * 24 + e, n));
        });
      }
      alignas(64) float p[9];
      nb_for(0, 9, [&](long t, auto n) NB_INLINE {
        nb_store(p + t, nb_select(nb_le(nb_iota32(t), nb_splat<nb_vec<int>>(nb_convert<int>(i))), nb_exp(((nb_splat<nb_vec<float>>(0.20412415f) * nb_load<nb_vec<float>>(qk + t, n)) - nb_splat<nb_vec<float>>(nb_widen(lse[h * 9 + i])))), nb_splat<nb_vec<float>>(0.0f)), n);
      });
      alignas(64) float dp[9];
      for (long t = 0; t < 9; ++t) {
        dp[t] = nb_reduce<nb_vec<float>>(nb_add_op{}, 0.0f, 24, [&](long e, auto n) NB_INLINE {
          return (nb_load<nb_vec<float>>(do_ + h * 216 + i * 24 + e, n) * nb_load<nb_vec<float>>(v + h * 216 + t * 24 + e, n));
        });
      }
      alignas(64) float ds[9];
      nb_for(0, 9, [&](long t, auto n) NB_INLINE {
        nb_store(ds + t, ((nb_splat<nb_vec<float>>(0.20412415f) * nb_load<nb_vec<float>>(p + t, n)) * (nb_load<nb_vec<float>>(dp + t, n) - nb_splat<nb_vec<float>>(delta))), n);
      });
      alignas(64) float g[24];
      nb_for(0, 24, [&](long d, auto n) NB_INLINE {
        const auto r_ = nb_fold<nb_vec<float>>(nb_add_op{}, nb_splat<nb_vec<float>>(0.0f), 9, [&](long t) NB_INLINE {
          return (nb_splat<nb_vec<float>>(ds[t]) * nb_load<nb_vec<float>>(k + h * 216 + t * 24 + d, n));
        });
        nb_store(g + d, r_, n);
      });
      nb_for(0, 24, [&](long d, auto n) NB_INLINE {
        nb_store(dq + h * 216 + i * 24 + d, nb_load<nb_vec<float>>(g + d, n), n);
      });
      for (long t = 0; t < 9; ++t) {
        nb_for(0, 24, [&](long d, auto n) NB_INLINE {
          nb_store(dk + h * 216 + t * 24 + d, nb_add(nb_load<nb_vec<float>>(dk + h * 216 + t * 24 + d, n), (nb_splat<nb_vec<float>>(ds[t]) * nb_load<nb_vec<float>>(q + h * 216 + i * 24 + d, n))), n);
        });
      }
      for (long t = 0; t < 9; ++t) {
        nb_for(0, 24, [&](long d, auto n) NB_INLINE {
          nb_store(dv + h * 216 + t * 24 + d, nb_add(nb_load<nb_vec<float>>(dv + h * 216 + t * 24 + d, n), (nb_splat<nb_vec<float>>(p[t]) * nb_load<nb_vec<float>>(do_ + h * 216 + i * 24 + d, n))), n);
        });
      }
    }
  }
}
