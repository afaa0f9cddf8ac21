extern "C" __global__ void nk_norm_backward_clear_dgamma(const float* x, const float* gamma, const float* mean, const float* rstd, const float* dy, float* dx, float* dgamma, float* dbeta) {
  for (long u_ = nb_thread(); u_ < 40; u_ += nb_threads()) {
    dgamma[u_] = nb_narrow(float{}, 0.0f);
  }
}

extern "C" __global__ void nk_norm_backward_clear_dbeta(const float* x, const float* gamma, const float* mean, const float* rstd, const float* dy, float* dx, float* dgamma, float* dbeta) {
  for (long u_ = nb_thread(); u_ < 40; u_ += nb_threads()) {
    dbeta[u_] = nb_narrow(float{}, 0.0f);
  }
}

extern "C" __global__ void nk_norm_backward(const float* x, const float* gamma, const float* mean, const float* rstd, const float* dy, float* dx, float* dgamma, float* dbeta) {
  if (nb_thread() != 0) return;
  for (long i = 0; i < 23; ++i) {
    float h[40];
    for (long j = 0; j < 40; ++j) {
      h[j] = ((nb_widen(x[i * 40 + j]) - nb_widen(mean[i])) * nb_widen(rstd[i]));
    }
    float g[40];
    for (long j = 0; j < 40; ++j) {
      g[j] = (nb_widen(dy[i * 40 + j]) * nb_widen(gamma[j]));
    }
    float c1 = 0.0f;
    for (long j = 0; j < 40; ++j) {
      c1 += g[j];
    }
    float c2 = 0.0f;
    for (long j = 0; j < 40; ++j) {
      c2 += (g[j] * h[j]);
    }
    for (long j = 0; j < 40; ++j) {
      dx[i * 40 + j] = nb_narrow(float{}, (nb_widen(rstd[i]) * (g[j] - (0.025f * (c1 + (h[j] * c2))))));
    }
    for (long j = 0; j < 40; ++j) {
      dgamma[j] = nb_narrow(float{}, nb_add<float>(nb_widen(dgamma[j]), (nb_widen(dy[i * 40 + j]) * h[j])));
    }
    for (long j = 0; j < 40; ++j) {
      dbeta[j] = nb_narrow(float{}, nb_add<float>(nb_widen(dbeta[j]), nb_widen(dy[i * 40 + j])));
    }
  }
}
