extern "C" __global__ void __launch_bounds__(256) nk_softmax(const float* x, float* y) {
  NB_SHARED(unsigned char, shared_);
  unsigned char* const room_ = shared_ + threadIdx.x / 32 * 192;
  float* const e = (float*)(room_ + 0);
  for (int u_ = nb_team<32>(); u_ < 19; u_ += nb_teams<32>()) {
    const long i = u_;
    float m_part_ = -__builtin_inff();
    for (int u0_ = nb_rank<32>(); u0_ < 45; u0_ += 32) {
      const long j = u0_;
      m_part_ = nb_maximum<float>(m_part_, nb_widen(x[i * 45 + j]));
    }
    const float m = nb_combine<32>(nb_maximum_op{}, m_part_);
    for (int u1_ = nb_rank<32>(); u1_ < 45; u1_ += 32) {
      const long j = u1_;
      e[j] = nb_exp((nb_widen(x[i * 45 + j]) - m));
    }
    float s_part_ = 0.0f;
    for (int u2_ = nb_rank<32>(); u2_ < 45; u2_ += 32) {
      const long j = u2_;
      s_part_ += e[j];
    }
    const float s = nb_combine<32>(nb_add_op{}, s_part_);
    for (int u3_ = nb_rank<32>(); u3_ < 45; u3_ += 32) {
      const long j = u3_;
      y[i * 45 + j] = nb_narrow(float{}, (e[j] / s));
    }
  }
}
