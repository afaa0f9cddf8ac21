extern "C" void nk_norm_backward(void* const* args, const long*, long begin, long end) {
  const float* x = (const float*)args[0];  // [23,40]
  const float* gamma = (const float*)args[1];  // [40]
  const float* mean = (const float*)args[2];  // [23]
  const float* rstd = (const float*)args[3];  // [23]
  const float* dy = (const float*)args[4];  // [23,40]
  float* dx = (float*)args[5];  // [23,40]
  float* dgamma = (float*)args[6];  // [40]
  float* dbeta = (float*)args[7];  // [40]
  for (long i = 0; i < 40; ++i) dgamma[i] = nb_narrow(float{}, 0.0f);
  for (long i = 0; i < 40; ++i) dbeta[i] = nb_narrow(float{}, 0.0f);
  for (long i = begin * 23; i < end * 23; ++i) {
    alignas(64) float h[40];
    nb_for(0, 40, [&](long j, auto n) NB_INLINE {
      nb_store(h + j, ((nb_load<nb_vec<float>>(x + i * 40 + j, n) - nb_splat<nb_vec<float>>(nb_widen(mean[i]))) * nb_splat<nb_vec<float>>(nb_widen(rstd[i]))), n);
    });
    alignas(64) float g[40];
    nb_for(0, 40, [&](long j, auto n) NB_INLINE {
      nb_store(g + j, (nb_load<nb_vec<float>>(dy + i * 40 + j, n) * nb_load<nb_vec<float>>(gamma + j, n)), n);
    });
    const float c1 = nb_reduce<nb_vec<float>>(nb_add_op{}, 0.0f, 40, [&](long j, auto n) NB_INLINE {
      return nb_load<nb_vec<float>>(g + j, n);
    });
    const float c2 = nb_reduce<nb_vec<float>>(nb_add_op{}, 0.0f, 40, [&](long j, auto n) NB_INLINE {
      return (nb_load<nb_vec<float>>(g + j, n) * nb_load<nb_vec<float>>(h + j, n));
    });
    nb_for(0, 40, [&](long j, auto n) NB_INLINE {
      nb_store(dx + i * 40 + j, (nb_splat<nb_vec<float>>(nb_widen(rstd[i])) * (nb_load<nb_vec<float>>(g + j, n) - (nb_splat<nb_vec<float>>(0.025f) * (nb_splat<nb_vec<float>>(c1) + (nb_load<nb_vec<float>>(h + j, n) * nb_splat<nb_vec<float>>(c2)))))), n);
    });
    nb_for(0, 40, [&](long j, auto n) NB_INLINE {
      nb_store(dgamma + j, nb_add(nb_load<nb_vec<float>>(dgamma + j, n), (nb_load<nb_vec<float>>(dy + i * 40 + j, n) * nb_load<nb_vec<float>>(h + j, n))), n);
    });
    nb_for(0, 40, [&](long j, auto n) NB_INLINE {
      nb_store(dbeta + j, nb_add(nb_load<nb_vec<float>>(dbeta + j, n), nb_load<nb_vec<float>>(dy + i * 40 + j, n)), n);
    });
  }
}
