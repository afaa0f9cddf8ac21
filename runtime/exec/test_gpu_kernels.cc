// The toy bundle's kernels for the fake driver, and a few more. Threads run one after another.
#include "tests/cuda/fake_driver/sequential.h"

using nabla::fake_cuda::nb_call;

namespace {

unsigned thread() {
  return nabla::fake_cuda::block_index.x * nabla::fake_cuda::block_size.x + nabla::fake_cuda::thread_index.x;
}

void toy_init(const unsigned* seed, float* w) { w[thread()] = static_cast<float>(*seed + thread()); }
void toy_step(const float* x, float* w, float* loss) {
  *loss = 0;
  for (int i = 0; i < 4; ++i) *loss += w[i] += x[i] + x[4 + i];
}
void toy_eval(const float* x, const float* mask, float* mean) {
  *mean = (x[0] * mask[0] + x[4] * mask[1]) / (mask[0] + mask[1]);
}
void toy_predict(const float* x, const float* w, float* y) { y[thread()] = x[thread()] * w[thread() % 4]; }

/// Row by row: y = 2 x, where extents[0] is the number of rows of 4.
void twice(const float* x, float* y, const long* extents) {
  if (thread() < 4 * extents[0]) y[thread()] = 2 * x[thread()];
}
/// A kernel of two grids: the second uses what the first made.
void halves_1(const float*, float* y) { y[thread()] = 0.5F; }
void halves_2(const float* x, float* y) { y[thread()] *= x[thread()]; }
/// The loop of a While: count += 1; go = count < limit.
void count_on(const int* limit, int* count, bool* go) { *count += 1, *go = *count < *limit; }
void compare(const int* limit, int* count, bool* go) { *go = *count < *limit; }

}  // namespace

NB_KERNELS({"toy_init", nb_call<toy_init>, 2}, {"toy_step", nb_call<toy_step>, 3, 4096},
           {"toy_eval", nb_call<toy_eval>, 3}, {"toy_predict", nb_call<toy_predict>, 3}, {"twice", nb_call<twice>, 3},
           {"halves_1", nb_call<halves_1>, 2}, {"halves_2", nb_call<halves_2>, 2}, {"count_on", nb_call<count_on>, 3},
           {"compare", nb_call<compare>, 3})
