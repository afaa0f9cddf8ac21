extern "C" __global__ void nk_softmax(const float* x, float* y) {
  for (long i = nb_thread(); i < 19; i += nb_threads()) {
    float m = -__builtin_inff();
    for (long j = 0; j < 45; ++j) {
      m = nb_maximum<float>(m, nb_widen(x[i * 45 + j]));
    }
    float e[45];
    for (long j = 0; j < 45; ++j) {
      e[j] = nb_exp((nb_widen(x[i * 45 + j]) - m));
    }
    float s = 0.0f;
    for (long j = 0; j < 45; ++j) {
      s += e[j];
    }
    for (long j = 0; j < 45; ++j) {
      y[i * 45 + j] = nb_narrow(float{}, (e[j] / s));
    }
  }
}
