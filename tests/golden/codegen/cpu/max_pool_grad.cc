extern "C" void nk_max_pool_grad(void* const* args, const long*, long begin, long end) {
  const float* x = (const float*)args[0];  // [2,6,8,20]
  const float* ct = (const float*)args[1];  // [2,3,4,20]
  float* dx = (float*)args[2];  // [2,6,8,20]
  for (long u_ = begin * 8; u_ < end * 8; ++u_) {
    const long n_ = u_ / 48;
    const long y = u_ / 8 % 6;
    const long z = u_ % 8;
    nb_for(0, 20, [&](long c, auto n) NB_INLINE {
      const nb_vec<float> best = nb_fold<nb_vec<float>>(nb_maximum_op{}, nb_splat<nb_vec<float>>(-__builtin_inff()), 2, [&](long a) NB_INLINE {
        return nb_fold<nb_vec<float>>(nb_maximum_op{}, nb_splat<nb_vec<float>>(-__builtin_inff()), 2, [&](long b) NB_INLINE {
          return nb_load<nb_vec<float>>(x + ((((((n_ * 6L) + ((nb_floordiv(y, 2L) * 2L) + a)) * 8L) + ((nb_floordiv(z, 2L) * 2L) + b)) * 20L) + c), n);
        });
      });
      const nb_vec<int> at = nb_fold<nb_vec<int>>(nb_minimum_op{}, nb_splat<nb_vec<int>>(2147483647), 2, [&](long a) NB_INLINE {
        return nb_fold<nb_vec<int>>(nb_minimum_op{}, nb_splat<nb_vec<int>>(2147483647), 2, [&](long b) NB_INLINE {
          return nb_select(nb_eq(nb_load<nb_vec<float>>(x + ((((((n_ * 6L) + ((nb_floordiv(y, 2L) * 2L) + a)) * 8L) + ((nb_floordiv(z, 2L) * 2L) + b)) * 20L) + c), n), best), nb_splat<nb_vec<int>>(((nb_convert<int>(a) * 2) + nb_convert<int>(b))), nb_splat<nb_vec<int>>(4));
        });
      });
      nb_store(dx + n_ * 960 + y * 160 + z * 20 + c, nb_select(nb_eq(at, nb_splat<nb_vec<int>>(((nb_mod(nb_convert<int>(y), 2) * 2) + nb_mod(nb_convert<int>(z), 2)))), nb_load<nb_vec<float>>(ct + ((((((n_ * 3L) + nb_floordiv(y, 2L)) * 4L) + nb_floordiv(z, 2L)) * 20L) + c), n), nb_splat<nb_vec<float>>(0.0f)), n);
    });
  }
}
