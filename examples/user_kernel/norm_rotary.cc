// A kernel of one's own: RMS normalization of attention heads and their rotary embedding in one pass over memory, with
// its derivative, for CPUs and GPUs, inside a program that otherwise consists of ops.
#include <cstdio>

#include "frontend/nabla.h"

using nabla::Tensor;

namespace {

// x, y [tokens, heads, size], weight [size]; position is the token's. Pairs (i, i + size/2) are turned.
nabla::UserKernel norm_rotary() {
  return nabla::cpp_kernel("norm_rotary", "f32[tokens,heads,size], f32[size] -> f32[tokens,heads,size]", R"(
#include <math.h>

static void one_head(const float* x, const float* weight, float* y, const float* cosine, const float* sine,
                     int64_t size) {
  float square = 0;
  for (int64_t i = 0; i < size; ++i) square += x[i] * x[i];
  const float scale = 1 / sqrtf(square / float(size) + 1e-6f);
  const int64_t half = size / 2;
  for (int64_t i = 0; i < half; ++i) {
    const float a = x[i] * scale * weight[i], b = x[i + half] * scale * weight[i + half];
    y[i] = a * cosine[i] - b * sine[i];
    y[i + half] = b * cosine[i] + a * sine[i];
  }
}

void norm_rotary(const float* x, const float* weight, float* y, int64_t tokens, int64_t heads, int64_t size) {
  float cosine[512], sine[512];
  for (int64_t t = 0; t < tokens; ++t) {
    for (int64_t i = 0; i < size / 2; ++i) {
      const float angle = float(t) * powf(10000, -2 * float(i) / float(size));
      cosine[i] = cosf(angle), sine[i] = sinf(angle);
    }
    for (int64_t h = 0; h < heads; ++h) {
      const int64_t at = (t * heads + h) * size;
      one_head(x + at, weight, y + at, cosine, sine, size);
    }
  }
}
)")
      // For GPUs: a warp per head of a token, whose lanes share out the pairs.
      .cuda(R"(
__device__ void norm_rotary(const float* x, const float* weight, float* y, int64_t tokens, int64_t heads,
                            int64_t size) {
  const int64_t row = int64_t(blockIdx.x) * (blockDim.x / 32) + threadIdx.x / 32, lane = threadIdx.x % 32;
  if (row >= tokens * heads) return;
  x += row * size, y += row * size;
  float square = 0;
  for (int64_t i = lane; i < size; i += 32) square += x[i] * x[i];
  for (int lanes = 16; lanes > 0; lanes /= 2) square += __shfl_xor_sync(0xffffffffu, square, lanes);
  const float scale = rsqrtf(square / float(size) + 1e-6f), position = float(row / heads);
  const int64_t half = size / 2;
  for (int64_t i = lane; i < half; i += 32) {
    const float angle = position * powf(10000, -2 * float(i) / float(size)), c = cosf(angle), s = sinf(angle);
    const float a = x[i] * scale * weight[i], b = x[i + half] * scale * weight[i + half];
    y[i] = a * c - b * s;
    y[i + half] = b * c + a * s;
  }
}
)",
            {.threads = 128, .blocks = "ceildiv(tokens * heads, 4)"})
      // What it means: derivatives are taken of this. Tokens may not be split, because a block would begin at position
      // 0: `factors` stays empty.
      .reference([](Tensor x, Tensor weight) {
        int64_t tokens = x.size(0), heads = x.size(1), size = x.size(2), half = size / 2;
        Tensor scale = nabla::rsqrt(nabla::mean(x * x, {2}, true) + 1e-6);
        Tensor v = x * scale * weight;
        Tensor position = nabla::iota({tokens, 1, half}, 0, nabla::f32);
        Tensor index = nabla::iota({tokens, 1, half}, 2, nabla::f32);
        Tensor angle = position * nabla::exp(index * (-2 * 9.210340371976184 / static_cast<double>(size)));
        Tensor a = nabla::slice(v, {0, 0, 0}, {tokens, heads, half}, {1, 1, 1});
        Tensor b = nabla::slice(v, {0, 0, half}, {tokens, heads, size}, {1, 1, 1});
        Tensor c = nabla::cos(angle), s = nabla::sin(angle);
        return nabla::concatenate({a * c - b * s, b * c + a * s}, 2);
      });
}

void build(const char* path) {
  nabla::Program program;
  nabla::Spec x("x", nabla::f32, {16, 4, 32}), weight("weight", nabla::f32, {32});
  nabla::UserKernel kernel = norm_rotary();
  program.entry("forward", {x, weight}, [&](Tensor v, Tensor w) -> nabla::Outputs { return {{"y", kernel(v, w)}}; });
  program.entry("backward", {x, weight}, [&](Tensor v, Tensor w) -> nabla::Outputs {
    auto loss = [&](Tensor a, Tensor b) {
      Tensor y = kernel(a, b);
      return nabla::sum(y * y * y);
    };
    auto [dx, dw] = nabla::grad(loss, nabla::wrt<0, 1>)(v, w);
    return {{"dx", dx}, {"dweight", dw}};
  });
  program.save(path);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: %s OUTPUT.nir\n", argv[0]);
    return 2;
  }
  try {
    build(argv[1]);
  } catch (const nabla::Error& e) {
    std::fputs(e.what(), stderr);
    return 1;
  }
}
