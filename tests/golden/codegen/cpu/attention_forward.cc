extern "C" void nk_attention_forward(void* const* args, const long*, long begin, long end) {
  const float* q = (const float*)args[0];  // [2,9,24]
  const float* k = (const float*)args[1];  // [2,9,24]
  const float* v = (const float*)args[2];  // [2,9,24]
  float* o = (float*)args[3];  // [2,9,24]
  float* lse = (float*)args[4];  // [2,9]
  for (long u_ = begin * 3; u_ < end * 3; ++u_) {
    const long h = u_ / 9;
    const long i = u_ % 9;
    float m = -__builtin_inff();
    float l_ = 0.0f;
    alignas(64) float acc[24];
    nb_for(0, 24, [&](long d, auto n) NB_INLINE {
      nb_store(acc + d, nb_splat<nb_vec<float>>(0.0f), n);
    });
    for (long t = 0; t < 9; ++t) {
      const float dotp = nb_reduce<nb_vec<float>>(nb_add_op{}, 0.0f, 24, [&](long d, auto n) NB_INLINE {
        return (nb_load<nb_vec<float>>(q + h * 216 + i * 24 + d, n) * nb_load<nb_vec<float>>(k + h * 216 + t * 24 + d, n));
      });
      const float s = (nb_le(t, i) ? (0.20412415f * dotp) : -__builtin_inff());
      const float mnew = nb_maximum(m, s);
      const float scale = nb_exp((m - mnew));
      const float p = nb_exp((s - mnew));
      const float next0_ = mnew;
      const float next1_ = ((l_ * scale) + p);
      nb_for(0, 24, [&](long d, auto n) NB_INLINE {
        nb_store(acc + d, ((nb_load<nb_vec<float>>(acc + d, n) * nb_splat<nb_vec<float>>(scale)) + (nb_splat<nb_vec<float>>(p) * nb_load<nb_vec<float>>(v + h * 216 + t * 24 + d, n))), n);
      });
      m = next0_;
      l_ = next1_;
    }
    nb_for(0, 24, [&](long d, auto n) NB_INLINE {
      nb_store(o + h * 216 + i * 24 + d, (nb_load<nb_vec<float>>(acc + d, n) / nb_splat<nb_vec<float>>(l_)), n);
    });
    lse[h * 9 + i] = nb_narrow(float{}, (m + nb_log(l_)));
  }
}
