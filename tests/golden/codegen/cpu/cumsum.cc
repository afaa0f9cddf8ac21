extern "C" void nk_cumsum(void* const* args, const long*, long begin, long end) {
  const float* x = (const float*)args[0];  // [21,30]
  float* y = (float*)args[1];  // [21,30]
  for (long i = begin * 1; i < end * 1; ++i) {
    float c = 0.0f;
    for (long j = 0; j < 30; ++j) {
      const float s = (c + nb_widen(x[i * 30 + j]));
      y[i * 30 + j] = nb_narrow(float{}, s);
      const float next0_ = s;
      c = next0_;
    }
  }
}
