extern "C" __global__ void nk_attention_forward(const float* q, const float* k, const float* v, float* o, float* lse) {
  for (long u_ = nb_thread(); u_ < 18; u_ += nb_threads()) {
    const long h = u_ / 9;
    const long i = u_ % 9;
    float m = -__builtin_inff();
    float l_ = 0.0f;
    float acc[24];
    for (long d = 0; d < 24; ++d) {
      acc[d] = 0.0f;
    }
    for (long t = 0; t < 9; ++t) {
      float dotp = 0.0f;
      for (long d = 0; d < 24; ++d) {
        dotp += (nb_widen(q[h * 216 + i * 24 + d]) * nb_widen(k[h * 216 + t * 24 + d]));
      }
      const float s = (nb_le(t, i) ? (0.20412415f * dotp) : -__builtin_inff());
      const float mnew = nb_maximum(m, s);
      const float scale = nb_exp((m - mnew));
      const float p = nb_exp((s - mnew));
      float m_next_ = mnew;
      float l__next_ = ((l_ * scale) + p);
      float acc_next_[24];
      for (long d = 0; d < 24; ++d) {
        acc_next_[d] = ((acc[d] * scale) + (p * nb_widen(v[h * 216 + t * 24 + d])));
      }
      m = m_next_;
      l_ = l__next_;
      for (long d = 0; d < 24; ++d) {
        acc[d] = acc_next_[d];
      }
    }
    for (long d = 0; d < 24; ++d) {
      o[h * 216 + i * 24 + d] = nb_narrow(float{}, (acc[d] / l_));
    }
    lse[h * 9 + i] = nb_narrow(float{}, (m + nb_log(l_)));
  }
}
