extern "C" __global__ void __launch_bounds__(256) nk_norm_backward_clear_dgamma(const float* x, const float* gamma, const float* mean, const float* rstd, const float* dy, float* dx, float* dgamma, float* dbeta) {
  for (long u_ = nb_team<1>(); u_ < 40; u_ += nb_teams<1>()) {
    dgamma[u_] = nb_narrow(float{}, 0.0f);
  }
}

extern "C" __global__ void __launch_bounds__(256) nk_norm_backward_clear_dbeta(const float* x, const float* gamma, const float* mean, const float* rstd, const float* dy, float* dx, float* dgamma, float* dbeta) {
  for (long u_ = nb_team<1>(); u_ < 40; u_ += nb_teams<1>()) {
    dbeta[u_] = nb_narrow(float{}, 0.0f);
  }
}

extern "C" __global__ void __launch_bounds__(256) nk_norm_backward(const float* x, const float* gamma, const float* mean, const float* rstd, const float* dy, float* dx, float* dgamma, float* dbeta) {
  NB_SHARED(unsigned char, shared_);
  unsigned char* const room_ = shared_ + threadIdx.x / 32 * 320;
  float* const h = (float*)(room_ + 0);
  float* const g = (float*)(room_ + 160);
  if (nb_team<32>() != 0) return;
  for (int c0_ = 0; c0_ < 23; ++c0_) {
    const long i = c0_;
    for (int u1_ = nb_rank<32>(); u1_ < 40; u1_ += 32) {
      const long j = u1_;
      h[j] = ((nb_widen(x[i * 40 + j]) - nb_widen(mean[i])) * nb_widen(rstd[i]));
    }
    for (int u2_ = nb_rank<32>(); u2_ < 40; u2_ += 32) {
      const long j = u2_;
      g[j] = (nb_widen(dy[i * 40 + j]) * nb_widen(gamma[j]));
    }
    float c1_part_ = 0.0f;
    for (int u3_ = nb_rank<32>(); u3_ < 40; u3_ += 32) {
      const long j = u3_;
      c1_part_ += g[j];
    }
    const float c1 = nb_combine<32>(nb_add_op{}, c1_part_);
    float c2_part_ = 0.0f;
    for (int u4_ = nb_rank<32>(); u4_ < 40; u4_ += 32) {
      const long j = u4_;
      c2_part_ += (g[j] * h[j]);
    }
    const float c2 = nb_combine<32>(nb_add_op{}, c2_part_);
    for (int u5_ = nb_rank<32>(); u5_ < 40; u5_ += 32) {
      const long j = u5_;
      dx[i * 40 + j] = nb_narrow(float{}, (nb_widen(rstd[i]) * (g[j] - (0.025f * (c1 + (h[j] * c2))))));
    }
    for (int u6_ = nb_rank<32>(); u6_ < 40; u6_ += 32) {
      const long j = u6_;
      dgamma[j] = nb_narrow(float{}, nb_add<float>(nb_widen(dgamma[j]), (nb_widen(dy[i * 40 + j]) * h[j])));
    }
    for (int u7_ = nb_rank<32>(); u7_ < 40; u7_ += 32) {
      const long j = u7_;
      dbeta[j] = nb_narrow(float{}, nb_add<float>(nb_widen(dbeta[j]), nb_widen(dy[i * 40 + j])));
    }
  }
}
