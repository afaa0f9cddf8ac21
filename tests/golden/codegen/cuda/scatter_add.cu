extern "C" __global__ void __launch_bounds__(256) nk_scatter_add_clear_table(const int* ids, const float* ct, float* table) {
  for (long u_ = nb_team<1>(); u_ < 363; u_ += nb_teams<1>()) {
    table[u_] = nb_narrow(float{}, 0.0f);
  }
}

extern "C" __global__ void __launch_bounds__(256) nk_scatter_add(const int* ids, const float* ct, float* table) {
  for (int u_ = nb_team<1>(); u_ < 33; u_ += nb_teams<1>()) {
    const long j = u_;
    for (long u = 0; u < 17; ++u) {
      if (nb_and(nb_ge(nb_convert<long>(nb_widen(ids[u])), 0L), nb_lt(nb_convert<long>(nb_widen(ids[u])), 11L))) {
        table[((nb_convert<long>(nb_widen(ids[u])) * 33L) + j)] = nb_narrow(float{}, nb_add<float>(nb_widen(table[((nb_convert<long>(nb_widen(ids[u])) * 33L) + j)]), nb_widen(ct[u * 33 + j])));
      }
    }
  }
}
