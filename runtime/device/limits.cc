// The accumulators are variables of their own: an array of them would be spilled, and the peak would read three times
// too low.
#include "runtime/device/limits.h"

#include <immintrin.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <new>

#include "runtime/device/cpu.h"

namespace nabla::device {
namespace {

constexpr int kAccumulators = 12;

#define NABLA_ACCUMULATORS(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11)

__attribute__((target("avx512f"), noinline)) float fma_512(int64_t rounds) {
#define X(i) __m512 a##i = _mm512_set1_ps(i);
  NABLA_ACCUMULATORS(X)
#undef X
  __m512 x = _mm512_set1_ps(0.999999f), y = _mm512_set1_ps(1e-7f);
  for (int64_t k = 0; k < rounds; ++k) {
#define X(i)                          \
  a##i = _mm512_fmadd_ps(a##i, x, y); \
  asm volatile("" : "+v"(a##i));
    NABLA_ACCUMULATORS(X)
#undef X
  }
  __m512 sum = _mm512_setzero_ps();
#define X(i) sum = _mm512_add_ps(sum, a##i);
  NABLA_ACCUMULATORS(X)
#undef X
  alignas(64) float lanes[16];
  _mm512_store_ps(lanes, sum);
  return lanes[0] + lanes[15];
}

__attribute__((target("avx2,fma"), noinline)) float fma_256(int64_t rounds) {
#define X(i) __m256 a##i = _mm256_set1_ps(i);
  NABLA_ACCUMULATORS(X)
#undef X
  __m256 x = _mm256_set1_ps(0.999999f), y = _mm256_set1_ps(1e-7f);
  for (int64_t k = 0; k < rounds; ++k) {
#define X(i)                          \
  a##i = _mm256_fmadd_ps(a##i, x, y); \
  asm volatile("" : "+x"(a##i));
    NABLA_ACCUMULATORS(X)
#undef X
  }
  __m256 sum = _mm256_setzero_ps();
#define X(i) sum = _mm256_add_ps(sum, a##i);
  NABLA_ACCUMULATORS(X)
#undef X
  alignas(32) float lanes[8];
  _mm256_store_ps(lanes, sum);
  return lanes[0] + lanes[7];
}
#undef NABLA_ACCUMULATORS

double seconds_now() {
  timespec t{};
  clock_gettime(CLOCK_MONOTONIC, &t);
  return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) * 1e-9;
}

/// The best of many short rounds is the limit, also when other programs run.
constexpr int kRepeats = 8;

template <class F>
double best_seconds(const F& f) {
  double best = 1e30;
  for (int i = 0; i < kRepeats; ++i) {
    double begin = seconds_now();
    f();
    best = std::min(best, seconds_now() - begin);
  }
  return best;
}

double measure_flops(ThreadPool& pool) {
  constexpr int64_t kRounds = 20'000;  // tens of microseconds
  double each = multiply_adds(kRounds);
  if (each == 0) return 0;
  int64_t units = pool.size() * 16;
  auto body = [](void*, int64_t begin, int64_t end, int) {
    for (int64_t i = begin; i < end; ++i) multiply_adds(kRounds);
  };
  return each * static_cast<double>(units) / best_seconds([&] { pool.run(body, nullptr, units, 0); });
}

struct CopyJob {
  char* to;
  const char* from;
  int64_t piece;
  int64_t times;
  bool stream;
};

void copy_pieces(void* context, int64_t begin, int64_t end, int) {
  const auto& job = *static_cast<const CopyJob*>(context);
  int64_t at = begin * job.piece, bytes = (end - begin) * job.piece;
  for (int64_t t = 0; t < job.times; ++t) {
    if (job.stream)
      stream_copy(reinterpret_cast<float*>(job.to + at), reinterpret_cast<const float*>(job.from + at), bytes / 4);
    else
      std::memcpy(job.to + at, job.from + at, static_cast<size_t>(bytes));
    asm volatile("" ::: "memory");
  }
}

struct Free {
  void operator()(char* p) const { ::operator delete[](p, std::align_val_t{64}); }
};
using Buffer = std::unique_ptr<char, Free>;
Buffer buffer(int64_t bytes) {
  auto* p = static_cast<char*>(::operator new[](static_cast<size_t>(bytes), std::align_val_t{64}, std::nothrow));
  if (p != nullptr) std::memset(p, 1, static_cast<size_t>(bytes));
  return Buffer(p);
}

constexpr int64_t kLargestCopy = 64 << 20, kSmallestCopy = 16 << 10, kMovedAtLeast = 8 << 20;  // bytes in and out

}  // namespace

double multiply_adds(int64_t rounds) {
  static const bool wide = cpu_has("avx512f"), any = cpu_has("avx2") && cpu_has("fma");
  if (!wide && !any) return 0;
  volatile float sink = wide ? fma_512(rounds) : fma_256(rounds);
  (void)sink;
  return 2.0 * kAccumulators * (wide ? 16 : 8) * static_cast<double>(rounds);
}

__attribute__((target("avx2"), noinline)) void stream_copy(float* to, const float* from, int64_t n) {
  for (int64_t i = 0; i < n; i += 8) _mm256_stream_ps(to + i, _mm256_load_ps(from + i));
  _mm_sfence();
}

double Limits::bytes_per_second(double bytes) const {
  for (const Copy& c : copies)
    if (bytes <= static_cast<double>(c.bytes)) return c.bytes_per_second;
  return copies.empty() ? 0 : copies.back().bytes_per_second;
}

Limits measure_limits(ThreadPool& pool) {
  Limits out;
  out.flops = measure_flops(pool);
  Buffer from = buffer(kLargestCopy / 2), to = buffer(kLargestCopy / 2);
  if (from == nullptr || to == nullptr) return out;
  static const bool streams = cpu_has("avx2");
  for (int64_t bytes = kSmallestCopy; bytes <= kLargestCopy; bytes *= 4) {
    // A cache line at least for every thread.
    int64_t units = std::min<int64_t>(pool.size(), bytes / 2 / 64), piece = bytes / 2 / units / 64 * 64;
    CopyJob job{to.get(), from.get(), piece, std::max<int64_t>(1, kMovedAtLeast / bytes), false};
    double seconds = best_seconds([&] { pool.run(copy_pieces, &job, units, 0); });
    job.stream = true;
    if (streams) seconds = std::min(seconds, best_seconds([&] { pool.run(copy_pieces, &job, units, 0); }));
    out.copies.push_back({bytes, 2.0 * static_cast<double>(piece * units * job.times) / seconds});
  }
  // A larger copy is never faster than a smaller one can be.
  for (size_t i = out.copies.size(); i-- > 1;)
    out.copies[i - 1].bytes_per_second = std::max(out.copies[i - 1].bytes_per_second, out.copies[i].bytes_per_second);
  return out;
}

}  // namespace nabla::device
