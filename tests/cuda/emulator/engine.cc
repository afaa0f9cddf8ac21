#include "tests/cuda/emulator/engine.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <numeric>

namespace nabla::emulator {

namespace {
constexpr size_t kMostFindings = 40, kMostThreads = 1024;
constexpr size_t kMostShared = 227 << 10;  // of a block, on the GPU that has most (sm_90, sm_100)
constexpr size_t kTail = 64 << 10;  // after dynamic shared memory: no other memory's first bytes
}  // namespace

Engine& Engine::get() {
  static Engine engine;
  return engine;
}

#define NB_PC __builtin_return_address(0)

Engine::Engine() {
  host_.thread = &position_;
  host_.block_barrier = [](const char* word) { get().barrier(word, NB_PC); };
  host_.warp = [](const char* word, unsigned mask, const void* in, unsigned long bytes, void* out, int from,
                  NbEmuFinish finish) { get().warp(word, mask, in, bytes, out, from, finish, NB_PC); };
  host_.copy_async = [](void* shared, const void* global, int bytes) { get().copy_async(shared, global, bytes, NB_PC); };
  host_.copy_commit = [] {
    Thread& t = get().threads_[get().current_];
    t.groups.push_back(std::move(t.open));
    t.open.clear();
  };
  host_.copy_wait = [](int left) { get().copy_wait(left); };
  host_.barrier_init = [](void* at, unsigned count) { get().barrier_init(at, count, NB_PC); };
  host_.barrier_expect = [](void* at, unsigned bytes) { get().barrier_expect(at, bytes, NB_PC); };
  host_.barrier_wait = [](void* at, unsigned parity) { get().barrier_wait(at, parity, NB_PC); };
  host_.copy_box = [](void* at, void* shared, const NbEmuTensorMap* map, const int* where, int rank) {
    get().copy_box(at, shared, map, where, rank, NB_PC);
  };
  host_.wgmma_ask = [](const NbEmuWgmma* what) { return get().wgmma_ask(*what); };
  host_.wgmma_commit = [] { ++get().threads_[get().current_].committed; };
  host_.wgmma_next = [](int left, NbEmuWgmma* out) { return get().wgmma_next(left, *out); };
  host_.wgmma_sums = [](const NbEmuWgmma* of, float* sums, bool store) { get().wgmma_sums(*of, sums, store); };
  host_.fence_async = [] {
    Engine& e = get();
    if (e.checker_) e.checker_->proxy_fence(e.current_);
  };
  host_.note_atomic = [](void* at, unsigned long bytes) { get().note(at, bytes, Access::kAtomic, NB_PC); };
  host_.note_access = [](void* at, unsigned long bytes, bool write, void* pc) {
    get().note(at, bytes, write ? Access::kWrite : Access::kRead, pc);
  };
  host_.note_misaligned = [](void* at, const char* type, void* pc) {
    get().fault("misaligned",
                fmt::format("an address of {} ends in {:#x}", type, reinterpret_cast<uintptr_t>(at) % 256), pc);
  };
  host_.note_bounds = [](unsigned long index, const char* type, void* pc) {
    get().fault("bounds", fmt::format("index {} of an array {}", static_cast<long>(index), type), pc);
  };
}

void Engine::fault(const char* kind, const std::string& text, const void* pc) {
  // One finding per place: the first thread speaks for all.
  for (const Finding& f : report_->findings)
    if (f.pc == pc && f.kind == kind) return;
  if (report_->findings.size() >= kMostFindings) return;
  Finding f;
  f.kind = kind, f.text = text, f.block = position_.block.x, f.pc = pc;
  f.thread = static_cast<unsigned>(std::max(current_, 0));
  report_->findings.push_back(std::move(f));
}

unsigned Engine::next_random() {  // xorshift64
  random_ ^= random_ << 13, random_ ^= random_ >> 7, random_ ^= random_ << 17;
  return static_cast<unsigned>(random_ >> 20);
}

void Engine::shuffle_order(std::vector<int>& all) {
  if (options_.order == Order::kReverse) std::sort(all.rbegin(), all.rend());
  if (options_.order == Order::kForward) std::sort(all.begin(), all.end());
  if (options_.order == Order::kRandom)
    for (size_t i = all.size(); i > 1; --i) std::swap(all[i - 1], all[next_random() % i]);
}

// ---- Threads
void Engine::set_current(int thread) {
  current_ = thread;
  position_.thread = {static_cast<unsigned>(thread), 0, 0};
  position_.lane = thread % 32;
}

// Leaves the current fiber for the next that is ready, or for the launch when none is.
void Engine::go_on(Context* save, bool finished) {
  int old = stack_;
  if (next_ready_ == ready_.size()) {
    stack_ = -1;
    if (finished) stacks_.give(old);
    ++report_->switches;
    nb_fiber_switch(save, main_);
    return;
  }
  int next = ready_[next_ready_++];
  Thread& t = threads_[next];
  if (next == current_ && !finished) {
    t.state = State::kReady;
    return;
  }
  if (t.state == State::kNew) {
    t.stack = stacks_.take(&Engine::fiber);
    t.context = stacks_.context(t.stack);
  }
  t.state = State::kReady;
  set_current(next);
  stack_ = t.stack;
  // Nobody takes the old stack before we have left it: taking happens on another one.
  if (finished) stacks_.give(old);
  ++report_->switches;
  nb_fiber_switch(save, t.context);
}

// `first`: before all others that are ready. Warps that run ahead show races which lockstep hides.
void Engine::release(std::vector<int>& threads, bool first) {
  shuffle_order(threads);
  for (int t : threads) threads_[t].state = State::kReady;
  ready_.erase(ready_.begin(), ready_.begin() + static_cast<long>(next_ready_));
  next_ready_ = 0;
  ready_.insert(first ? ready_.begin() : ready_.end(), threads.begin(), threads.end());
  threads.clear();
}

void Engine::fiber() {
  Engine& e = get();
  while (true) {
    e.launch_.kernel->run(e.launch_.args);
    e.thread_ends();
    // The next thread that has not begun takes this stack: no switch.
    if (e.next_ready_ < e.ready_.size() && e.threads_[e.ready_[e.next_ready_]].state == State::kNew) {
      int next = e.ready_[e.next_ready_++];
      e.threads_[next].state = State::kReady;
      e.threads_[next].stack = e.stack_;
      e.set_current(next);
      continue;
    }
    Context nowhere;
    e.go_on(&nowhere, true);
  }
}

void Engine::thread_ends() {
  threads_[current_].state = State::kDone;
  if (!threads_[current_].sums.empty()) fault("wgmma", "the thread ends before it has waited for sums of wgmma", nullptr);
  --alive_;
  Warp& w = warps_[current_ / 32];
  w.exited |= 1u << current_ % 32;
  // A warp operation waits for the lanes of its mask that have not ended.
  for (auto& m : w.meetings)
    if (m->readers == 0 && m->arrived == (m->mask & ~w.exited)) complete(*m);
  if (!waiting_.empty() && static_cast<int>(waiting_.size()) == alive_) barrier_complete();
}

void Engine::stop() {
  stopped_ = true;
  Context nowhere;
  nb_fiber_switch(&nowhere, main_);
}

// ---- Barriers
void Engine::barrier_complete() {
  if (alive_ < static_cast<int>(threads_.size()) && !exit_reported_) {
    exit_reported_ = true;
    const Thread& t = threads_[waiting_[0]];
    fault("barrier", fmt::format("{} of {} threads pass {} and the others have ended", alive_, threads_.size(), t.word),
          t.pc);
  }
  if (checker_) checker_->block_barrier();
  release(waiting_, false);
}

void Engine::barrier(const char* word, const void* pc) {
  Thread& t = threads_[current_];
  if (!waiting_.empty()) {
    const Thread& other = threads_[waiting_[0]];
    if (other.pc != pc && lines_(other.pc) != lines_(pc))
      fault("barrier",
            fmt::format("divergent: this thread waits here, and thread {} at {}", waiting_[0], lines_(other.pc)), pc);
  }
  t.state = State::kAtBarrier, t.word = word, t.pc = pc;
  waiting_.push_back(current_);
  if (static_cast<int>(waiting_.size()) == alive_) barrier_complete();
  go_on(&t.context, false);
}

// ---- Warps
Engine::Meeting& Engine::join(const char* word, unsigned mask, unsigned long bytes) {
  Warp& w = warps_[current_ / 32];
  unsigned bit = 1u << current_ % 32;
  for (auto& m : w.meetings)
    if (m->mask == mask && m->readers == 0 && !(m->arrived & bit)) return *m;
  if (w.spare.empty()) w.spare.push_back(std::make_unique<Meeting>());
  w.meetings.push_back(std::move(w.spare.back()));
  w.spare.pop_back();
  Meeting& m = *w.meetings.back();
  m.mask = mask, m.arrived = 0, m.readers = 0, m.word = word, m.bytes = bytes;
  return m;
}

// All lanes are there: the result is made, and they go on before all others.
void Engine::complete(Meeting& m) {
  if (m.finish) {
    finishing_ = true;
    m.finish(m.slots, m.arrived);
    finishing_ = false;
  }
  int first = current_ / 32 * 32;
  // Shuffles and votes order no memory.
  if (checker_ && std::strcmp(m.word, "__syncwarp") == 0) checker_->warp_sync(current_ / 32, m.arrived);
  std::vector<int> lanes;
  for (int lane = 0; lane < 32; ++lane)
    if ((m.arrived >> lane) & 1) lanes.push_back(first + lane);
  m.readers = static_cast<int>(lanes.size());
  release(lanes, true);
}

void Engine::warp(const char* word, unsigned mask, const void* in, unsigned long bytes, void* out, int from,
                  NbEmuFinish finish, const void* pc) {
  Warp& w = warps_[current_ / 32];
  unsigned bit = 1u << current_ % 32;
  if (!(mask & bit))
    return fault(
        "warp",
        fmt::format("{} with mask {:#010x} is called by lane {}, which is not in it", word, mask, current_ % 32), pc);
  Meeting& m = join(word, mask, bytes);
  if (m.arrived && (std::strcmp(m.word, word) != 0 || m.bytes != bytes))
    fault("warp", fmt::format("lanes of mask {:#010x} meet at {} and at {}", mask, m.word, word), pc);
  Thread& t = threads_[current_];
  m.arrived |= bit;
  m.finish = finish;
  if (bytes) std::memcpy(m.slots + current_ % 32 * kNbEmuSlot, in, bytes);
  t.state = State::kInWarp, t.word = word, t.pc = pc;
  if (m.arrived == (mask & ~w.exited)) complete(m);
  go_on(&t.context, false);
  if (from >= 0) {
    if (!((m.arrived >> from) & 1))
      fault("warp", fmt::format("{} reads lane {}, which does not take part (mask {:#010x})", word, from, m.arrived),
            pc);
    std::memcpy(out, m.slots + from * kNbEmuSlot, bytes);
  } else if (from == -1) {
    std::memcpy(out, m.slots, sizeof(m.slots));
  }
  if (--m.readers > 0) return;
  auto at = std::find_if(w.meetings.begin(), w.meetings.end(), [&](const auto& x) { return x.get() == &m; });
  w.spare.push_back(std::move(*at));
  w.meetings.erase(at);
}

// ---- cp.async
void Engine::copy_async(void* shared, const void* global, int bytes, const void* pc) {
  if ((reinterpret_cast<uintptr_t>(shared) | reinterpret_cast<uintptr_t>(global)) % bytes != 0) {
    fault("misaligned", fmt::format("cp.async of {0} bytes wants both addresses to be multiples of {0}", bytes), pc);
    return;
  }
  note(global, bytes, Access::kRead, pc);
  note(shared, bytes, Access::kCopyIssued, pc);
  if (!options_.late_copies) std::memcpy(shared, global, bytes);
  threads_[current_].open.push_back({shared, global, bytes, pc});
}

void Engine::copy_wait(int left) {
  auto& groups = threads_[current_].groups;
  while (static_cast<int>(groups.size()) > left) {
    for (const Copy& c : groups[0]) {
      if (options_.late_copies) std::memcpy(c.to, c.from, c.bytes);
      note(c.to, c.bytes, Access::kCopyDone, c.pc);
    }
    groups.erase(groups.begin());
  }
}

// ---- wgmma
// The sums are poisoned until somebody waits for them. Products run as late as they may, or at once, as copies do: tiles that are
// overwritten too early, and those that are read before they are there, both give other results.
bool Engine::wgmma_ask(const NbEmuWgmma& what) {
  Thread& t = threads_[current_];
  ++t.issued;
  auto known = std::ranges::find(t.sums, what.d, &Sums::at);
  if (known == t.sums.end()) {
    t.sums.push_back({what.d, {what.d, what.d + what.count}, 0});
    known = t.sums.end() - 1;
    std::memset(what.d, 0xff, what.count * sizeof *what.d);
  }
  known->group = t.committed;
  if (!options_.late_copies) return true;
  t.products.push_back({what, t.committed});
  return false;
}

bool Engine::wgmma_next(int left, NbEmuWgmma& out) {
  Thread& t = threads_[current_];
  auto over = [&](unsigned group) { return static_cast<int64_t>(group) < static_cast<int64_t>(t.committed) - left; };
  if (!t.products.empty() && over(t.products[0].group)) {
    out = t.products[0].what;
    t.products.erase(t.products.begin());
    return true;
  }
  std::erase_if(t.sums, [&](const Sums& s) {
    if (!over(s.group)) return false;
    std::memcpy(s.at, s.values.data(), s.values.size() * sizeof *s.at);
    return true;
  });
  return false;
}

void Engine::wgmma_sums(const NbEmuWgmma& of, float* sums, bool store) {
  threads_[current_].multiplies = !store;  // sums are taken before a product and put back after it
  std::vector<float>& values = std::ranges::find(threads_[current_].sums, of.d, &Sums::at)->values;
  store ? std::memcpy(values.data(), sums, of.count * sizeof *sums) : std::memcpy(sums, values.data(), of.count * sizeof *sums);
}

// All four warps of a warpgroup issue each product together; when one of them leaves it out, a GPU's results are undefined.
void Engine::check_warpgroups() {
  for (size_t first = 0; first < threads_.size(); first += 128) {
    std::vector<int> issued;
    for (size_t w = first; w < first + 128; w += 32) issued.push_back(w < threads_.size() ? threads_[w].issued : 0);
    if (std::ranges::count(issued, issued[0]) == 4) continue;
    fault("wgmma", fmt::format("the warps of warpgroup {} issue {}, {}, {} and {} wgmma instructions", first / 128, issued[0], issued[1],
                               issued[2], issued[3]), nullptr);
  }
}

// ---- mbarrier and cp.async.bulk.tensor
Engine::CopyBarrier& Engine::copy_barrier(void* at, const char* word, const void* pc) {
  auto found = copy_barriers_.find(at);
  if (found != copy_barriers_.end()) return found->second;
  fault("barrier", fmt::format("{} at a barrier that nobody has initialised", word), pc);
  stop();
  return copy_barriers_[at];  // never reached: stop() leaves the launch
}

void Engine::barrier_init(void* at, unsigned count, const void* pc) {
  if (reinterpret_cast<uintptr_t>(at) % 8 != 0) return fault("misaligned", "an mbarrier is 8 bytes at a multiple of 8", pc);
  note(at, 8, Access::kWrite, pc);
  copy_barriers_[at] = {count, count};
}

// Copies come when somebody waits for them, or as soon as they are asked for.
void Engine::settle(CopyBarrier& b) {
  if (options_.late_copies && b.waiting.empty()) return;
  for (const Copy& c : b.open) {
    std::memcpy(c.to, c.from, c.bytes);
    std::memset(static_cast<char*>(c.to) + c.bytes, 0, c.zeros);
    if (checker_) checker_->access(c.thread, c.to, c.bytes + c.zeros, Access::kCopyDone, Proxy::kAsync, c.pc);
    b.bytes -= c.bytes + c.zeros;
  }
  b.open.clear();
  if (b.missing > 0 || b.bytes != 0) return;
  ++b.phase, b.missing = b.count;
  if (!b.waiting.empty()) release(b.waiting, false);
}

void Engine::barrier_expect(void* at, unsigned bytes, const void* pc) {
  CopyBarrier& b = copy_barrier(at, "mbarrier.arrive", pc);
  if (b.missing == 0) return fault("barrier", fmt::format("more than {} threads arrive in one phase of an mbarrier", b.count), pc);
  --b.missing, b.bytes += bytes;
  settle(b);
}

void Engine::barrier_wait(void* at, unsigned parity, const void* pc) {
  CopyBarrier& b = copy_barrier(at, "mbarrier.try_wait", pc);
  if ((b.phase & 1) != parity) return;  // the phase of this parity has ended
  Thread& t = threads_[current_];
  t.state = State::kAtCopies, t.word = "mbarrier.try_wait", t.pc = pc;
  b.waiting.push_back(current_);
  settle(b);
  go_on(&t.context, false);
}

void Engine::copy_box(void* at, void* shared, const NbEmuTensorMap* map, const int* where, int rank, const void* pc) {
  CopyBarrier& b = copy_barrier(at, "cp.async.bulk.tensor", pc);
  if (map->known != kNbEmuTensorMap || map->rank != rank)
    return fault("copy", fmt::format("cp.async.bulk.tensor of {} dimensions with a tensor map that is none, or has others", rank), pc);
  if (reinterpret_cast<uintptr_t>(shared) % 1024 != 0)
    return fault("misaligned", "a swizzled box of cp.async.bulk.tensor begins at a multiple of 1024 bytes", pc);
  const int64_t row_bytes = int64_t{map->box[0]} * map->element;
  int64_t rows = 1;
  for (int d = 1; d < rank; ++d) rows *= map->box[d];
  for (int64_t row = 0; row < rows; ++row) {
    bool there = true;
    const char* from = map->at;
    int64_t left = row;
    for (int d = 1; d < rank; ++d) {
      const int64_t place = where[d] + left % map->box[d];
      left /= map->box[d];
      there &= place >= 0 && place < static_cast<int64_t>(map->sizes[d]);
      from += place * static_cast<int64_t>(map->strides[d]);
    }
    for (int64_t part = 0; part < row_bytes / 16; ++part) {
      const int64_t first = where[0] + part * 16 / map->element, end = static_cast<int64_t>(map->sizes[0]);
      const int64_t whole = std::clamp<int64_t>(end - first, 0, 16 / map->element) * map->element;
      char* to = static_cast<char*>(shared) + row * row_bytes + (part ^ row % 8) * 16;
      copy_row(b, to, from + first * map->element, there && first >= 0 ? whole : 0, pc);
    }
  }
  settle(b);
}

// 16 bytes of a row of a box, of which `there` lie in the array.
void Engine::copy_row(CopyBarrier& b, char* to, const char* from, int64_t there, const void* pc) {
  if (there > 0) note(from, there, Access::kRead, pc);
  note(to, 16, Access::kCopyIssued, pc, Proxy::kAsync);
  b.open.push_back({to, from, static_cast<int>(there), pc, current_, static_cast<int>(16 - there)});
}

// ---- What the checker hears
void Engine::note(const void* at, unsigned long bytes, Access kind, const void* pc, Proxy proxy) {
  if (!checker_ || finishing_ || current_ < 0 || stacks_.holds(stack_, at)) return;
  if (kind == Access::kRead && threads_[current_].multiplies) proxy = Proxy::kAsync;
  if (at >= &host_ && at < &host_ + 1) return;  // the words' own calls
  const NbEmuObject& o = *launch_.object;
  bool image = at >= o.image_begin && at < o.image_end && !(at >= o.shared_begin && at < o.shared_end);
  if (image && kind == Access::kRead) return;  // constants
  // What lies outside must not be touched: it may be anybody's.
  if (!checker_->access(current_, at, static_cast<int64_t>(bytes), kind, proxy, pc)) stop();
}

// ---- Blocks
void Engine::prepare_block(unsigned block) {
  const NbEmuObject& o = *launch_.object;
  position_.block = {block, 0, 0};
  if (o.shared_begin) std::memset(o.shared_begin, 0xff, o.shared_end - o.shared_begin);
  std::memset(dynamic_.data(), 0xff, dynamic_.size());
  threads_.assign(launch_.threads, Thread());
  warps_.clear();
  warps_.resize((launch_.threads + 31) / 32);
  if (launch_.threads % 32) warps_.back().exited = ~0u << launch_.threads % 32;
  waiting_.clear();
  copy_barriers_.clear();
  exit_reported_ = false;
  alive_ = static_cast<int>(launch_.threads);
  if (checker_) {
    char* dynamic = static_cast<char*>(position_.shared);
    checker_->begin_block(alive_, reinterpret_cast<char*>(o.shared_begin), reinterpret_cast<char*>(o.shared_end),
                          dynamic, dynamic + launch_.shared_bytes);
  }
  ready_.resize(launch_.threads);
  std::iota(ready_.begin(), ready_.end(), 0);
  shuffle_order(ready_);
  next_ready_ = 0;
}

void Engine::report_deadlock() {
  std::map<std::string, std::vector<int>> places;
  for (size_t t = 0; t < threads_.size(); ++t)
    if (threads_[t].state != State::kDone)
      places[fmt::format("{} at {}", threads_[t].word, lines_(threads_[t].pc))].push_back(static_cast<int>(t));
  std::string text = fmt::format("{} of {} threads wait for ever:", alive_, threads_.size());
  const void* pc = nullptr;
  for (const auto& [place, all] : places) {
    text += fmt::format(" {} in {} (thread {} first);", all.size(), place, all[0]);
    if (!pc) pc = threads_[all[0]].pc, set_current(all[0]);
  }
  text.pop_back();
  fault("deadlock", text, pc);
}

void Engine::run_block(unsigned block) {
  prepare_block(block);
  int first = ready_[next_ready_++];
  threads_[first].state = State::kReady;
  threads_[first].stack = stack_ = stacks_.take(&Engine::fiber);
  set_current(first);
  nb_fiber_switch(&main_, stacks_.context(stack_));
  if (checker_) checker_->end_block();
  if (!stopped_ && alive_ == 0) check_warpgroups();
  if (alive_ > 0 && !stopped_) report_deadlock();
  stopped_ |= alive_ > 0;
  current_ = -1;
}

void Engine::run(const Launch& launch, const Options& options, const Lines& lines, Checker* checker, Report& report) {
  std::lock_guard<std::mutex> lock(one_at_a_time_);
  launch_ = launch, options_ = options, lines_ = lines, checker_ = checker, report_ = &report;
  random_ = options.seed * 0x9E3779B97F4A7C15ull + 1;
  stopped_ = false;
  current_ = -1;
  position_.threads = {launch.threads, 1, 1};
  position_.blocks = {launch.blocks, 1, 1};
  if (launch.threads < 1 || launch.threads > kMostThreads || launch.blocks < 1)
    return fault("launch", fmt::format("{} blocks of {} threads", launch.blocks, launch.threads), nullptr);
  if (launch.shared_bytes > kMostShared)
    return fault("launch", fmt::format("{} bytes of shared memory for a block; no GPU has more than {}", launch.shared_bytes, kMostShared),
                 nullptr);
  dynamic_.resize(launch.shared_bytes + kTail + 1024);
  uintptr_t shared = (reinterpret_cast<uintptr_t>(dynamic_.data()) + 1023) / 1024 * 1024;
  position_.shared = launch.shared_bytes ? reinterpret_cast<void*>(shared) : nullptr;
  if (checker) checker->begin_launch(&report.traffic, options.count_warps);
  std::vector<int> blocks(launch.blocks);
  std::iota(blocks.begin(), blocks.end(), 0);
  shuffle_order(blocks);
  for (int block : blocks) {
    run_block(static_cast<unsigned>(block));
    if (stopped_) break;
  }
  stacks_.give_all();
}

}  // namespace nabla::emulator
