// Limits of the machine.
#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <thread>

#include "bench/bench.h"
#include "runtime/device/cpu.h"
#include "runtime/device/limits.h"

namespace nabla::bench {
namespace {

// About a millisecond: the best of many short rounds is the peak, also when other programs run.
constexpr int64_t kFmaRounds = 500'000;

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
  std::atomic<double> flops{0};
  double seconds = parallel_seconds(threads, [&](int) { flops = device::multiply_adds(kFmaRounds); });
  return flops * threads / seconds * 1e-9;
}

double copy_gbs(int threads) {
  constexpr int64_t kElements = int64_t{1} << 25;
  static const Literal from(DType::kF32, {kElements});
  static Literal to(DType::kF32, {kElements});
  const float* a = static_cast<const float*>(from.data());
  float* b = static_cast<float*>(to.mutable_data());
  int64_t part = kElements / threads / 8 * 8;
  double seconds = parallel_seconds(threads, [&](int t) { device::stream_copy(b + t * part, a + t * part, part); });
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
