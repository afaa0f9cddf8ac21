#include "runtime/device/pool.h"

#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <system_error>

#include "runtime/device/cpu.h"

namespace nabla::device {
namespace {

constexpr uint32_t kJobStep = ThreadPool::kMaxThreads * 2;
// Long enough for the serial work between two launches of a step, short against a scheduler quantum.
constexpr int64_t kSpinNs = 100'000;
constexpr int kSpinsPerClock = 32;

int64_t now_ns() {
  timespec t{};
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * int64_t{1'000'000'000} + t.tv_nsec;
}

void futex_wait(std::atomic<uint32_t>& word, uint32_t expected) {
  syscall(SYS_futex, reinterpret_cast<uint32_t*>(&word), FUTEX_WAIT_PRIVATE, expected, nullptr, nullptr, 0);
}

void futex_wake(std::atomic<uint32_t>& word, int count) {
  syscall(SYS_futex, reinterpret_cast<uint32_t*>(&word), FUTEX_WAKE_PRIVATE, count, nullptr, nullptr, 0);
}

/// Spins until `done()` or the bound; returns done().
template <class Done>
bool spin_until(int64_t bound_ns, Done done) {
  if (done()) return true;
  if (bound_ns == 0) return false;
  int64_t deadline = now_ns() + bound_ns;
  do {
    for (int i = 0; i < kSpinsPerClock; ++i) {
      __builtin_ia32_pause();
      if (done()) return true;
    }
  } while (now_ns() < deadline);
  return false;
}

void pin(pthread_t thread, int cpu) {
  if (cpu >= CPU_SETSIZE) return;
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(cpu, &set);
  // Where pinning is not allowed the pool still works, only less evenly.
  (void)pthread_setaffinity_np(thread, sizeof set, &set);
}

}  // namespace

ThreadPool::ThreadPool(int threads, bool pin_caller) {
  std::vector<int> cpus = allowed_cpus();
  int available = static_cast<int>(cpus.size());
  if (threads <= 0) threads = available;
  threads = std::min(threads, kMaxThreads);
  spin_ns_ = threads > available ? 0 : kSpinNs;
  bool pinned = threads > 1 && threads == available;
  if (pinned && pin_caller) {
    pinned_caller_ = pthread_self();
    caller_cpus_ = cpus;
    pin(pthread_self(), cpus[0]);
  }
  workers_.reserve(threads - 1);
  for (int i = 1; i < threads; ++i) {
    try {
      workers_.emplace_back([this, i] { work(i); });
    } catch (const std::system_error&) {
      break;  // the system gives no more
    }
    if (pinned) pin(workers_.back().native_handle(), cpus[i]);
  }
}

ThreadPool::~ThreadPool() {
  stop_.store(true);
  job_.fetch_add(kJobStep);
  futex_wake(job_, kMaxThreads);
  for (std::thread& worker : workers_) worker.join();
  // The caller may go on without the pool, or make another one: it gets its CPUs back.
  if (caller_cpus_.empty() || !pthread_equal(pinned_caller_, pthread_self())) return;
  cpu_set_t set;
  CPU_ZERO(&set);
  for (int cpu : caller_cpus_)
    if (cpu < CPU_SETSIZE) CPU_SET(cpu, &set);
  (void)pthread_setaffinity_np(pinned_caller_, sizeof set, &set);
}

void ThreadPool::run_part(int thread, int parts) {
  // In 128 bits: units may be large.
  auto cut = [&](int i) { return static_cast<int64_t>(static_cast<__int128>(units_) * i / parts); };
  int64_t begin = cut(thread), end = cut(thread + 1);
  if (begin < end) body_(context_, begin, end, thread);
}

void ThreadPool::run(Body body, void* context, int64_t units, int max_threads) {
  int64_t limit = max_threads <= 0 ? size() : std::min(size(), max_threads);
  int parts = static_cast<int>(std::min(limit, units));
  if (parts <= 1) {
    if (units > 0) body(context, 0, units, 0);
    return;
  }
  body_ = body;
  context_ = context;
  units_ = units;
  pending_.store(static_cast<uint32_t>(parts - 1), std::memory_order_relaxed);
  uint32_t number = job_.load(std::memory_order_relaxed) / kJobStep + 1;
  job_.store(number * kJobStep + static_cast<uint32_t>(parts));
  if (sleepers_.load() != 0) futex_wake(job_, kMaxThreads);
  run_part(0, parts);
  auto done = [&] { return pending_.load(std::memory_order_acquire) == 0; };
  while (!spin_until(spin_ns_, done)) {
    caller_sleeps_.store(1);
    if (uint32_t left = pending_.load(); left != 0) futex_wait(pending_, left);
    caller_sleeps_.store(0);
  }
}

void ThreadPool::work(int thread) {
  uint32_t seen = 0;
  for (;;) {
    auto changed = [&] { return job_.load(std::memory_order_acquire) != seen; };
    while (!spin_until(spin_ns_, changed)) {
      sleepers_.fetch_add(1);
      futex_wait(job_, seen);
      sleepers_.fetch_sub(1);
    }
    if (stop_.load()) return;
    seen = job_.load(std::memory_order_acquire);
    int parts = static_cast<int>(seen % kJobStep);
    if (thread >= parts) continue;
    run_part(thread, parts);
    if (pending_.fetch_sub(1) == 1 && caller_sleeps_.load() != 0) futex_wake(pending_, 1);
  }
}

}  // namespace nabla::device
