// The runtime's only thread pool: ranges of units shared out to threads that wait by a bounded spin, then a futex.
#pragma once

#include <pthread.h>

#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

namespace nabla::device {

class ThreadPool {
 public:
  static constexpr int kMaxThreads = 1024;

  /// Units [begin, end), done by thread `thread` in [0, size()).
  using Body = void (*)(void* context, int64_t begin, int64_t end, int thread);

  /// `threads` includes the thread that calls `run`; 0: as many as the process may run on. When the pool has exactly
  /// that many (and more than one), its workers are pinned, and with `pin_caller` the calling thread too, as long as
  /// the pool lives. A pool of more threads than CPUs never spins. Where the system gives no more threads, `size` is
  /// smaller.
  explicit ThreadPool(int threads, bool pin_caller = false);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int size() const { return static_cast<int>(workers_.size()) + 1; }

  /// Shares `units` out to at most `max_threads` threads (0: no bound) in contiguous ranges; thread 0 is the caller.
  /// Returns when all are done. One caller at a time, and never from within a body.
  void run(Body body, void* context, int64_t units, int max_threads);

 private:
  void work(int thread);
  void run_part(int thread, int parts);

  int64_t spin_ns_ = 0;
  Body body_ = nullptr;
  void* context_ = nullptr;
  int64_t units_ = 0;
  // The job's number times kMaxThreads * 2, plus how many threads take part. One word, so that a worker without a
  // part never reads the fields above, which the caller may already be writing for the next job.
  alignas(64) std::atomic<uint32_t> job_{0};
  alignas(64) std::atomic<uint32_t> pending_{0};   ///< workers that have not finished their part
  alignas(64) std::atomic<uint32_t> sleepers_{0};  ///< workers in the futex
  std::atomic<uint32_t> caller_sleeps_{0};
  std::atomic<bool> stop_{false};
  std::vector<std::thread> workers_;
  pthread_t pinned_caller_{};
  std::vector<int> caller_cpus_;  ///< before it was pinned; empty: it was not
};

}  // namespace nabla::device
