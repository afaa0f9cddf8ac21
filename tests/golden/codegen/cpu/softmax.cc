extern "C" void nk_softmax(void* const* args, const long*, long begin, long end) {
  const float* x = (const float*)args[0];  // [19,45]
  float* y = (float*)args[1];  // [19,45]
  for (long i = begin * 4; i < (end * 4 < 19 ? end * 4 : 19); ++i) {
    const float m = nb_reduce<nb_vec<float>>(nb_maximum_op{}, -__builtin_inff(), 45, [&](long j, auto n) NB_INLINE {
      return nb_load<nb_vec<float>>(x + i * 45 + j, n);
    });
    alignas(64) float e[45];
    nb_for(0, 45, [&](long j, auto n) NB_INLINE {
      nb_store(e + j, nb_exp((nb_load<nb_vec<float>>(x + i * 45 + j, n) - nb_splat<nb_vec<float>>(m))), n);
    });
    const float s = nb_reduce<nb_vec<float>>(nb_add_op{}, 0.0f, 45, [&](long j, auto n) NB_INLINE {
      return nb_load<nb_vec<float>>(e + j, n);
    });
    nb_for(0, 45, [&](long j, auto n) NB_INLINE {
      nb_store(y + i * 45 + j, (nb_load<nb_vec<float>>(e + j, n) / nb_splat<nb_vec<float>>(s)), n);
    });
  }
}
