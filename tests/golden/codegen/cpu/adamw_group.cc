extern "C" void nk_adamw_group(void* const* args, const long*, long begin, long end) {
  float* p = (float*)args[0];  // [1030]
  float* m = (float*)args[1];  // [1030]
  float* v = (float*)args[2];  // [1030]
  const float* g = (const float*)args[3];  // [1030]
  const float* lr = (const float*)args[4];  // []
  const float* step = (const float*)args[5];  // []
  const float c1 = (1.0f / (1.0f - nb_pow(0.9f, nb_widen(step[0]))));
  const float c2 = (1.0f / (1.0f - nb_pow(0.999f, nb_widen(step[0]))));
  const float rate = nb_widen(lr[0]);
  nb_for(begin * 256, (end * 256 < 1030 ? end * 256 : 1030), [&](long i, auto n) NB_INLINE {
    const nb_vec<float> m1 = ((nb_splat<nb_vec<float>>(0.9f) * nb_load<nb_vec<float>>(m + i, n)) + (nb_splat<nb_vec<float>>(0.1f) * nb_load<nb_vec<float>>(g + i, n)));
    const nb_vec<float> v1 = ((nb_splat<nb_vec<float>>(0.999f) * nb_load<nb_vec<float>>(v + i, n)) + ((nb_splat<nb_vec<float>>(0.001f) * nb_load<nb_vec<float>>(g + i, n)) * nb_load<nb_vec<float>>(g + i, n)));
    nb_store(m + i, m1, n);
    nb_store(v + i, v1, n);
    nb_store(p + i, ((nb_load<nb_vec<float>>(p + i, n) * nb_splat<nb_vec<float>>((1.0f - (rate * 0.01f)))) - ((nb_splat<nb_vec<float>>(rate) * (m1 * nb_splat<nb_vec<float>>(c1))) / (nb_sqrt((v1 * nb_splat<nb_vec<float>>(c2))) + nb_splat<nb_vec<float>>(1e-08f)))), n);
  });
}
