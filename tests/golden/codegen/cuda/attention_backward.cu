extern "C" __global__ void nk_attention_backward_clear_dk(const float* q, const float* k, const float* v, const float* o, const float* lse, const float* do_, float* dq, float* dk, float* dv) {
  for (long u_ = nb_thread(); u_ < 432; u_ += nb_threads()) {
    dk[u_] = nb_narrow(float{}, 0.0f);
  }
}

extern "C" __global__ void nk_attention_backward_clear_dv(const float* q, const float* k, const float* v, const float* o, const float* lse, const float* do_, float* dq, float* dk, float* dv) {
  for (long u_ = nb_thread(); u_ < 432; u_ += nb_threads()) {
    dv[u_] = nb_narrow(float{}, 0.0f);
  }
}

extern "C" __global__ void nk_attention_backward(const float* q, const float* k, const float* v, const float* o, const float* lse, const float* do_, float* dq, float* dk, float* dv) {
  for (long h = nb_thread(); h < 2; h += nb_threads()) {
    for (long i = 0; i < 9; ++i) {
      float delta = 0.0f;
      for (long e = 0; e < 24; ++e) {
        delta += (nb_widen(do_[h * 216 + i * 24 + e]) * nb_widen(o[h * 216 + i * 24 + e]));
      }
      float qk[9];
      for (long t = 0; t < 9; ++t) {
        float qk_acc_ = 0.0f;
        for (long e = 0; e < 24; ++e) {
          qk_acc_ += (nb_widen(q[h * 216 + i * 24 + e]) * nb_widen(k[h * 216 + t * 24 + e]));
        }
        qk[t] = qk_acc_;
      }
      float p[9];
      for (long t = 0; t < 9; ++t) {
        p[t] = (nb_le(t, i) ? nb_exp(((0.20412415f * qk[t]) - nb_widen(lse[h * 9 + i]))) : 0.0f);
      }
      float dp[9];
      for (long t = 0; t < 9; ++t) {
        float dp_acc_ = 0.0f;
        for (long e = 0; e < 24; ++e) {
          dp_acc_ += (nb_widen(do_[h * 216 + i * 24 + e]) * nb_widen(v[h * 216 + t * 24 + e]));
        }
        dp[t] = dp_acc_;
      }
      float ds[9];
      for (long t = 0; t < 9; ++t) {
        ds[t] = ((0.20412415f * p[t]) * (dp[t] - delta));
      }
      float g[24];
      for (long d = 0; d < 24; ++d) {
        float g_acc_ = 0.0f;
        for (long t = 0; t < 9; ++t) {
          g_acc_ += (ds[t] * nb_widen(k[h * 216 + t * 24 + d]));
        }
        g[d] = g_acc_;
      }
      for (long d = 0; d < 24; ++d) {
        dq[h * 216 + i * 24 + d] = nb_narrow(float{}, g[d]);
      }
      for (long t = 0; t < 9; ++t) {
        for (long d = 0; d < 24; ++d) {
          dk[h * 216 + t * 24 + d] = nb_narrow(float{}, nb_add<float>(nb_widen(dk[h * 216 + t * 24 + d]), (ds[t] * nb_widen(q[h * 216 + i * 24 + d]))));
        }
      }
      for (long t = 0; t < 9; ++t) {
        for (long d = 0; d < 24; ++d) {
          dv[h * 216 + t * 24 + d] = nb_narrow(float{}, nb_add<float>(nb_widen(dv[h * 216 + t * 24 + d]), (p[t] * nb_widen(do_[h * 216 + i * 24 + d]))));
        }
      }
    }
  }
}
