// How threads look for each other before they sleep, and when that does not pay.
#pragma once

#include <time.h>

#include <atomic>
#include <cstdint>

namespace nabla {

/// Nanoseconds; 0 for the clock of a thread that has ended.
int64_t read_clock(clockid_t clock);
inline int64_t now_ns() { return read_clock(CLOCK_MONOTONIC); }
/// That of the calling thread's CPU time, for other threads.
clockid_t own_cpu_clock();

/// Spins until `done()` or the bound; returns done().
template <class Done>
bool spin_until(int64_t bound_ns, Done done) {
  constexpr int kSpinsPerClock = 32;
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

/// Sleeps while the word is `expected`; may return without a reason.
void futex_wait(std::atomic<uint32_t>& word, uint32_t expected);
void futex_wake(std::atomic<uint32_t>& word, int threads = 1);

/// The calling thread asks the system to share its CPU with others in pieces of 0.1 ms. Its share stays as it is, but Linux (from 6.12 on)
/// lets a thread that wakes up go before one with longer pieces, which otherwise has some milliseconds first.
void ask_for_short_slices();

/// What waiting for threads that the system had stopped has cost. While other programs compete for the CPUs, it is better to do without
/// them, or without spinning.
class Losses {
 public:
  /// A wait from `begin` to `end` was for a stopped thread. For how long to do without, from its end on: 0 where that has cost little,
  /// and twice as long each time that trying again shows the same.
  int64_t note(int64_t begin_ns, int64_t end_ns);
  /// Now is tried again.
  void resume(int64_t now_ns) { since_ns_ = now_ns; }

 private:
  int64_t since_ns_ = 0;  ///< the last such wait, or the end of doing without
  int64_t pause_ns_ = 0;
};

}  // namespace nabla
