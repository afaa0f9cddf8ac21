#include "runtime/comm/local.h"

#include <sched.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <map>
#include <mutex>

#include "runtime/base/spin.h"
#include "runtime/comm/combine.h"
#include "runtime/comm/neighbours.h"
#include "runtime/format/program_check.h"

namespace nabla::comm {
namespace {

using Clock = std::chrono::steady_clock;
using format::CollectiveKind;

// How long a rank looks at a counter before it looks at those who move it, and how often it does both: a rank that computes for longer
// than all of it is not worth the time of a CPU.
constexpr int64_t kSpinNs = 20'000;
constexpr int kLooks = 50;

/// Counts only upwards: who waits for a number never misses it.
struct Counter {
  std::atomic<uint64_t> value{0};
  bool reached(uint64_t target) const { return value.load(std::memory_order_acquire) >= target; }
};

/// Who sleeps until a counter moves.
struct Bell {
  std::mutex mutex;
  std::condition_variable changed;
  void ring() {
    { std::lock_guard lock(mutex); }
    changed.notify_all();
  }
};

/// One collective that some members have started. Slots are used again, and counters go on.
struct Slot {
  std::vector<CollectiveCall> calls;  ///< by member
  Counter started, claimed, done;     ///< members; shares of the work, one per member
};

struct Group {
  std::string name;
  std::vector<uint32_t> members;  ///< ranks
  std::vector<Slot> slots;
  Bell bell;
};

/// What goes from one rank to another.
struct Mail {
  uint32_t from = 0, to = 0;
  struct Letter {
    std::vector<char> content;
    uint64_t bytes = 0;
  };
  std::vector<Letter> letters;  ///< the ring of those that were sent and not received; a sender does not wait for them
  Counter sent, received;
  Bell bell;
};

/// What others know of a rank.
struct alignas(64) Place {
  std::atomic<bool> ended{false};
  std::atomic<bool> asleep{false};                   ///< or about to be, until somebody moves a counter
  std::atomic<clockid_t> cpu_clock{CLOCK_MONOTONIC};  ///< of the thread that runs it
  std::atomic<int> cpu{-1};                          ///< where it last began to wait
  // The rank's own.
  int64_t looks_since_ns = 0;                ///< at its partners
  std::vector<int64_t> seen_ns;              ///< what their clocks have said
  clockid_t short_slices = CLOCK_MONOTONIC;  ///< of the thread that has asked for them
};

/// Goes to another CPU. Ranks that sleep and wake each other come to share one, and nobody but themselves would part them.
void leave(int cpu) {
  cpu_set_t all, others;
  if (sched_getaffinity(0, sizeof all, &all) != 0) return;
  others = all;
  CPU_CLR(cpu, &others);
  if (sched_setaffinity(0, sizeof others, &others) == 0) (void)sched_setaffinity(0, sizeof all, &all);
}

void copy(void* to, const void* from, uint64_t bytes) {
  if (bytes > 0) std::memcpy(to, from, bytes);
}

// Share `me` of a collective that all have started: what arrives at that member, or, where all get the same, a part.
void take_share(const Slot& slot, size_t me) {
  const CollectiveCall& mine = slot.calls[me];
  size_t n = slot.calls.size();
  auto* to = static_cast<char*>(mine.to);
  auto from = [&](size_t m) { return static_cast<const char*>(slot.calls[m].from); };
  uint64_t element = format::element_bytes(mine.dtype), part = mine.bytes / n;
  switch (mine.kind) {
    case CollectiveKind::AllReduce: {  // its share, for all
      std::vector<const void*> parts;
      std::vector<void*> all;
      for (const CollectiveCall& c : slot.calls) parts.push_back(c.from), all.push_back(c.to);
      auto count = static_cast<int64_t>(mine.bytes / element), members = static_cast<int64_t>(n),
           k = static_cast<int64_t>(me);
      return combine(mine.reduction, mine.dtype, parts, all, count * k / members, count * (k + 1) / members);
    }
    case CollectiveKind::ReduceScatter: {
      std::vector<const void*> parts;
      for (size_t m = 0; m < n; ++m) parts.push_back(from(m) + me * part);
      void* out[] = {to};
      return combine(mine.reduction, mine.dtype, parts, out, 0, static_cast<int64_t>(part / element));
    }
    case CollectiveKind::AllGather:
      for (size_t m = 0; m < n; ++m) copy(to + m * mine.bytes, from(m), mine.bytes);
      return;
    case CollectiveKind::AllToAll:
      for (size_t m = 0; m < n; ++m) copy(to + m * part, from(m) + me * part, part);
      return;
    case CollectiveKind::Permute:
      for (size_t m = 0; m < n; ++m)
        if (mine.targets[m] == static_cast<int32_t>(me)) return copy(to, from(m), mine.bytes);
      if (mine.bytes > 0) std::memset(to, 0, mine.bytes);
      return;
    case CollectiveKind::Broadcast:
      return copy(to, from(mine.root), mine.bytes);
  }
}

std::string str(const CollectiveCall& c) {
  return fmt::format("{} of {} bytes", format::EnumNameCollectiveKind(c.kind), c.bytes);
}

// Blocks refer only to those before them.
uint32_t in_flight(const format::Instructions* list, const std::vector<uint32_t>& of_block) {
  uint32_t next = 0, most = 0;
  std::map<uint32_t, uint32_t> open;  // by handle: which exchange of the list it is
  for (uint32_t i = 0; i < format::size_of(list); ++i) {
    const format::Instruction& at = *list->Get(i);
    if (format::communicates(at)) open[format::handle_of(at)] = next++;
    if (const format::Wait* wait = at.action_as_Wait()) open.erase(wait->handle());
    uint32_t first = next, inside = 0;
    for (const auto& [handle, number] : open) first = std::min(first, number);
    for (uint32_t block : format::blocks_of(at)) inside = std::max(inside, of_block[block]);
    most = std::max(most, next - first + inside);
  }
  return most;
}

}  // namespace

uint32_t in_flight(const format::Program& program) {
  std::vector<uint32_t> of_block;
  for (uint32_t b = 0; b < format::size_of(program.blocks()); ++b)
    of_block.push_back(in_flight(program.blocks()->Get(b)->instructions(), of_block));
  uint32_t most = 0;
  for (const format::Instructions* list : format::instructions_of(program))
    most = std::max(most, in_flight(list, of_block));
  return most;
}

struct LocalRanks::World {
  const format::Ranks& table;
  LocalOptions options;
  std::vector<std::unique_ptr<Group>> groups;
  std::vector<std::unique_ptr<Mail>> mails;
  std::vector<std::unique_ptr<Rank>> ranks;
  std::vector<uint32_t> here;       // all of them
  std::unique_ptr<Place[]> places;  // by rank
  // While other programs compete for the CPUs, a rank that spins uses up its own share of a CPU, and is stopped when the one that it
  // waits for has come: all ranks then sleep at once for a while, and try again.
  std::atomic<int64_t> sleep_until_ns{0};  ///< 0: they spin
  std::mutex losing;
  Losses losses;
  std::atomic<bool> failed{false};
  mutable std::mutex failing;
  std::optional<Diagnostic> failure;

  void fail(const Diagnostic& why) {
    {
      std::lock_guard lock(failing);
      if (!failure) failure = why;
    }
    failed.store(true, std::memory_order_release);
    for (auto& g : groups) g->bell.ring();
    for (auto& m : mails) m->bell.ring();
  }
  Diagnostic first_failure() const {
    std::lock_guard lock(failing);
    return *failure;
  }

  bool may_spin() {
    int64_t until = sleep_until_ns.load(std::memory_order_relaxed);
    if (!options.spin || until == 0) return options.spin;
    int64_t now = now_ns();
    if (now < until) return false;
    std::lock_guard lock(losing);
    sleep_until_ns.store(0, std::memory_order_relaxed);
    losses.resume(now);
    return true;
  }
  void note_loss(int64_t begin_ns) {
    std::lock_guard lock(losing);
    if (sleep_until_ns.load(std::memory_order_relaxed) != 0) return;  // another rank has lost the same time
    int64_t end = now_ns(), pause = losses.note(begin_ns, end);
    if (pause != 0) sleep_until_ns.store(end + pause, std::memory_order_relaxed);
  }

  enum class Seen { kThere, kNotYet, kStopped };
  /// Spins until the counter is there, at most as long as all partners that are not asleep have their CPUs.
  Seen look(const Counter& counter, uint64_t target, const std::vector<uint32_t>& partners, Place& own) {
    auto there = [&] { return counter.reached(target); };
    auto cpu_ns = [&](uint32_t r) { return read_clock(places[r].cpu_clock.load(std::memory_order_relaxed)); };
    if (spin_until(kSpinNs, there)) return Seen::kThere;
    own.looks_since_ns = now_ns();
    bool parted = false;
    for (int i = 1; i < kLooks; ++i) {
      own.seen_ns.clear();
      for (uint32_t r : partners) own.seen_ns.push_back(cpu_ns(r));
      int64_t begin = now_ns();
      if (spin_until(kSpinNs, there)) return Seen::kThere;
      int64_t passed = now_ns() - begin;
      bool stopped = false, together = false;
      int cpu = sched_getcpu();
      for (size_t p = 0; p < partners.size(); ++p) {
        const Place& other = places[partners[p]];
        if (other.asleep.load(std::memory_order_relaxed)) continue;
        stopped |= cpu_ns(partners[p]) - own.seen_ns[p] < passed / 2;
        together |= &other != &own && other.cpu.load(std::memory_order_relaxed) == cpu;
      }
      if (!stopped) continue;
      if (!together || parted) return Seen::kStopped;
      leave(cpu);
      parted = true;
    }
    return Seen::kNotYet;
  }

  /// Waits until the counter is there. `partners` are the ranks that move it, and may be the waiting one, `what` says what for.
  template <class What>
  Status await(uint32_t rank, Bell& bell, const Counter& counter, uint64_t target, const std::vector<uint32_t>& partners,
               const What& what) {
    if (counter.reached(target)) return Ok{};
    Place& own = places[rank];
    Seen seen = Seen::kNotYet;
    if (may_spin()) {
      seen = look(counter, target, partners, own);
      if (seen == Seen::kThere) return Ok{};
    } else if (clockid_t mine = own_cpu_clock(); own.short_slices != mine) {
      own.short_slices = mine;
      ask_for_short_slices();
    }
    own.asleep.store(true, std::memory_order_relaxed);
    Status status = sleep(bell, counter, target, partners, what);
    own.asleep.store(false, std::memory_order_relaxed);
    if (seen == Seen::kStopped) note_loss(own.looks_since_ns);
    return status;
  }
  template <class What>
  Status sleep(Bell& bell, const Counter& counter, uint64_t target, const std::vector<uint32_t>& partners, const What& what) {
    auto deadline = Clock::now() + std::chrono::duration<double>(options.deadline_s);
    std::unique_lock lock(bell.mutex);
    while (!counter.reached(target)) {
      if (failed.load(std::memory_order_acquire)) return first_failure();
      // A partner that has ended, and the counter not there when that was known: it will never be.
      auto gone = std::find_if(partners.begin(), partners.end(),
                               [&](uint32_t r) { return places[r].ended.load(std::memory_order_acquire); });
      bool late = Clock::now() >= deadline;
      if (gone == partners.end() && !late) {
        bell.changed.wait_until(lock, std::chrono::time_point_cast<Clock::duration>(deadline));
        continue;
      }
      if (counter.reached(target)) break;
      Diagnostic d = gone != partners.end()
                         ? error(Code::kRanksDiverge, "{}, and rank {} has ended", what(), *gone)
                         : error(Code::kTooLate, "{}, and they have not come in {} s", what(), options.deadline_s);
      lock.unlock();
      fail(d);
      return first_failure();
    }
    return Ok{};
  }
};

class LocalRanks::Rank final : public Communicator {
 public:
  Rank(World& world, uint32_t rank) : world_(world), rank_(rank) {}

  struct Member {
    Group* group = nullptr;
    size_t me = 0;
    uint64_t next = 0;  ///< how many collectives it has started
  };
  std::vector<Member> groups;  ///< of its class
  struct Channel {
    Mail* mail = nullptr;
    uint64_t next = 0;
  };
  std::vector<Channel> channels;

  void forget() {
    pending_.clear();
    for (Member& m : groups) m.next = 0;
    for (Channel& c : channels) c.next = 0;
  }

  Status start(uint32_t ticket, const CollectiveCall& call) override {
    Member& m = groups[call.group];
    Slot& slot = m.group->slots[m.next % m.group->slots.size()];
    slot.calls[m.me] = call;
    add(slot.started, m.group->bell, m.group->members.size());
    pending_.push_back({ticket, Pending::kCollective, call.group, m.next++, nullptr, 0});
    return Ok{};
  }
  Status send(uint32_t ticket, uint32_t channel, const void* from, uint64_t bytes, const format::Instruction*) override {
    Channel& c = channels[channel];
    Mail& m = *c.mail;
    uint64_t number = c.next++, room = m.letters.size();
    auto what = [&] { return fmt::format("rank {} waits until rank {} has read {} messages", rank_, m.to, room); };
    if (number >= room) (void)NABLA_TRY(world_.await(rank_, m.bell, m.received, number + 1 - room, {m.to, rank_}, what));
    Mail::Letter& letter = m.letters[number % room];
    if (letter.content.size() < bytes) letter.content.resize(bytes);
    letter.bytes = bytes;
    copy(letter.content.data(), from, bytes);
    add(m.sent, m.bell);
    pending_.push_back({ticket, Pending::kSend, channel, number, nullptr, bytes});
    return Ok{};
  }
  Status recv(uint32_t ticket, uint32_t channel, void* to, uint64_t bytes, const format::Instruction*) override {
    pending_.push_back({ticket, Pending::kRecv, channel, channels[channel].next++, to, bytes});
    return Ok{};
  }

  Status wait(uint32_t ticket) override {
    auto found = std::find_if(pending_.begin(), pending_.end(), [&](const Pending& p) { return p.ticket == ticket; });
    NABLA_CHECK(found != pending_.end(), "rank {} waits for {}, which it has not started", rank_, ticket);
    Pending p = *found;
    pending_.erase(found);
    std::atomic<clockid_t>& clock = world_.places[rank_].cpu_clock;
    if (clock.load(std::memory_order_relaxed) == CLOCK_MONOTONIC) clock.store(own_cpu_clock(), std::memory_order_relaxed);
    world_.places[rank_].cpu.store(sched_getcpu(), std::memory_order_relaxed);
    if (p.kind == Pending::kSend) return Ok{};  // it lies in the ring
    return p.kind == Pending::kCollective ? wait_collective(p) : wait_recv(p);
  }
  uint32_t members(uint32_t group) const override { return static_cast<uint32_t>(groups[group].group->members.size()); }

 private:
  struct Pending {
    uint32_t ticket;
    enum Kind { kCollective, kSend, kRecv } kind;
    uint32_t index;   // of the group or the channel
    uint64_t number;  // from 0
    void* to;
    uint64_t bytes;
  };

  // Nobody sleeps for less than a multiple of `all`.
  static void add(Counter& counter, Bell& bell, uint64_t all = 1) {
    if ((counter.value.fetch_add(1, std::memory_order_acq_rel) + 1) % all == 0) bell.ring();
  }

  // Whoever waits does what is left to do: nobody depends on a member that waits elsewhere.
  Status wait_collective(const Pending& p) {
    Member& m = groups[p.index];
    Group& g = *m.group;
    Slot& slot = g.slots[p.number % g.slots.size()];
    uint64_t n = g.members.size(), before = n * (p.number / g.slots.size()), all = before + n;
    auto what = [&] {
      return fmt::format("rank {} waits in {} for the others of group {}", rank_, str(slot.calls[m.me]), g.name);
    };
    (void)NABLA_TRY(world_.await(rank_, g.bell, slot.started, all, g.members, what));
    // Until its share is done the slot stays as it is; who has none does not look into it.
    for (uint64_t k = slot.claimed.value.load(); k < all;) {
      if (!slot.claimed.value.compare_exchange_weak(k, k + 1)) continue;
      (void)NABLA_TRY(check_same(g, slot));
      take_share(slot, k - before);
      add(slot.done, g.bell, n);
      k = slot.claimed.value.load();
    }
    return world_.await(rank_, g.bell, slot.done, all, g.members, what);
  }

  Status check_same(const Group& g, const Slot& slot) {
    const CollectiveCall& first = slot.calls[0];
    for (size_t o = 1; o < slot.calls.size(); ++o) {
      const CollectiveCall& other = slot.calls[o];
      if (other.kind == first.kind && other.bytes == first.bytes && other.dtype == first.dtype &&
          other.reduction == first.reduction)
        continue;
      world_.fail(error(Code::kRanksDiverge, "rank {} comes to {}, rank {} of its group {} to {}", g.members[0],
                        str(first), g.members[o], g.name, str(other)));
      return world_.first_failure();
    }
    return Ok{};
  }

  Status wait_recv(const Pending& p) {
    Mail& m = *channels[p.index].mail;
    auto what = [&] {
      return fmt::format("rank {} waits for a message of {} bytes of rank {}", rank_, p.bytes, m.from);
    };
    (void)NABLA_TRY(world_.await(rank_, m.bell, m.sent, p.number + 1, {m.from, rank_}, what));
    const Mail::Letter& letter = m.letters[p.number % m.letters.size()];
    if (letter.bytes != p.bytes) {
      world_.fail(error(Code::kRanksDiverge, "rank {} sends {} bytes to rank {}, which expects {}", m.from,
                        letter.bytes, m.to, p.bytes));
      return world_.first_failure();
    }
    copy(p.to, letter.content.data(), p.bytes);
    add(m.received, m.bell);
    return Ok{};
  }

  World& world_;
  uint32_t rank_;
  std::vector<Pending> pending_;  // a few
};

LocalRanks::LocalRanks(const format::Ranks& ranks, const LocalOptions& options)
    : world_(new World{.table = ranks, .options = options}) {
  World& w = *world_;
  w.places.reset(new Place[ranks.count()]);
  uint32_t slots = 1;
  for (uint32_t n : options.in_flight) slots = std::max(slots, n);
  for (uint32_t r = 0; r < ranks.count(); ++r) w.ranks.push_back(std::make_unique<Rank>(w, r));
  // A group of the table divides all ranks; those of a class that does not name it are no members of theirs.
  std::map<std::pair<uint32_t, uint32_t>, Group*> group_of;  // by group of the table, and its first rank
  std::map<std::pair<uint32_t, uint32_t>, Mail*> mail_of;    // by receiver, and its channel
  for (uint32_t r = 0; r < ranks.count(); ++r) {
    w.here.push_back(r);
    Neighbours neighbours = neighbours_of(ranks, r);
    for (Neighbours::Group& of : neighbours.groups) {
      Group*& group = group_of[{of.index, of.members[0]}];
      if (!group) {
        w.groups.push_back(std::make_unique<Group>());
        group = w.groups.back().get();
        group->name = of.name, group->members = std::move(of.members);
        group->slots = std::vector<Slot>(slots);
        for (Slot& s : group->slots) s.calls.resize(group->members.size());
      }
      w.ranks[r]->groups.push_back({group, of.me});
    }
    for (const Neighbours::Channel& of : neighbours.channels) {
      Mail*& mail = mail_of[{of.sends ? of.peer : r, of.number}];
      if (!mail) {
        w.mails.push_back(std::make_unique<Mail>());
        mail = w.mails.back().get();
        mail->from = of.sends ? r : of.peer, mail->to = of.sends ? of.peer : r;
        mail->letters.resize(slots);
      }
      w.ranks[r]->channels.push_back({mail});
    }
  }
}

LocalRanks::~LocalRanks() = default;

const std::vector<uint32_t>& LocalRanks::here() const { return world_->here; }
Communicator& LocalRanks::rank(uint32_t rank) { return *world_->ranks[rank]; }

void LocalRanks::begin() {
  World& w = *world_;
  for (uint32_t r = 0; r < w.ranks.size(); ++r) {
    w.places[r].ended.store(false, std::memory_order_relaxed);
    w.places[r].cpu_clock.store(CLOCK_MONOTONIC, std::memory_order_relaxed);
  }
  if (!w.failed.load()) return;
  w.failure.reset();
  w.failed.store(false);
  for (auto& r : w.ranks) r->forget();
  for (auto& g : w.groups)
    for (Slot& s : g->slots) s.started.value = 0, s.claimed.value = 0, s.done.value = 0;
  for (auto& m : w.mails) m->sent.value = 0, m->received.value = 0;
}

void LocalRanks::end(uint32_t rank, const Status& status) {
  if (!status.ok()) world_->fail(status.errors()[0]);
  world_->places[rank].ended.store(true, std::memory_order_release);
  for (auto& m : world_->ranks[rank]->groups) m.group->bell.ring();
  for (auto& c : world_->ranks[rank]->channels) c.mail->bell.ring();
}

std::optional<Diagnostic> LocalRanks::failure() const {
  std::lock_guard lock(world_->failing);
  return world_->failure;
}

}  // namespace nabla::comm
