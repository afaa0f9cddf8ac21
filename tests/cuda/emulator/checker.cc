#include "tests/cuda/emulator/checker.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>

namespace nabla::emulator {
namespace {

const char* verb(Access kind) {
  switch (kind) {
    case Access::kRead:
      return "read";
    case Access::kAtomic:
      return "atomic";
    case Access::kCopyIssued:
    case Access::kCopyDone:
      return "cp.async";
    default:
      return "write";
  }
}

void prepare(Region& r, std::vector<Shadow>& shadow, char* begin, char* end, const char* name) {
  r = {name, begin, end, true, nullptr};
  shadow.assign(end - begin, Shadow{});
  r.shadow = shadow.data();
}

}  // namespace

void Checker::begin_launch(Traffic* traffic, bool count_warps) {
  traffic_ = traffic, count_warps_ = count_warps;
  many_blocks_ = ++blocks_;  // a number of its own, which stands for several blocks of this launch
}

void Checker::begin_block(int threads, char* fixed, char* fixed_end, char* dynamic, char* dynamic_end) {
  ++blocks_;
  epoch_ = 0;
  prepare(fixed_, fixed_shadow_, fixed, fixed_end, "static shared memory");
  prepare(dynamic_, dynamic_shadow_, dynamic, dynamic_end, "dynamic shared memory");
  clocks_.assign((threads + 31) / 32, Clocks{});
  fences_.assign(static_cast<size_t>(threads), {});
  for (Clocks& c : clocks_) std::fill(std::begin(c.own), std::end(c.own), 1);
  if (count_warps_) costs_.begin_block(threads);
}

void Checker::end_block() {
  if (count_warps_) costs_.end_block(*traffic_);
}

void Checker::warp_sync(int warp, unsigned mask) {
  Clocks& c = clocks_[warp];
  uint32_t all[32] = {}, latest = 0;
  for (int lane = 0; lane < 32; ++lane) {
    if (!((mask >> lane) & 1)) continue;
    for (int other = 0; other < 32; ++other) all[other] = std::max(all[other], c.seen[lane][other]);
    all[lane] = std::max(all[lane], c.own[lane]);
    latest = std::max(latest, c.own[lane]);
  }
  for (int lane = 0; lane < 32; ++lane) {
    if (!((mask >> lane) & 1)) continue;
    std::memcpy(c.seen[lane], all, sizeof(all));
    c.own[lane] = latest + 1;
  }
}

bool Checker::written_before(const Shadow& s, int thread) const {
  if (s.write_block < many_blocks_) return true;  // an earlier launch, or nobody
  if (s.write_block != blocks_) return false;
  if (s.write_epoch != epoch_ || s.write_thread == thread) return true;
  return s.write_thread != kMany && s.write_thread / 32 == thread / 32 &&
         knows(thread, s.write_thread % 32, s.write_clock);
}

bool Checker::read_before(const Shadow& s, int thread) const {
  if (s.read_block < many_blocks_) return true;
  if (s.read_block != blocks_) return false;
  if (s.read_epoch != epoch_) return true;
  if (s.read_warp != thread / 32) return false;
  for (uint32_t others = s.read_lanes & ~(1u << thread % 32); others != 0; others &= others - 1)
    if (!knows(thread, std::countr_zero(others), s.read_clock)) return false;
  return true;
}

// Between a write by the generic proxy and this thread's access by the asynchronous one there is a fence of either of the two
// threads: after the write, and before a barrier if the fence is the writer's; after the barrier if it is this thread's.
bool Checker::fenced_before(const Shadow& s, int thread) const {
  const std::vector<Fence>& own = fences_[thread];
  if (s.write_thread != kMany && s.write_fences < fences_[s.write_thread].size()) {
    const Fence& first = fences_[s.write_thread][s.write_fences];
    const bool same_warp = s.write_thread / 32 == thread / 32;
    if (s.write_thread == thread || first.epoch != epoch_ || (same_warp && knows(thread, s.write_thread % 32, first.clock))) return true;
  }
  return !own.empty() && own.back().epoch > s.write_epoch;
}

void Checker::note_read(Shadow& s, int thread) {
  int16_t warp = static_cast<int16_t>(thread / 32);
  uint32_t bit = 1u << thread % 32, clock = clocks_[warp].own[thread % 32];
  if (s.read_block >= many_blocks_ && s.read_block != blocks_) {
    s.read_block = many_blocks_;
  } else if (s.read_block == blocks_ && s.read_epoch == epoch_ && s.read_warp != warp) {
    s.read_warp = kMany;
  } else if (s.read_block == blocks_ && s.read_epoch == epoch_ && !read_before(s, thread)) {
    s.read_lanes |= bit;
    s.read_clock = std::max(s.read_clock, clock);
  } else {
    s.read_block = blocks_, s.read_epoch = epoch_, s.read_warp = warp, s.read_lanes = bit, s.read_clock = clock;
  }
}

void Checker::note_write(Shadow& s, int thread, Access kind, Proxy proxy) {
  bool atomic = kind == Access::kAtomic;
  bool several = atomic && s.by_atomic && !written_before(s, thread);
  bool other_block = several && s.write_block != blocks_;
  s.write_block = other_block ? many_blocks_ : blocks_;
  s.write_epoch = epoch_;
  s.write_clock = clocks_[thread / 32].own[thread % 32];
  s.write_thread = several ? kMany : static_cast<int16_t>(thread);
  s.by_atomic = atomic;
  if (!atomic) s.read_block = 0;
  if (kind != Access::kCopyIssued) s.initialised = true;
  s.copying = kind == Access::kCopyIssued;
  s.generic = proxy == Proxy::kGeneric;
  s.write_fences = static_cast<uint32_t>(fences_[thread].size());
}

bool Checker::check_byte(Shadow& s, const Region& r, const void* at, Access kind, Proxy proxy, int thread, const void* pc) {
  bool read = kind == Access::kRead, atomic = kind == Access::kAtomic;
  auto say = [&](const char* what, const std::string& text) {
    fault_(what, fmt::format("{} of {} {}", verb(kind), r.place(at), text), pc);
  };
  if (s.copying && (kind != Access::kCopyDone || s.write_thread != thread)) {
    say("race",
        fmt::format("that a cp.async of thread {} still fills: cp.async.wait_group, then a barrier, comes first",
                    s.write_thread));
    s.copying = false, s.initialised = true;
    return false;
  }
  if ((read || atomic) && !s.initialised) {
    say("uninitialised", "which nobody has written");
    s.initialised = true;
    return false;
  }
  if (!written_before(s, thread) && !(atomic && s.by_atomic)) {
    if (s.write_block != blocks_)
      say("race", s.write_block == many_blocks_
                      ? "which several blocks of this launch write by atomics"
                      : fmt::format("which block {} of this launch (in the order of running) has written",
                                    s.write_block - many_blocks_ - 1));
    else
      say("race", s.write_thread == kMany
                      ? "which several threads write by atomics, with no barrier between"
                      : fmt::format("which thread {} has written, with no barrier between", s.write_thread));
    s.write_block = 0;
    return false;
  }
  if (!read && !read_before(s, thread)) {
    say("race", s.read_block != blocks_ ? "which another block of this launch reads"
                                        : "which another thread has read, with no barrier between");
    s.read_block = 0;
    return false;
  }
  if (proxy == Proxy::kAsync && r.shared && s.generic && !fenced_before(s, thread)) {
    say("proxy", fmt::format("by {}, which {} has written by stores or cp.async: fence.proxy.async, then a barrier, comes between",
                             read ? "wgmma" : "TMA", s.write_thread == kMany ? "an atomic" : fmt::format("thread {}", s.write_thread)));
    s.generic = false;
    return false;
  }
  return true;
}

bool Checker::outside(const void* at, int64_t bytes, Access kind, const void* pc) {
  const char* p = static_cast<const char*>(at);
  std::string text = fmt::format("{} of {} bytes ", verb(kind), bytes);
  constexpr int64_t kNear = 64 << 10;
  if (const Region* r = memory_.near(at))
    text += p >= r->end ? fmt::format("{} bytes past the end of `{}` ({} bytes)", p - r->end, r->name, r->size())
                        : fmt::format("{} bytes before `{}` ({} bytes)", r->begin - p, r->name, r->size());
  else if (dynamic_.begin && p >= dynamic_.end && p < dynamic_.end + kNear)
    text += fmt::format("{} bytes past the {} bytes of dynamic shared memory", p - dynamic_.end, dynamic_.size());
  else
    text += "at an address of no buffer";
  fault_("bounds", text, pc);
  return false;
}

bool Checker::access(int thread, const void* at, int64_t bytes, Access kind, Proxy proxy, const void* pc) {
  const char* p = static_cast<const char*>(at);
  const Region* r = fixed_.holds(p) ? &fixed_ : dynamic_.holds(p) ? &dynamic_ : memory_.find(p);
  if (!r) return outside(at, bytes, kind, pc);
  if (p + bytes > r->end) {
    fault_("bounds", fmt::format("{} of {} bytes at {} crosses its end", verb(kind), bytes, r->place(p)), pc);
    return false;
  }
  bool writes = kind == Access::kWrite || kind == Access::kAtomic || kind == Access::kCopyDone;
  bool reads = kind == Access::kRead || kind == Access::kAtomic;
  if (reads) (r->shared ? traffic_->shared_read : traffic_->global_read) += bytes;
  if (writes) (r->shared ? traffic_->shared_written : traffic_->global_written) += bytes;
  if (count_warps_ && kind != Access::kCopyDone) {
    const uint64_t place = r->shared ? static_cast<uint64_t>(p - r->begin) : reinterpret_cast<uintptr_t>(p);
    costs_.access(thread, pc, r->shared, place, static_cast<int>(bytes));
  }
  Shadow* s = r->shadow + (p - r->begin);
  const Shadow first = *s;
  bool fine = true;
  for (int64_t i = 0; i < bytes; ++i) {
    if (i > 0 && fine && s[i] == first) {  // what is known of a byte alone decides what is found and noted
      s[i] = *s;
      continue;
    }
    fine = fine && check_byte(s[i], *r, p + i, kind, proxy, thread, pc);
    kind == Access::kRead ? note_read(s[i], thread) : note_write(s[i], thread, kind, proxy);
  }
  return true;
}

}  // namespace nabla::emulator
