extern "C" __global__ void __launch_bounds__(256) nk_attention_forward(const float* q, const float* k, const float* v, float* o, float* lse) {
  NB_SHARED(unsigned char, shared_);
  unsigned char* const room_ = shared_ + threadIdx.x / 32 * 192;
  float* const acc = (float*)(room_ + 0);
  float* const acc_next_ = (float*)(room_ + 96);
  for (int u_ = nb_team<32>(); u_ < 18; u_ += nb_teams<32>()) {
    const long h = u_ / 9;
    const long i = u_ % 9;
    float m = -__builtin_inff();
    float l_ = 0.0f;
    if (const int u0_ = nb_rank<32>(); u0_ < 24) {
      const long d = u0_;
      acc[d] = 0.0f;
    }
    for (long t = 0; t < 9; ++t) {
      float dotp_part_ = 0.0f;
      if (const int u1_ = nb_rank<32>(); u1_ < 24) {
        const long d = u1_;
        dotp_part_ += (nb_widen(q[h * 216 + i * 24 + d]) * nb_widen(k[h * 216 + t * 24 + d]));
      }
      const float dotp = nb_combine<32>(nb_add_op{}, dotp_part_);
      const float s = (nb_le(t, i) ? (0.20412415f * dotp) : -__builtin_inff());
      const float mnew = nb_maximum(m, s);
      const float scale = nb_exp((m - mnew));
      const float p = nb_exp((s - mnew));
      const float m_next_ = mnew;
      const float l__next_ = ((l_ * scale) + p);
      if (const int u2_ = nb_rank<32>(); u2_ < 24) {
        const long d = u2_;
        acc_next_[d] = ((acc[d] * scale) + (p * nb_widen(v[h * 216 + t * 24 + d])));
      }
      m = m_next_;
      l_ = l__next_;
      if (const int u3_ = nb_rank<32>(); u3_ < 24) {
        const long d = u3_;
        acc[d] = acc_next_[d];
      }
    }
    if (const int u4_ = nb_rank<32>(); u4_ < 24) {
      const long d = u4_;
      o[h * 216 + i * 24 + d] = nb_narrow(float{}, (acc[d] / l_));
    }
    if (nb_rank<32>() == 0) {
      lse[h * 9 + i] = nb_narrow(float{}, (m + nb_log(l_)));
    }
  }
}
