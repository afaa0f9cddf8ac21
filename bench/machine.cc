// Limits of the machine. The accumulators are variables of their own: an array of them would be spilled, and the peak
// would read three times too low.
#include <immintrin.h>
#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <thread>

#include "bench/bench.h"
#include "runtime/device/cpu.h"

namespace nabla::bench {
namespace {

// About a millisecond: the best of many short rounds is the peak, also when other programs run.
constexpr int64_t kFmaRounds = 500'000;
constexpr int kAccumulators = 12;

#define NABLA_BENCH_ACCUMULATORS(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11)

__attribute__((target("avx512f"), noinline)) float fma_512(int64_t rounds) {
#define X(i) __m512 a##i = _mm512_set1_ps(i);
  NABLA_BENCH_ACCUMULATORS(X)
#undef X
  __m512 x = _mm512_set1_ps(0.999999f), y = _mm512_set1_ps(1e-7f);
  for (int64_t k = 0; k < rounds; ++k) {
#define X(i)                          \
  a##i = _mm512_fmadd_ps(a##i, x, y); \
  asm volatile("" : "+v"(a##i));
    NABLA_BENCH_ACCUMULATORS(X)
#undef X
  }
  __m512 sum = _mm512_setzero_ps();
#define X(i) sum = _mm512_add_ps(sum, a##i);
  NABLA_BENCH_ACCUMULATORS(X)
#undef X
  alignas(64) float lanes[16];
  _mm512_store_ps(lanes, sum);
  return lanes[0] + lanes[15];
}

__attribute__((target("avx2,fma"), noinline)) float fma_256(int64_t rounds) {
#define X(i) __m256 a##i = _mm256_set1_ps(i);
  NABLA_BENCH_ACCUMULATORS(X)
#undef X
  __m256 x = _mm256_set1_ps(0.999999f), y = _mm256_set1_ps(1e-7f);
  for (int64_t k = 0; k < rounds; ++k) {
#define X(i)                          \
  a##i = _mm256_fmadd_ps(a##i, x, y); \
  asm volatile("" : "+x"(a##i));
    NABLA_BENCH_ACCUMULATORS(X)
#undef X
  }
  __m256 sum = _mm256_setzero_ps();
#define X(i) sum = _mm256_add_ps(sum, a##i);
  NABLA_BENCH_ACCUMULATORS(X)
#undef X
  alignas(32) float lanes[8];
  _mm256_store_ps(lanes, sum);
  return lanes[0] + lanes[7];
}
#undef NABLA_BENCH_ACCUMULATORS

// Past the caches, as generated kernels store large results: the lines written are not read before.
__attribute__((target("avx2"), noinline)) void copy_256(float* to, const float* from, int64_t n) {
  for (int64_t i = 0; i < n; i += 8) _mm256_stream_ps(to + i, _mm256_load_ps(from + i));
  _mm_sfence();
}

// Read before any pool pins the calling thread: a limit that is measured beside a session has all CPUs as well.
const std::vector<int> kCpus = device::allowed_cpus();

// Seconds from a common start until the last of `threads` pinned threads has ended f(thread).
double parallel_seconds(int threads, const std::function<void(int)>& f) {
  std::atomic<int> ready{0};
  std::atomic<bool> go{false};
  std::vector<double> ends(threads);
  std::vector<std::thread> pool;
  for (int t = 0; t < threads; ++t)
    pool.emplace_back([&, t] {
      if (!kCpus.empty()) {
        cpu_set_t set;
        CPU_ZERO(&set);
        CPU_SET(kCpus[t % kCpus.size()], &set);
        pthread_setaffinity_np(pthread_self(), sizeof set, &set);
      }
      ++ready;
      while (!go) {
      }
      f(t);
      ends[t] = now();
    });
  while (ready < threads) std::this_thread::yield();
  double begin = now();
  go = true;
  for (std::thread& thread : pool) thread.join();
  return *std::max_element(ends.begin(), ends.end()) - begin;
}

Bench machine_bench(std::string name, std::string what, std::string unit, int threads, double (*measure)(int)) {
  return {std::move(name), std::move(what), [=](const Paths&) -> Result<Measurement> {
            double best = 0;
            for (int i = 0; i < 100; ++i) best = std::max(best, measure(threads));
            return plain(best, unit);
          }};
}

}  // namespace

double peak_gflops(int threads) {
  bool wide = __builtin_cpu_supports("avx512f");
  double flops = 2.0 * kAccumulators * (wide ? 16 : 8) * static_cast<double>(kFmaRounds) * threads;
  std::atomic<float> sink{0};
  return flops / parallel_seconds(threads, [&](int) { sink = wide ? fma_512(kFmaRounds) : fma_256(kFmaRounds); }) *
         1e-9;
}

double copy_gbs(int threads) {
  constexpr int64_t kElements = int64_t{1} << 25;
  static const Literal from(DType::kF32, {kElements});
  static Literal to(DType::kF32, {kElements});
  const float* a = static_cast<const float*>(from.data());
  float* b = static_cast<float*>(to.mutable_data());
  int64_t part = kElements / threads / 8 * 8;
  double seconds = parallel_seconds(threads, [&](int t) { copy_256(b + t * part, a + t * part, part); });
  return 8.0 * static_cast<double>(part) * threads / seconds * 1e-9;
}

std::vector<Bench> machine_benches() {
  return {
      machine_bench("peak_gflops_1t", "f32 fused multiply-adds, one thread", "GFLOP/s", 1, peak_gflops),
      machine_bench("peak_gflops_2t", "f32 fused multiply-adds, two threads", "GFLOP/s", 2, peak_gflops),
      machine_bench("copy_gbs_1t", "copy of 128 MiB, bytes read and written, one thread", "GB/s", 1, copy_gbs),
      machine_bench("copy_gbs_2t", "copy of 128 MiB, bytes read and written, two threads", "GB/s", 2, copy_gbs),
  };
}

}  // namespace nabla::bench
