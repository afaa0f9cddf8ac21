extern "C" __global__ void __launch_bounds__(256) nk_attention_backward_clear_dk(const float* q, const float* k, const float* v, const float* o, const float* lse, const float* do_, float* dq, float* dk, float* dv) {
  for (long u_ = nb_team<1>(); u_ < 432; u_ += nb_teams<1>()) {
    dk[u_] = nb_narrow(float{}, 0.0f);
  }
}

extern "C" __global__ void __launch_bounds__(256) nk_attention_backward_clear_dv(const float* q, const float* k, const float* v, const float* o, const float* lse, const float* do_, float* dq, float* dk, float* dv) {
  for (long u_ = nb_team<1>(); u_ < 432; u_ += nb_teams<1>()) {
    dv[u_] = nb_narrow(float{}, 0.0f);
  }
}

extern "C" __global__ void __launch_bounds__(256) nk_attention_backward(const float* q, const float* k, const float* v, const float* o, const float* lse, const float* do_, float* dq, float* dk, float* dv) {
  NB_SHARED(unsigned char, shared_);
  unsigned char* const room_ = shared_ + threadIdx.x / 32 * 288;
  float* const qk = (float*)(room_ + 0);
  float* const p = (float*)(room_ + 48);
  float* const dp = (float*)(room_ + 96);
  float* const ds = (float*)(room_ + 144);
  float* const g = (float*)(room_ + 192);
  for (int u_ = nb_team<32>(); u_ < 2; u_ += nb_teams<32>()) {
    const long h = u_;
    for (int c0_ = 0; c0_ < 9; ++c0_) {
      const long i = c0_;
      float delta_part_ = 0.0f;
      if (const int u1_ = nb_rank<32>(); u1_ < 24) {
        const long e = u1_;
        delta_part_ += (nb_widen(do_[h * 216 + i * 24 + e]) * nb_widen(o[h * 216 + i * 24 + e]));
      }
      const float delta = nb_combine<32>(nb_add_op{}, delta_part_);
      if (const int u2_ = nb_rank<32>(); u2_ < 9) {
        const long t = u2_;
        float qk_acc_ = 0.0f;
        for (int c3_ = 0; c3_ < 24; ++c3_) {
          const long e = c3_;
          qk_acc_ += (nb_widen(q[h * 216 + i * 24 + e]) * nb_widen(k[h * 216 + t * 24 + e]));
        }
        qk[t] = qk_acc_;
      }
      nb_sync<32>();
      if (const int u4_ = nb_rank<32>(); u4_ < 9) {
        const long t = u4_;
        p[t] = (nb_le(t, i) ? nb_exp(((0.20412415f * qk[t]) - nb_widen(lse[h * 9 + i]))) : 0.0f);
      }
      if (const int u5_ = nb_rank<32>(); u5_ < 9) {
        const long t = u5_;
        float dp_acc_ = 0.0f;
        for (int c6_ = 0; c6_ < 24; ++c6_) {
          const long e = c6_;
          dp_acc_ += (nb_widen(do_[h * 216 + i * 24 + e]) * nb_widen(v[h * 216 + t * 24 + e]));
        }
        dp[t] = dp_acc_;
      }
      if (const int u7_ = nb_rank<32>(); u7_ < 9) {
        const long t = u7_;
        ds[t] = ((0.20412415f * p[t]) * (dp[t] - delta));
      }
      nb_sync<32>();
      if (const int u8_ = nb_rank<32>(); u8_ < 24) {
        const long d = u8_;
        float g_acc_ = 0.0f;
        for (int c9_ = 0; c9_ < 9; ++c9_) {
          const long t = c9_;
          g_acc_ += (ds[t] * nb_widen(k[h * 216 + t * 24 + d]));
        }
        g[d] = g_acc_;
      }
      if (const int u10_ = nb_rank<32>(); u10_ < 24) {
        const long d = u10_;
        dq[h * 216 + i * 24 + d] = nb_narrow(float{}, g[d]);
      }
      for (int u11_ = nb_rank<32>(); u11_ < 216; u11_ += 32) {
        const long t = u11_ / 24;
        const long d = u11_ % 24;
        dk[h * 216 + t * 24 + d] = nb_narrow(float{}, nb_add<float>(nb_widen(dk[h * 216 + t * 24 + d]), (ds[t] * nb_widen(q[h * 216 + i * 24 + d]))));
      }
      for (int u12_ = nb_rank<32>(); u12_ < 216; u12_ += 32) {
        const long t = u12_ / 24;
        const long d = u12_ % 24;
        dv[h * 216 + t * 24 + d] = nb_narrow(float{}, nb_add<float>(nb_widen(dv[h * 216 + t * 24 + d]), (p[t] * nb_widen(do_[h * 216 + i * 24 + d]))));
      }
    }
  }
}
