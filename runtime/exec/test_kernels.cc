// Kernels of the toy bundle (test_bundle.cc), in the calling convention of generated ones.
extern "C" {

/// args: seed u32[], w f32[4]
void toy_init(void* const* args, const long*, long, long) {
  const auto* seed = static_cast<const unsigned*>(args[0]);
  auto* w = static_cast<float*>(args[1]);
  for (int i = 0; i < 4; ++i) w[i] = static_cast<float>(*seed) + static_cast<float>(i);
}

/// args: x f32[2,4], w f32[4], loss f32[]; w += column sums of x, loss = sum of w
void toy_step(void* const* args, const long*, long, long) {
  const auto* x = static_cast<const float*>(args[0]);
  auto* w = static_cast<float*>(args[1]);
  auto* loss = static_cast<float*>(args[2]);
  *loss = 0;
  for (int i = 0; i < 4; ++i) {
    w[i] += x[i] + x[4 + i];
    *loss += w[i];
  }
}

/// args: x f32[2,4], mask f32[2], mean f32[]; mean of x[b,0] over the ones of mask
void toy_eval(void* const* args, const long*, long, long) {
  const auto* x = static_cast<const float*>(args[0]);
  const auto* mask = static_cast<const float*>(args[1]);
  *static_cast<float*>(args[2]) = (x[0] * mask[0] + x[4] * mask[1]) / (mask[0] + mask[1]);
}

/// args: x f32[2,4], w f32[4], y f32[2,4]; y = x * w, a unit is a row
void toy_predict(void* const* args, const long*, long begin, long end) {
  const auto* x = static_cast<const float*>(args[0]);
  const auto* w = static_cast<const float*>(args[1]);
  auto* y = static_cast<float*>(args[2]);
  for (long row = begin; row < end; ++row)
    for (int i = 0; i < 4; ++i) y[row * 4 + i] = x[row * 4 + i] * w[i];
}

void toy_nothing(void* const*, const long*, long, long) {}

}  // extern "C"
