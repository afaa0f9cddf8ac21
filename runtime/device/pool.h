// The runtime's only thread pool: ranges of units shared out to threads that wait by a bounded spin, then a futex.
#pragma once

#include <pthread.h>
#include <time.h>

#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

#include "runtime/base/spin.h"

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

  /// Shares `units` out to at most `max_threads` threads (0: no bound), each of which has a contiguous range and, when
  /// that is done, takes what others have not begun; thread 0 is the caller. How the units are cut depends on the
  /// moment: a body must give the same for every cut. Returns when all are done. One caller at a time, and never from
  /// within a body.
  void run(Body body, void* context, int64_t units, int max_threads);

 private:
  /// What belongs to one thread, on a cache line of its own.
  struct alignas(64) Share {
    // The job's number, how many threads take part, in how many pieces this thread's range is cut, and the first that
    // nobody has taken. Whoever takes a piece compares all of it, so that a worker that was away for a while never
    // works on a job that has ended, and reads the fields of a job only while that cannot end.
    std::atomic<uint64_t> next{0};
    Body body = nullptr;
    void* context = nullptr;
    int64_t units = 0;                ///< of the whole job
    std::atomic<uint32_t> asleep{0};  ///< the worker is in this futex, or about to be
    std::atomic<bool> busy{false};    ///< the worker may hold a piece
    clockid_t clock{};                ///< of the worker's CPU time
    int64_t cpu_ns = 0;               ///< the caller's: an earlier value of that
  };

  void pin_caller_to(const std::vector<int>& cpus);
  void work(int thread);
  uint32_t take(int thread, uint64_t job);
  void wait(int parts, uint32_t own);
  bool off_cpu(int parts, uint32_t own);

  int64_t spin_ns_ = 0;
  // While other programs compete for the CPUs, a launch would wait for workers that the system has stopped in the
  // middle of a piece: the caller then works alone for a while, and tries again.
  int64_t alone_until_ns_ = 0;                    ///< 0: not alone
  Losses losses_;
  uint32_t number_ = 0;                           ///< of the last job
  alignas(64) std::atomic<uint32_t> pending_{0};  ///< pieces that no worker has finished
  std::atomic<uint32_t> caller_sleeps_{0};
  alignas(64) std::atomic<bool> stop_{false};
  std::vector<Share> shares_;  ///< by thread
  std::vector<std::thread> workers_;
  pthread_t pinned_caller_{};
  std::vector<int> caller_cpus_;  ///< before it was pinned; empty: it was not
};

}  // namespace nabla::device
