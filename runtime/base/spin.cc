#include "runtime/base/spin.h"

#include <linux/futex.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>

namespace nabla {
namespace {

constexpr int64_t kPauseMinNs = 16'000'000, kPauseMaxNs = 256'000'000;
// One part in so many of the time is little.
constexpr int64_t kLossShare = 16;

constexpr uint64_t kShortSliceNs = 100'000;

// The first version of sched_attr, of which C libraries have declarations that exclude each other, or none.
struct Attributes {
  uint32_t size = sizeof(Attributes), policy = 0;
  uint64_t flags = 0;
  int32_t nice = 0;
  uint32_t priority = 0;
  uint64_t runtime = 0, deadline = 0, period = 0;
};

}  // namespace

int64_t read_clock(clockid_t clock) {
  timespec t{};
  clock_gettime(clock, &t);
  return t.tv_sec * int64_t{1'000'000'000} + t.tv_nsec;
}

clockid_t own_cpu_clock() {
  clockid_t clock{};
  // A clock that always goes on is that of a thread that is always on its CPU.
  return pthread_getcpuclockid(pthread_self(), &clock) == 0 ? clock : CLOCK_MONOTONIC;
}

void futex_wait(std::atomic<uint32_t>& word, uint32_t expected) {
  syscall(SYS_futex, reinterpret_cast<uint32_t*>(&word), FUTEX_WAIT_PRIVATE, expected, nullptr, nullptr, 0);
}

void futex_wake(std::atomic<uint32_t>& word, int threads) {
  syscall(SYS_futex, reinterpret_cast<uint32_t*>(&word), FUTEX_WAKE_PRIVATE, threads, nullptr, nullptr, 0);
}

void ask_for_short_slices() {
  Attributes now;
  if (syscall(SYS_sched_getattr, 0, &now, sizeof now, 0) != 0 || now.policy != SCHED_OTHER) return;
  now.runtime = kShortSliceNs;
  (void)syscall(SYS_sched_setattr, 0, &now, 0);  // where that is not allowed, or means nothing, waiting takes longer
}

int64_t Losses::note(int64_t begin_ns, int64_t end_ns) {
  int64_t lost = end_ns - begin_ns, since = end_ns - since_ns_;
  since_ns_ = end_ns;
  pause_ns_ = lost * kLossShare < since ? 0 : pause_ns_ == 0 ? kPauseMinNs : std::min(2 * pause_ns_, kPauseMaxNs);
  return pause_ns_;
}

}  // namespace nabla
