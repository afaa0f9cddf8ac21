extern "C" __global__ void __launch_bounds__(256) nk_matmul_gelu(const float* a, const float* b, const float* bias, float* y) {
  NB_SHARED(float, tiles_);
  const int lane_ = threadIdx.x % 32, warp_ = threadIdx.x / 32;
  const int row_ = warp_ / 2 * 16 + (lane_ % 2 + lane_ / 16 * 2) * 4;
  const int column_ = warp_ % 2 * 32 + lane_ / 2 % 8 * 4;
  for (long tile_ = blockIdx.x; tile_ < 1; tile_ += gridDim.x) {
    const long m0_ = tile_ / 1 % 1 * 64, n0_ = tile_ % 1 * 64;
    float acc_[4][4] = {};
    const int tiles_of_k_ = 4;
    const float* a_from_;
    int a_there_;
    {
      const int x_ = lane_ / 8 + warp_ / 2 * 4 + 0 * 16, y_ = lane_ % 8 + warp_ % 2 * 8;
      const long m = m0_ + x_, k = y_;
      a_from_ = a + m * 64 + k;
      a_there_ = int(37 - m <= 0 ? 0 : (37 - m - 1) / 16 + 1);
    }
    const float* b_from_;
    int b_there_;
    {
      const int p_ = 0 * 256 + int(threadIdx.x);
      const int x_ = p_ % 64 * 1, y_ = p_ / 64;
      const long n_ = n0_ + x_, k = y_;
      b_from_ = b + n_ + k * 50;
      b_there_ = 50 - n_ > 0;
    }
    #pragma unroll 1
    for (int t_ = 0; t_ < 2; ++t_) {
      if (const int tile_of_k_ = t_; tile_of_k_ < tiles_of_k_) {
        const long k0_ = long(tile_of_k_) * 16;
        float* const a_fill_ = tiles_ + tile_of_k_ % 3 * 2176;
        float* const b_fill_ = a_fill_ + 1088;
        #pragma unroll
        for (int c_ = 0; c_ < 4; ++c_) {
          const int x_ = lane_ / 8 + warp_ / 2 * 4 + 0 * 16, y_ = lane_ % 8 + warp_ % 2 * 8;
          nb_cp_async_if<4>(a_fill_ + y_ * 68 + x_ + c_ * 16, a_from_ + k0_ * 1 + c_ * 1024L, c_ < a_there_);
        }
        #pragma unroll
        for (int c_ = 0; c_ < 4; ++c_) {
          const int p_ = 0 * 256 + int(threadIdx.x);
          const int x_ = p_ % 64 * 1, y_ = p_ / 64;
          nb_cp_async_if<4>(b_fill_ + y_ * 68 + x_ + c_ * 272, b_from_ + k0_ * 50 + c_ * 200L, b_there_);
        }
      }
      nb_cp_commit();
    }
    for (int t_ = 0; t_ < tiles_of_k_; ++t_) {
      nb_cp_wait<1>();
      __syncthreads();
      if (const int tile_of_k_ = t_ + 2; tile_of_k_ < tiles_of_k_) {
        const long k0_ = long(tile_of_k_) * 16;
        float* const a_fill_ = tiles_ + tile_of_k_ % 3 * 2176;
        float* const b_fill_ = a_fill_ + 1088;
        #pragma unroll
        for (int c_ = 0; c_ < 4; ++c_) {
          const int x_ = lane_ / 8 + warp_ / 2 * 4 + 0 * 16, y_ = lane_ % 8 + warp_ % 2 * 8;
          nb_cp_async_if<4>(a_fill_ + y_ * 68 + x_ + c_ * 16, a_from_ + k0_ * 1 + c_ * 1024L, c_ < a_there_);
        }
        #pragma unroll
        for (int c_ = 0; c_ < 4; ++c_) {
          const int p_ = 0 * 256 + int(threadIdx.x);
          const int x_ = p_ % 64 * 1, y_ = p_ / 64;
          nb_cp_async_if<4>(b_fill_ + y_ * 68 + x_ + c_ * 272, b_from_ + k0_ * 50 + c_ * 200L, b_there_);
        }
      }
      nb_cp_commit();
      const float* const a_tile_ = tiles_ + t_ % 3 * 2176 + row_;
      const float* const b_tile_ = tiles_ + t_ % 3 * 2176 + 1088 + column_;
      #pragma unroll
      for (int k_ = 0; k_ < 16; ++k_) {
        nb_pack<float, 4> a_[1], b_[1];
        for (int g_ = 0; g_ < 1; ++g_) {
          a_[g_] = nb_load_pack<4>(a_tile_ + k_ * 68 + g_ * 16);
          b_[g_] = nb_load_pack<4>(b_tile_ + k_ * 68 + g_ * 32);
        }
        for (int i_ = 0; i_ < 4; ++i_)
          for (int j_ = 0; j_ < 4; ++j_)
            acc_[i_][j_] += a_[i_ / 4].at[i_ % 4] * b_[j_ / 4].at[j_ % 4];
      }
    }
    __syncthreads();
    #pragma unroll
    for (int i_ = 0; i_ < 4; ++i_) {
      #pragma unroll
      for (int j_ = 0; j_ < 4; j_ += 1) {
        const long m = m0_ + row_ + i_ / 4 * 16 + i_ % 4, n_ = n0_ + column_ + j_ / 4 * 32 + j_ % 4;
        if (m >= 37 || n_ >= 50) continue;
        const float acc = acc_[i_][j_];
        y[m * 50 + n_] = nb_narrow(float{}, ((0.5f * (acc + nb_widen(bias[n_]))) * (1.0f + nb_tanh((0.7978846f * ((acc + nb_widen(bias[n_])) + (((0.044715f * (acc + nb_widen(bias[n_]))) * (acc + nb_widen(bias[n_]))) * (acc + nb_widen(bias[n_])))))))));
      }
    }
  }
}
