extern "C" void nk_matmul_gelu(void* const* args, const long*, long begin, long end) {
  const float* a = (const float*)args[0];  // [37,64]
  const float* b = (const float*)args[1];  // [64,50]
  const float* bias = (const float*)args[2];  // [50]
  float* y = (float*)args[3];  // [37,50]
  alignas(64) float panel_[4096];
  alignas(64) float tile_[1280];
  for (long unit_ = begin; unit_ < end; ++unit_) {
    const long first_ = unit_ % 2 * 20, last_ = first_ + 20 < 37 ? first_ + 20 : 37;
    const long m0_ = first_, m1_ = last_, n0_ = 0, n1_ = 50;
    for (long j0_ = n0_; j0_ < n1_; j0_ += 64) {
      const long j1_ = j0_ + 64 < n1_ ? j0_ + 64 : n1_;
      for (long k0_ = 0; k0_ < 64; k0_ += 64) {
        const long depth_ = k0_ + 64 < 64 ? 64 : 64 - k0_;
        for (long j_ = j0_; j_ < j1_; j_ += 16) {
          float* to_ = panel_ + (j_ - j0_) * 64;
          const long width_ = j_ + 16 <= j1_ ? 16 : j1_ - j_;
          const auto* from_ = b + k0_ * 50 + j_ * 1;
          for (long k_ = 0; k_ < depth_; ++k_) {
            for (long x_ = 0; x_ < 16; x_ += NB_L)
              nb_store(to_ + k_ * 16 + x_, x_ + NB_L <= width_ ? nb_load<nb_vec<float>>(from_ + k_ * 50 + x_, nb_full{}) : nb_load<nb_vec<float>>(from_ + k_ * 50 + x_, width_ > x_ ? width_ - x_ : 0), nb_full{});
          }
        }
        for (long i0_ = m0_; i0_ < m1_; i0_ += 5) {
          for (long j_ = j0_; j_ < j1_; j_ += 16) {
            if (i0_ + 5 <= m1_) {
              const auto* a_ = a + i0_ * 64 + k0_ * 1;
              const float* b_ = panel_ + (j_ - j0_) * 64;
              float* t_ = tile_ + (i0_ - m0_) * 64 + (j_ - j0_);
              nb_vec<float> c0_0_ = {}, c0_1_ = {};
              nb_vec<float> c1_0_ = {}, c1_1_ = {};
              nb_vec<float> c2_0_ = {}, c2_1_ = {};
              nb_vec<float> c3_0_ = {}, c3_1_ = {};
              nb_vec<float> c4_0_ = {}, c4_1_ = {};
              for (long k_ = 0; k_ < depth_; ++k_) {
                const nb_vec<float> b_0 = nb_load<nb_vec<float>>(b_ + 0, nb_full{});
                const nb_vec<float> b_1 = nb_load<nb_vec<float>>(b_ + 8, nb_full{});
                const float a0_ = nb_widen(a_[0]); c0_0_ += a0_ * b_0; c0_1_ += a0_ * b_1;
                const float a1_ = nb_widen(a_[64]); c1_0_ += a1_ * b_0; c1_1_ += a1_ * b_1;
                const float a2_ = nb_widen(a_[128]); c2_0_ += a2_ * b_0; c2_1_ += a2_ * b_1;
                const float a3_ = nb_widen(a_[192]); c3_0_ += a3_ * b_0; c3_1_ += a3_ * b_1;
                const float a4_ = nb_widen(a_[256]); c4_0_ += a4_ * b_0; c4_1_ += a4_ * b_1;
                a_ += 1, b_ += 16;
              }
              nb_store(t_ + 0, c0_0_, nb_full{});
              nb_store(t_ + 8, c0_1_, nb_full{});
              nb_store(t_ + 64, c1_0_, nb_full{});
              nb_store(t_ + 72, c1_1_, nb_full{});
              nb_store(t_ + 128, c2_0_, nb_full{});
              nb_store(t_ + 136, c2_1_, nb_full{});
              nb_store(t_ + 192, c3_0_, nb_full{});
              nb_store(t_ + 200, c3_1_, nb_full{});
              nb_store(t_ + 256, c4_0_, nb_full{});
              nb_store(t_ + 264, c4_1_, nb_full{});
            } else {
              const auto* a_ = a + i0_ * 64 + k0_ * 1;
              const float* b_ = panel_ + (j_ - j0_) * 64;
              float* t_ = tile_ + (i0_ - m0_) * 64 + (j_ - j0_);
              nb_vec<float> c0_0_ = {}, c0_1_ = {};
              nb_vec<float> c1_0_ = {}, c1_1_ = {};
              for (long k_ = 0; k_ < depth_; ++k_) {
                const nb_vec<float> b_0 = nb_load<nb_vec<float>>(b_ + 0, nb_full{});
                const nb_vec<float> b_1 = nb_load<nb_vec<float>>(b_ + 8, nb_full{});
                const float a0_ = nb_widen(a_[0]); c0_0_ += a0_ * b_0; c0_1_ += a0_ * b_1;
                const float a1_ = nb_widen(a_[64]); c1_0_ += a1_ * b_0; c1_1_ += a1_ * b_1;
                a_ += 1, b_ += 16;
              }
              nb_store(t_ + 0, c0_0_, nb_full{});
              nb_store(t_ + 8, c0_1_, nb_full{});
              nb_store(t_ + 64, c1_0_, nb_full{});
              nb_store(t_ + 72, c1_1_, nb_full{});
            }
          }
        }
      }
      for (long r_ = 0; r_ < m1_ - m0_; ++r_) {
        nb_for(0, j1_ - j0_, [&](long x_, auto n) NB_INLINE {
          nb_store(y + m0_ * 50 + r_ * 50 + j0_ + x_, ((nb_splat<nb_vec<float>>(0.5f) * (nb_load<nb_vec<float>>(tile_ + r_ * 64 + x_, n) + nb_load<nb_vec<float>>(bias + j0_ + x_, n))) * (nb_splat<nb_vec<float>>(1.0f) + nb_tanh((nb_splat<nb_vec<float>>(0.7978846f) * ((nb_load<nb_vec<float>>(tile_ + r_ * 64 + x_, n) + nb_load<nb_vec<float>>(bias + j0_ + x_, n)) + (((nb_splat<nb_vec<float>>(0.044715f) * (nb_load<nb_vec<float>>(tile_ + r_ * 64 + x_, n) + nb_load<nb_vec<float>>(bias + j0_ + x_, n))) * (nb_load<nb_vec<float>>(tile_ + r_ * 64 + x_, n) + nb_load<nb_vec<float>>(bias + j0_ + x_, n))) * (nb_load<nb_vec<float>>(tile_ + r_ * 64 + x_, n) + nb_load<nb_vec<float>>(bias + j0_ + x_, n)))))))), n);
        });
      }
    }
  }
}
