extern "C" void nk_scatter_add(void* const* args, const long*, long begin, long end) {
  const int* ids = (const int*)args[0];  // i32[17]
  const float* ct = (const float*)args[1];  // [17,33]
  float* table = (float*)args[2];  // [11,33]
  for (long i = 0; i < 363; ++i) table[i] = nb_narrow(float{}, 0.0f);
  for (long u = begin * 17; u < end * 17; ++u) {
    nb_for(0, 33, [&](long j, auto n) NB_INLINE {
      if (nb_and(nb_ge(nb_widen(ids[u]), 0), nb_lt(nb_widen(ids[u]), 11))) {
        nb_store(table + ((nb_convert<long>(nb_widen(ids[u])) * 33L) + j), nb_add(nb_load<nb_vec<float>>(table + ((nb_convert<long>(nb_widen(ids[u])) * 33L) + j), n), nb_load<nb_vec<float>>(ct + u * 33 + j, n)), n);
      }
    });
  }
}
