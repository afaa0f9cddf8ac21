#include "runtime/device/pool.h"

#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <system_error>

#include "runtime/device/cpu.h"

namespace nabla::device {
namespace {

// Long enough for the serial work between two launches of a step, short against a scheduler quantum.
constexpr int64_t kSpinNs = 100'000;
// A range is taken in pieces, so that others can go on with the rest of it when its thread is held up.
constexpr int64_t kPieces = 2;
// `Share::next` from the top: 32 bits of the job's number, 16 of threads, 8 of pieces, 8 of the next one.
constexpr int kNumberShift = 32, kPartsShift = 16, kPiecesShift = 8;

uint64_t job_word(uint32_t number, int parts, int64_t pieces) {
  return uint64_t{number} << kNumberShift | static_cast<uint64_t>(parts) << kPartsShift |
         static_cast<uint64_t>(pieces) << kPiecesShift;
}
int parts_of(uint64_t word) { return static_cast<int>(word >> kPartsShift & 0xffff); }
int64_t pieces_of(uint64_t word) { return static_cast<int64_t>(word >> kPiecesShift & 0xff); }
int64_t next_of(uint64_t word) { return static_cast<int64_t>(word & 0xff); }
uint64_t job_of(uint64_t word) { return word & ~uint64_t{0xff}; }

void pin(pthread_t thread, const std::vector<int>& cpus) {
  cpu_set_t set;
  CPU_ZERO(&set);
  for (int cpu : cpus)
    if (cpu < CPU_SETSIZE) CPU_SET(cpu, &set);
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
    pin_caller_to({cpus[0]});
  }
  shares_ = std::vector<Share>(threads);
  workers_.reserve(threads - 1);
  for (int i = 1; i < threads; ++i) {
    try {
      workers_.emplace_back([this, i] { work(i); });
    } catch (const std::exception&) {
      break;  // the system gives no more, or no memory for one
    }
    if (pinned) pin(workers_.back().native_handle(), {cpus[i]});
    if (pthread_getcpuclockid(workers_.back().native_handle(), &shares_[i].clock) != 0)
      shares_[i].clock = CLOCK_MONOTONIC;  // as if it were always on its CPU
  }
}

ThreadPool::~ThreadPool() {
  stop_.store(true);
  for (int i = 1; i < size(); ++i) {
    shares_[i].asleep.store(0);
    futex_wake(shares_[i].asleep);
  }
  for (std::thread& worker : workers_) worker.join();
  // The caller may go on without the pool, or make another one: it gets its CPUs back.
  pin_caller_to(caller_cpus_);
}

/// Does nothing for a caller that is not the one to be pinned.
void ThreadPool::pin_caller_to(const std::vector<int>& cpus) {
  if (!caller_cpus_.empty() && pthread_equal(pinned_caller_, pthread_self())) pin(pinned_caller_, cpus);
}

/// Works on the thread's own range, then on what is left of the others'; returns how many pieces it has done.
uint32_t ThreadPool::take(int thread, uint64_t job) {
  uint32_t done = 0;
  int parts = parts_of(job);
  int64_t pieces = pieces_of(job);
  for (int i = 0, part = thread; i < parts; ++i, part = part + 1 == parts ? 0 : part + 1) {
    Share& share = shares_[part];
    uint64_t word = share.next.load(std::memory_order_acquire);
    while (job_of(word) == job && next_of(word) < pieces) {
      if (!share.next.compare_exchange_weak(word, word + 1, std::memory_order_acq_rel, std::memory_order_acquire))
        continue;
      int64_t piece = part * pieces + next_of(word), all = parts * pieces;
      int64_t each = share.units / all, rest = share.units % all;
      auto cut = [&](int64_t at) { return each * at + std::min(at, rest); };
      share.body(share.context, cut(piece), cut(piece + 1), thread);
      ++done;
      ++word;
    }
  }
  return done;
}

void ThreadPool::run(Body body, void* context, int64_t units, int max_threads) {
  int64_t limit = max_threads <= 0 ? size() : std::min(size(), max_threads);
  int parts = static_cast<int>(std::min(limit, units));
  if (alone_until_ns_ != 0 && parts > 1) {
    if (int64_t now = now_ns(); now < alone_until_ns_) {
      parts = 1;
    } else {
      alone_until_ns_ = 0;
      losses_.resume(now);
      pin_caller_to({caller_cpus_.empty() ? 0 : caller_cpus_[0]});
    }
  }
  if (parts <= 1) {
    if (units > 0) body(context, 0, units, 0);
    return;
  }
  int64_t pieces = std::min(kPieces, units / parts);
  pending_.store(static_cast<uint32_t>(parts * pieces), std::memory_order_relaxed);
  uint64_t job = job_word(++number_, parts, pieces);
  for (int i = 0; i < parts; ++i) {
    Share& share = shares_[i];
    share.body = body;
    share.context = context;
    share.units = units;
    share.next.store(job, std::memory_order_release);
  }
  // Either the worker sees the job before it sleeps, or it is seen here that it sleeps.
  std::atomic_thread_fence(std::memory_order_seq_cst);
  for (int i = 1; i < parts; ++i)
    if (shares_[i].asleep.load(std::memory_order_relaxed) != 0 && shares_[i].asleep.exchange(0) != 0)
      futex_wake(shares_[i].asleep);
  uint32_t own = take(0, job);
  if (pending_.load(std::memory_order_acquire) != own) wait(parts, own);
}

/// Until the workers have finished all pieces but the caller's `own`.
void ThreadPool::wait(int parts, uint32_t own) {
  int64_t begin = now_ns();
  if (spin_until(spin_ns_, [&] { return pending_.load(std::memory_order_acquire) == own; })) return;
  bool stopped = spin_ns_ != 0 && off_cpu(parts, own);
  caller_sleeps_.store(1);
  for (uint32_t left; (left = pending_.load()) != own;) futex_wait(pending_, left);
  caller_sleeps_.store(0);
  if (!stopped) return;
  int64_t end = now_ns(), alone = losses_.note(begin, end);
  if (alone == 0) return;
  alone_until_ns_ = end + alone;
  pin_caller_to(caller_cpus_);  // another CPU may have more time
}

/// Whether a worker that holds a piece gets less than half of its CPU's time. Takes half of a spin at most.
bool ThreadPool::off_cpu(int parts, uint32_t own) {
  for (int i = 1; i < parts; ++i) shares_[i].cpu_ns = read_clock(shares_[i].clock);
  int64_t begin = now_ns();
  if (spin_until(spin_ns_ / 2, [&] { return pending_.load(std::memory_order_acquire) == own; })) return false;
  int64_t passed = now_ns() - begin;
  for (int i = 1; i < parts; ++i)
    if (shares_[i].busy.load(std::memory_order_relaxed) &&
        read_clock(shares_[i].clock) - shares_[i].cpu_ns < passed / 2)
      return true;
  return false;
}

void ThreadPool::work(int thread) {
  Share& share = shares_[thread];
  uint64_t seen = 0;
  auto changed = [&] {
    return job_of(share.next.load(std::memory_order_acquire)) != seen || stop_.load(std::memory_order_relaxed);
  };
  for (;;) {
    while (!spin_until(spin_ns_, changed)) {
      share.asleep.store(1);
      std::atomic_thread_fence(std::memory_order_seq_cst);
      if (!changed()) futex_wait(share.asleep, 1);
      share.asleep.store(0);
    }
    if (stop_.load()) return;
    seen = job_of(share.next.load(std::memory_order_acquire));
    share.busy.store(true, std::memory_order_relaxed);
    uint32_t done = take(thread, seen);
    share.busy.store(false, std::memory_order_relaxed);
    // Seldom the last one when the caller sleeps; it looks again by itself.
    if (done != 0) {
      pending_.fetch_sub(done);
      if (caller_sleeps_.load() != 0) futex_wake(pending_);
    }
  }
}

}  // namespace nabla::device
