extern "C" __global__ void __launch_bounds__(256) nk_softmax(const float* x, float* y) {
  NB_SHARED(unsigned char, shared_);
  unsigned char* const room_ = shared_ + threadIdx.x / 32 * 192;
  float* const e = (float*)(room_ + 0);
  for (long i = nb_team<32>(); i < 19; i += nb_teams<32>()) {
    float m_part_ = -__builtin_inff();
    for (long j = nb_rank<32>(); j < 45; j += 32) {
      m_part_ = nb_maximum<float>(m_part_, nb_widen(x[i * 45 + j]));
    }
    const float m = nb_combine<32>(nb_maximum_op{}, m_part_);
    for (long j = nb_rank<32>(); j < 45; j += 32) {
      e[j] = nb_exp((nb_widen(x[i * 45 + j]) - m));
    }
    float s_part_ = 0.0f;
    for (long j = nb_rank<32>(); j < 45; j += 32) {
      s_part_ += e[j];
    }
    const float s = nb_combine<32>(nb_add_op{}, s_part_);
    for (long j = nb_rank<32>(); j < 45; j += 32) {
      y[i * 45 + j] = nb_narrow(float{}, (e[j] / s));
    }
    nb_sync<32>();
  }
}
