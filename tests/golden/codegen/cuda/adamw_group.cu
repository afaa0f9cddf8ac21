extern "C" __global__ void __launch_bounds__(256) nk_adamw_group(float* p, float* m, float* v, const float* g, const float* lr, const float* step) {
  const float c1 = (1.0f / (1.0f - nb_pow(0.9f, nb_widen(step[0]))));
  const float c2 = (1.0f / (1.0f - nb_pow(0.999f, nb_widen(step[0]))));
  const float rate = nb_widen(lr[0]);
  for (int u_ = nb_team<1>(); u_ < 1030; u_ += nb_teams<1>()) {
    const long i = u_;
    const float m1 = ((0.9f * nb_widen(m[i])) + (0.1f * nb_widen(g[i])));
    const float v1 = ((0.999f * nb_widen(v[i])) + ((0.001f * nb_widen(g[i])) * nb_widen(g[i])));
    m[i] = nb_narrow(float{}, m1);
    v[i] = nb_narrow(float{}, v1);
    p[i] = nb_narrow(float{}, ((nb_widen(p[i]) * (1.0f - (rate * 0.01f))) - ((rate * (m1 * c1)) / (nb_sqrt((v1 * c2)) + 1e-08f))));
  }
}
