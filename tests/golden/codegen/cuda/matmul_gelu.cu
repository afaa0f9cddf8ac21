extern "C" __global__ void __launch_bounds__(256) nk_matmul_gelu(const float* a, const float* b, const float* bias, float* y) {
  __shared__ float a_tile_[16][65], b_tile_[16][65];
  const int row_ = threadIdx.x / 16, column_ = threadIdx.x % 16;
  for (long tile_ = blockIdx.x; tile_ < 1; tile_ += gridDim.x) {
    const long m0_ = tile_ / 1 % 1 * 64, n0_ = tile_ % 1 * 64;
    float acc_[4][4] = {};
    for (long k0_ = 0; k0_ < 64; k0_ += 16) {
      for (int p_ = threadIdx.x; p_ < 1024; p_ += 256) {
        const int x_ = p_ / 16, y_ = p_ % 16;
        const long m = m0_ + x_, k = k0_ + y_;
        float v_ = 0;
        if (m < 37 && k < 64) {
          v_ = nb_widen(a[m * 64 + k]);
        }
        a_tile_[y_][x_] = v_;
      }
      for (int p_ = threadIdx.x; p_ < 1024; p_ += 256) {
        const int x_ = p_ % 64, y_ = p_ / 64;
        const long n_ = n0_ + x_, k = k0_ + y_;
        float v_ = 0;
        if (n_ < 50 && k < 64) {
          v_ = nb_widen(b[n_ + k * 50]);
        }
        b_tile_[y_][x_] = v_;
      }
      __syncthreads();
      for (int k_ = 0; k_ < 16; ++k_) {
        float a_[4], b_[4];
        for (int i_ = 0; i_ < 4; ++i_) {
          a_[i_] = a_tile_[k_][row_ + i_ * 16], b_[i_] = b_tile_[k_][column_ + i_ * 16];
        }
        for (int i_ = 0; i_ < 4; ++i_)
          for (int j_ = 0; j_ < 4; ++j_) acc_[i_][j_] += a_[i_] * b_[j_];
      }
      __syncthreads();
    }
    for (int i_ = 0; i_ < 4; ++i_) {
      for (int j_ = 0; j_ < 4; ++j_) {
        const long m = m0_ + row_ + i_ * 16, n_ = n0_ + column_ + j_ * 16;
        if (m >= 37 || n_ >= 50) continue;
        const float acc = acc_[i_][j_];
        y[m * 50 + n_] = nb_narrow(float{}, ((0.5f * (acc + nb_widen(bias[n_]))) * (1.0f + nb_tanh((0.7978846f * ((acc + nb_widen(bias[n_])) + (((0.044715f * (acc + nb_widen(bias[n_]))) * (acc + nb_widen(bias[n_]))) * (acc + nb_widen(bias[n_])))))))));
      }
    }
  }
}
