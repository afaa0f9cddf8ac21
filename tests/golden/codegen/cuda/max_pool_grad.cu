extern "C" __global__ void __launch_bounds__(256) nk_max_pool_grad(const float* x, const float* ct, float* dx) {
  for (int u_ = nb_team<1>(); u_ < 1920; u_ += nb_teams<1>()) {
    const long n_ = u_ / 960;
    const long y = u_ / 160 % 6;
    const long z = u_ / 20 % 8;
    const long c = u_ % 20;
    float best = -__builtin_inff();
    for (long a = 0; a < 2; ++a) {
      for (long b = 0; b < 2; ++b) {
        best = nb_maximum<float>(best, nb_widen(x[((((((n_ * 6L) + ((nb_floordiv(y, 2L) * 2L) + a)) * 8L) + ((nb_floordiv(z, 2L) * 2L) + b)) * 20L) + c)]));
      }
    }
    long at = 9223372036854775807L;
    for (long a = 0; a < 2; ++a) {
      for (long b = 0; b < 2; ++b) {
        at = nb_minimum<long>(at, (nb_eq(nb_widen(x[((((((n_ * 6L) + ((nb_floordiv(y, 2L) * 2L) + a)) * 8L) + ((nb_floordiv(z, 2L) * 2L) + b)) * 20L) + c)]), best) ? ((a * 2L) + b) : 4L));
      }
    }
    dx[n_ * 960 + y * 160 + z * 20 + c] = nb_narrow(float{}, (nb_eq(at, ((nb_mod(y, 2L) * 2L) + nb_mod(z, 2L))) ? nb_widen(ct[((((((n_ * 3L) + nb_floordiv(y, 2L)) * 4L) + nb_floordiv(z, 2L)) * 20L) + c)]) : 0.0f));
  }
}
