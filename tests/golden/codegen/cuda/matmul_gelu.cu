extern "C" __global__ void nk_matmul_gelu(const float* a, const float* b, const float* bias, float* y) {
  for (long u_ = nb_thread(); u_ < 1850; u_ += nb_threads()) {
    const long m = u_ / 50;
    const long n_ = u_ % 50;
    float acc = 0.0f;
    for (long k = 0; k < 64; ++k) {
      acc += (nb_widen(a[m * 64 + k]) * nb_widen(b[n_ + k * 50]));
    }
    y[m * 50 + n_] = nb_narrow(float{}, ((0.5f * (acc + nb_widen(bias[n_]))) * (1.0f + nb_tanh((0.7978846f * ((acc + nb_widen(bias[n_])) + (((0.044715f * (acc + nb_widen(bias[n_]))) * (acc + nb_widen(bias[n_]))) * (acc + nb_widen(bias[n_])))))))));
  }
}
