#include "runtime/comm/peers.h"

#include <sched.h>

#include <algorithm>
#include <bit>
#include <chrono>
#include <cstring>

#include "runtime/comm/block_rounds.h"
#include "runtime/comm/combine.h"
#include "runtime/comm/neighbours.h"
#include "runtime/comm/one_rank.h"
#include "runtime/comm/traffic.h"
#include "runtime/format/collective.h"
#include "runtime/format/program_check.h"

namespace nabla::comm {
namespace {

using Clock = std::chrono::steady_clock;
using format::CollectiveKind;
using Request = Transport::Request;

constexpr uint64_t kWhole = 16 << 10;   // up to so many bytes every member combines all by itself: one message less in a row
constexpr uint64_t kPiece = 256 << 10;  // of what a member combines: while one is combined, the next is under way
constexpr uint32_t kWindow = 4;         // pieces that are under way
constexpr uint64_t kGathered = 4 << 20; // so much a member may have of all others together
// A message costs as much as 20 KB of bandwidth do (2 us, 10 GB/s). Up to these sizes fewer messages are worth more bytes.
constexpr uint64_t kSummed = 128 << 10; // of all members' values together, if every member combines them
constexpr uint64_t kBlock = 2 << 10;    // of what a member sends to one other member
constexpr size_t kTests = 64;           // of requests, one look at an exchange: to test all for each that is done would be quadratic
constexpr int kLooks = 2000;            // before a waiting rank leaves its CPU to others

void copy(void* to, const void* from, uint64_t bytes) {
  if (bytes > 0 && to != from) std::memcpy(to, from, bytes);
}

/// Elements [begin, end).
struct Range {
  int64_t begin = 0, end = 0;
  int64_t size() const { return end - begin; }
  Range part(uint64_t k, uint64_t of) const {
    auto at = [&](uint64_t i) { return begin + static_cast<int64_t>(static_cast<uint64_t>(size()) * i / of); };
    return {at(k), at(k + 1)};
  }
};

/// A request under way, and what it is for.
struct Open {
  enum Role : uint8_t { kPlain, kPart, kPartSent };
  Request request = 0;
  uint32_t peer = 0;    ///< a rank
  uint32_t member = 0;  ///< its place in the group; of kPartSent
  Role role = kPlain;
  bool comes = false;
  uint32_t piece = 0;
};

/// What was started. Objects are used again, so that a step allocates nothing when its programs have run once.
struct Exchange {
  bool busy = false, awaited = false;  ///< awaited: nobody asks for it any more
  uint32_t ticket = 0;
  CollectiveCall call;
  const Neighbours::Group* group = nullptr;  ///< of a collective
  uint32_t channel = 0;                      ///< of a message
  uint32_t tag = 0;
  std::vector<Open> open;
  size_t cursor = 0;       ///< where the next look at `open` begins
  // ---- In rounds, each of which begins when the one before is over
  uint32_t round = 0, rounds = 0;
  std::vector<char> room;  ///< messages that came and are to be combined; a message that is sent
  BlockRounds blocks;
  uint32_t block_rounds = 0;  ///< the first rounds exchange blocks
  uint64_t width = 0;         ///< the other rounds gather this number of bytes of each member
  // ---- Of a reduction
  bool whole = false;  ///< every member combines all
  uint32_t pieces = 0, posted = 0;
  /// Of the pieces in the window: messages without which it is not combined, and one more until it is.
  uint32_t missing[kWindow] = {};

  bool reduces() const {
    return group != nullptr && format::def_of(call.kind).combines;
  }
  uint64_t members() const { return group->members.size(); }
  int64_t element() const { return static_cast<int64_t>(format::element_bytes(call.dtype)); }
  /// What a member combines.
  Range share(uint64_t member) const {
    Range all{0, static_cast<int64_t>(call.bytes) / element()};
    return whole ? all : all.part(member, members());
  }
  Range piece(uint64_t member, uint32_t p) const { return share(member).part(p, pieces); }
};

class Rank final : public Communicator {
 public:
  Rank(Neighbours neighbours, std::shared_ptr<Transport> transport, const PeerOptions& options)
      : neighbours_(std::move(neighbours)), transport_(std::move(transport)), options_(options), me_(transport_->rank()) {
    next_.assign(neighbours_.groups.size(), 0);
  }

  uint32_t number() const { return me_; }
  std::optional<Diagnostic> failure() const { return failure_; }

  Status start(uint32_t ticket, const CollectiveCall& call) override {
    Exchange& e = fresh(ticket);
    e.call = call, e.group = &neighbours_.groups[call.group];
    uint64_t number = next_[call.group]++;
    e.tag = tag_of(static_cast<uint32_t>(call.kind), e.group->index, static_cast<uint32_t>(number));
    if (in_rounds(e)) return kept(begin_rounds(e));
    return kept(e.reduces() ? begin_reduction(e) : begin_copies(e));
  }

  Status send(uint32_t ticket, uint32_t channel, const void* from, uint64_t bytes, const format::Instruction*) override {
    (void)NABLA_TRY(room_in(channel));
    const Neighbours::Channel& c = neighbours_.channels[channel];
    Exchange& e = fresh(ticket);
    e.channel = channel, e.call.bytes = bytes, e.tag = message_tag(c.number);
    if (e.room.size() < bytes) e.room.resize(bytes);
    copy(e.room.data(), from, bytes);
    return kept(send_to(e, c.peer, e.tag, e.room.data(), bytes));
  }
  Status recv(uint32_t ticket, uint32_t channel, void* to, uint64_t bytes, const format::Instruction*) override {
    const Neighbours::Channel& c = neighbours_.channels[channel];
    Exchange& e = fresh(ticket);
    e.channel = channel, e.call.bytes = bytes, e.tag = message_tag(c.number);
    return kept(recv_from(e, c.peer, e.tag, to, bytes));
  }

  Status wait(uint32_t ticket) override {
    auto found = std::find_if(exchanges_.begin(), exchanges_.end(),
                              [&](const auto& e) { return e->busy && !e->awaited && e->ticket == ticket; });
    NABLA_CHECK(found != exchanges_.end(), "rank {} waits for {}, which it has not started", me_, ticket);
    Exchange& e = **found;
    e.awaited = true;
    bool sends = e.group == nullptr && neighbours_.channels[e.channel].sends;
    if (sends) return failure_ ? Status(*failure_) : Ok{};  // it lies in the exchange's own room
    (void)NABLA_TRY(await(e));
    e.busy = false;
    return Ok{};
  }

  uint32_t members(uint32_t group) const override {
    return static_cast<uint32_t>(neighbours_.groups[group].members.size());
  }

  Status pass(uint32_t from, uint32_t to, void* data, uint64_t bytes) {
    if (from == to || (me_ != from && me_ != to)) return Ok{};
    Exchange& e = fresh(UINT32_MAX);
    e.awaited = true, e.call.bytes = bytes, e.tag = kPassTag;
    (void)NABLA_TRY(kept(me_ == from ? send_to(e, to, e.tag, data, bytes) : recv_from(e, from, e.tag, data, bytes)));
    (void)NABLA_TRY(await(e));
    e.busy = false;
    return Ok{};
  }

  /// Nothing is under way when it returns.
  void end(const Status& status) {
    if (!status.ok() && !failure_) failure_ = status.errors()[0];
    for (auto& e : exchanges_)
      if (e->busy && !failure_) (void)await(*e);
  }

 private:
  // Collectives of one group have its kind and number; those of another kind never meet. Of a reduction's pieces, eight
  // numbers and the way back: no more of them are under way.
  static uint32_t tag_of(uint32_t kind, uint32_t group, uint32_t number) {
    return kind << 26 | (group & 0x3FFF) << 12 | (number & 0xFF);
  }
  static uint32_t part_tag(const Exchange& e, uint32_t piece) { return e.tag | (piece & 7) << 8; }
  static uint32_t result_tag(const Exchange& e, uint32_t piece) { return part_tag(e, piece) | 1u << 11; }
  static uint32_t message_tag(uint32_t channel) { return 7u << 26 | (channel & 0x3FFFFFF); }
  static constexpr uint32_t kPassTag = 6u << 26;

  Exchange& fresh(uint32_t ticket) {
    auto found = std::find_if(exchanges_.begin(), exchanges_.end(), [](const auto& e) { return !e->busy; });
    if (found == exchanges_.end()) found = exchanges_.insert(found, std::make_unique<Exchange>());
    Exchange& e = **found;
    e.busy = true, e.awaited = false, e.ticket = ticket, e.call = {}, e.group = nullptr, e.pieces = e.posted = 0;
    e.open.clear(), e.cursor = 0, e.round = e.rounds = e.block_rounds = 0, e.whole = false;
    return e;
  }

  // The first failure is that of all that follows.
  Status kept(Status status) {
    if (failure_) return *failure_;
    if (!status.ok()) failure_ = status.errors()[0];
    return status;
  }

  Status send_to(Exchange& e, uint32_t peer, uint32_t tag, const void* from, uint64_t bytes, Open as = {}) {
    return each_part(bytes, [&](uint64_t at, uint64_t size) -> Status {
      as.request = NABLA_TRY(transport_->send(peer, tag, static_cast<const char*>(from) + at, size));
      as.peer = peer, as.comes = false;
      e.open.push_back(as);
      return Ok{};
    });
  }
  Status recv_from(Exchange& e, uint32_t peer, uint32_t tag, void* to, uint64_t bytes, Open as = {}) {
    return each_part(bytes, [&](uint64_t at, uint64_t size) -> Status {
      as.request = NABLA_TRY(transport_->recv(peer, tag, static_cast<char*>(to) + at, size));
      as.peer = peer, as.comes = true;
      e.open.push_back(as);
      return Ok{};
    });
  }
  // Of what is larger than a message can be. Nothing is no message.
  template <class F>
  static Status each_part(uint64_t bytes, const F& f) {
    for (uint64_t at = 0; at < bytes; at += Transport::kMostBytes)
      (void)NABLA_TRY(f(at, std::min(bytes - at, Transport::kMostBytes)));
    return Ok{};
  }

  // ---- Rounds: log2(members) messages one after the other, where each member would send one to every other

  bool in_rounds(const Exchange& e) const {
    if (e.members() <= options_.few) return false;
    return e.call.kind == CollectiveKind::Broadcast || gathers(e) || in_blocks(e);
  }
  static bool gathers(const Exchange& e) {
    const uint64_t all = e.call.bytes * e.members();
    return e.call.bytes <= kWhole && ((e.call.kind == CollectiveKind::AllGather && all <= kGathered) ||
                                      (e.call.kind == CollectiveKind::AllReduce && all <= kSummed));
  }
  static bool in_blocks(const Exchange& e) {
    const bool equal = e.call.bytes % (e.members() * static_cast<uint64_t>(e.element())) == 0;
    return (e.reduces() || (e.call.kind == CollectiveKind::AllToAll && equal)) && block_bytes(e) <= kBlock;
  }
  /// Of the largest share: the last one is.
  static uint64_t block_bytes(const Exchange& e) { return bytes_of(e, e.share(e.members() - 1)); }

  // A broadcast receives, and its only round sends on. If members gather, `room` has the value of member me + i at place i, of which the
  // first 2^k are there after k rounds. A large reduction first exchanges the shares that each member combines, and then gathers the
  // results. Values are combined when all are there, in the order of the members, as everywhere.
  Status begin_rounds(Exchange& e) {
    const CollectiveCall& c = e.call;
    const uint32_t n = static_cast<uint32_t>(e.members()), me = e.group->me;
    if (c.kind == CollectiveKind::Broadcast) {
      e.rounds = 1;
      const uint32_t place = (me + n - c.root) % n;
      if (place == 0)
        copy(c.to, c.from, c.bytes);
      else
        (void)NABLA_TRY(recv_from(e, e.group->members[((place & (place - 1)) + c.root) % n], e.tag, c.to, c.bytes));
      return go_on(e);
    }
    const bool first_blocks = !gathers(e);
    e.width = first_blocks ? block_bytes(e) : c.bytes;
    e.blocks.begin(n, me, first_blocks ? e.width : 0);
    e.block_rounds = first_blocks ? e.blocks.rounds() : 0;
    e.rounds = !first_blocks || c.kind == CollectiveKind::AllReduce ? e.block_rounds + e.blocks.rounds() : e.block_rounds;
    if (e.rounds > e.block_rounds && e.room.size() < n * e.width) e.room.resize(n * e.width);
    if (!first_blocks) copy(e.room.data(), c.from, c.bytes);
    for (uint32_t m = 0; first_blocks && m < n; ++m) copy(e.blocks.to_member(m), own(e, e.share(m)), bytes_of(e, e.share(m)));
    return go_on(e);
  }
  Status go_on(Exchange& e) {
    while (e.open.empty() && e.round < e.rounds) (void)NABLA_TRY(begin_round(e, e.round++));
    if (e.open.empty() && e.rounds > 0 && e.round == e.rounds) end_rounds(e), e.round = e.rounds = 0;
    return Ok{};
  }
  Status begin_round(Exchange& e, uint32_t round) {
    const CollectiveCall& c = e.call;
    const std::vector<uint32_t>& members = e.group->members;
    const uint32_t n = static_cast<uint32_t>(members.size()), me = e.group->me;
    if (c.kind == CollectiveKind::Broadcast) {
      // A binomial tree: a child's place is its parent's with one more bit set, below the parent's lowest bit. The largest subtree is
      // sent first.
      const uint32_t place = (me + n - c.root) % n;
      uint32_t below = place == 0 ? std::bit_ceil(n) : place & (~place + 1);
      while ((below /= 2) > 0)
        if (place + below < n) (void)NABLA_TRY(send_to(e, members[(place + below + c.root) % n], e.tag, c.to, c.bytes));
      return Ok{};
    }
    if (round > 0 && round <= e.block_rounds) e.blocks.end_round(round - 1);
    if (round < e.block_rounds) {
      e.blocks.begin_round(round);
      (void)NABLA_TRY(recv_from(e, members[e.blocks.sender(round)], e.tag, e.blocks.received(), e.blocks.message_bytes()));
      return send_to(e, members[e.blocks.receiver(round)], e.tag, e.blocks.sent(), e.blocks.message_bytes());
    }
    if (round > 0 && round == e.block_rounds) combine_blocks(e, e.room.data());
    const uint32_t distance = 1u << (round - e.block_rounds);
    const uint64_t bytes = std::min(distance, n - distance) * e.width;
    (void)NABLA_TRY(recv_from(e, members[(me + distance) % n], e.tag, e.room.data() + distance * e.width, bytes));
    return send_to(e, members[(me + n - distance) % n], e.tag, e.room.data(), bytes);
  }
  void combine_blocks(Exchange& e, void* to) {
    parts_.clear();
    for (uint32_t m = 0; m < e.members(); ++m) parts_.push_back(e.blocks.from_member(m));
    combine(e.call.reduction, e.call.dtype, parts_, {&to, 1}, 0, e.share(e.group->me).size());
  }
  void end_rounds(Exchange& e) {
    const CollectiveCall& c = e.call;
    if (c.kind == CollectiveKind::Broadcast) return;
    const uint32_t n = static_cast<uint32_t>(e.members()), me = e.group->me;
    auto* to = static_cast<char*>(c.to);
    if (e.rounds == e.block_rounds) e.blocks.end_round(e.rounds - 1);
    if (e.rounds == e.block_rounds && e.reduces()) return combine_blocks(e, c.to);
    parts_.clear();
    for (uint32_t m = 0; m < n; ++m) parts_.push_back(e.rounds == e.block_rounds ? e.blocks.from_member(m) : place_of(e, (m + n - me) % n));
    void* out[] = {c.to};
    if (c.kind == CollectiveKind::AllReduce && e.block_rounds == 0)
      combine(c.reduction, c.dtype, parts_, out, 0, static_cast<int64_t>(c.bytes) / e.element());
    else if (c.kind == CollectiveKind::AllGather)
      for (uint32_t m = 0; m < n; ++m) copy(to + m * c.bytes, parts_[m], c.bytes);
    else
      for (uint32_t m = 0; m < n; ++m) copy(to + e.share(m).begin * e.element(), parts_[m], bytes_of(e, e.share(m)));
  }
  static const char* place_of(const Exchange& e, uint32_t place) { return e.room.data() + place * e.width; }

  Status begin_copies(Exchange& e) {
    const CollectiveCall& c = e.call;
    const std::vector<uint32_t>& members = e.group->members;
    uint32_t me = e.group->me;
    uint64_t part = c.bytes / members.size();
    auto* from = static_cast<const char*>(c.from);
    auto* to = static_cast<char*>(c.to);
    switch (c.kind) {
      case CollectiveKind::AllGather:
        for (uint32_t m = 0; m < members.size(); ++m)
          if (m != me) (void)NABLA_TRY(recv_from(e, members[m], e.tag, to + m * c.bytes, c.bytes));
        for (uint32_t m = 0; m < members.size(); ++m)
          if (m != me) (void)NABLA_TRY(send_to(e, members[m], e.tag, from, c.bytes));
        copy(to + me * c.bytes, from, c.bytes);
        return Ok{};
      case CollectiveKind::AllToAll:
        for (uint32_t m = 0; m < members.size(); ++m)
          if (m != me) (void)NABLA_TRY(recv_from(e, members[m], e.tag, to + m * part, part));
        for (uint32_t m = 0; m < members.size(); ++m)
          if (m != me) (void)NABLA_TRY(send_to(e, members[m], e.tag, from + m * part, part));
        copy(to + me * part, from + me * part, part);
        return Ok{};
      case CollectiveKind::Permute: {
        bool found = false;
        for (uint32_t m = 0; m < members.size(); ++m) {
          if (c.targets[m] != static_cast<int32_t>(me)) continue;
          found = true;
          if (m == me)
            copy(to, from, c.bytes);
          else
            (void)NABLA_TRY(recv_from(e, members[m], e.tag, to, c.bytes));
        }
        int32_t target = c.targets[me];
        if (target >= 0 && static_cast<uint32_t>(target) != me)
          (void)NABLA_TRY(send_to(e, members[static_cast<size_t>(target)], e.tag, from, c.bytes));
        if (!found && c.bytes > 0) std::memset(to, 0, c.bytes);
        return Ok{};
      }
      case CollectiveKind::Broadcast:
        if (me != c.root) return recv_from(e, members[c.root], e.tag, to, c.bytes);
        for (uint32_t m = 0; m < members.size(); ++m)
          if (m != me) (void)NABLA_TRY(send_to(e, members[m], e.tag, from, c.bytes));
        copy(to, from, c.bytes);
        return Ok{};
      default:
        NABLA_CHECK(false, "a reduction is no copy");
        return Ok{};
    }
  }

  Status begin_reduction(Exchange& e) {
    uint64_t n = e.members();
    e.whole = e.call.kind == CollectiveKind::AllReduce && e.call.bytes * (n - 1) <= kWhole;
    uint64_t largest = static_cast<uint64_t>(e.share(n - 1).size() * e.element());
    e.pieces = static_cast<uint32_t>(std::max<uint64_t>(1, (largest + kPiece - 1) / kPiece));
    uint64_t room = piece_room(e) * n * std::min(e.pieces, kWindow);
    if (e.room.size() < room) e.room.resize(room);
    std::fill(std::begin(e.missing), std::end(e.missing), 0);
    return post_pieces(e);
  }

  // As many as the window has room for, in their order.
  Status post_pieces(Exchange& e) {
    while (e.posted < e.pieces && e.missing[e.posted % kWindow] == 0) {
      uint32_t p = e.posted++;
      (void)NABLA_TRY(post(e, p));
      if (--e.missing[p % kWindow] == 0) (void)NABLA_TRY(combined(e, p));  // a group of one, or nothing to combine here
    }
    return Ok{};
  }

  // Of the largest piece: shares differ by an element, and so do pieces.
  static uint64_t piece_room(const Exchange& e) {
    int64_t most = e.share(e.members() - 1).size() / e.pieces + 2;
    return static_cast<uint64_t>(most * e.element());
  }
  static char* place(Exchange& e, uint32_t piece, uint64_t member) {
    return e.room.data() + ((piece % kWindow) * e.members() + member) * piece_room(e);
  }
  static const char* own(const Exchange& e, Range r) { return static_cast<const char*>(e.call.from) + r.begin * e.element(); }
  static uint64_t bytes_of(const Exchange& e, Range r) { return static_cast<uint64_t>(r.size() * e.element()); }

  // Asks for a piece of what this member combines, and sends those of the others.
  Status post(Exchange& e, uint32_t p) {
    uint32_t me = e.group->me, &missing = e.missing[p % kWindow];
    const std::vector<uint32_t>& members = e.group->members;
    missing = 1;
    Range mine = e.piece(me, p);
    for (uint32_t m = 0; m < members.size(); ++m) {
      if (m == me || mine.size() == 0) continue;
      ++missing;
      (void)NABLA_TRY(recv_from(e, members[m], part_tag(e, p), place(e, p, m), bytes_of(e, mine),
                                {.role = Open::kPart, .piece = p}));
    }
    for (uint32_t m = 0; m < members.size(); ++m) {
      Range theirs = e.piece(m, p);
      if (m == me || theirs.size() == 0) continue;
      // In place, what was sent must have left before the result is written over it.
      if (e.whole && e.call.from == e.call.to) ++missing;
      (void)NABLA_TRY(send_to(e, members[m], part_tag(e, p), own(e, theirs), bytes_of(e, theirs),
                              {.member = m, .role = Open::kPartSent, .piece = p}));
    }
    return Ok{};
  }

  // All of piece `p` has come.
  Status combined(Exchange& e, uint32_t p) {
    const std::vector<uint32_t>& members = e.group->members;
    uint32_t me = e.group->me;
    Range mine = e.piece(me, p);
    bool all = e.call.kind == CollectiveKind::AllReduce;
    char* to = static_cast<char*>(e.call.to) + (all ? mine.begin : mine.begin - e.share(me).begin) * e.element();
    if (mine.size() > 0) {
      parts_.clear();
      for (uint32_t m = 0; m < members.size(); ++m) parts_.push_back(m == me ? own(e, mine) : place(e, p, m));
      void* out[] = {to};
      combine(e.call.reduction, e.call.dtype, parts_, out, 0, mine.size());
    }
    if (all && !e.whole)
      for (uint32_t m = 0; m < members.size(); ++m)
        if (m != me) (void)NABLA_TRY(send_to(e, members[m], result_tag(e, p), to, bytes_of(e, mine)));
    return Ok{};
  }

  Status done(Exchange& e, const Open& o) {
    if (o.role == Open::kPlain) return Ok{};
    bool all = e.call.kind == CollectiveKind::AllReduce;
    // The member's result comes to where the part that went to it has left.
    if (o.role == Open::kPartSent && all && !e.whole) {
      Range theirs = e.piece(o.member, o.piece);
      char* to = static_cast<char*>(e.call.to) + theirs.begin * e.element();
      return recv_from(e, o.peer, result_tag(e, o.piece), to, bytes_of(e, theirs));
    }
    bool counts = o.role == Open::kPart || (e.whole && e.call.from == e.call.to);
    if (!counts || --e.missing[o.piece % kWindow] > 0) return Ok{};
    (void)NABLA_TRY(combined(e, o.piece));
    return post_pieces(e);
  }

  // Takes every exchange as far as it goes now.
  Status progress() {
    for (size_t x = 0; x < exchanges_.size(); ++x) {
      Exchange& e = *exchanges_[x];
      if (!e.busy) continue;
      for (size_t looks = std::min(e.open.size(), kTests); looks > 0 && !e.open.empty(); --looks) {
        if (e.cursor >= e.open.size()) e.cursor = 0;
        Open o = e.open[e.cursor];
        Result<bool> over = transport_->test(o.request);
        if (!over.ok()) return explained(e, over.errors()[0]);
        if (!*over) {
          ++e.cursor;
          continue;
        }
        e.open[e.cursor] = e.open.back();
        e.open.pop_back();
        (void)NABLA_TRY(done(e, o));
      }
      (void)NABLA_TRY(go_on(e));
      if (e.awaited && settled(e) && &e != awaiting_) e.busy = false;
    }
    return Ok{};
  }
  static bool settled(const Exchange& e) { return e.open.empty() && e.posted == e.pieces && e.rounds == 0; }

  // Until it is settled.
  Status await(Exchange& e) {
    awaiting_ = &e;
    double allowed = allowed_s(options_.deadline_s, e.call.bytes);
    std::optional<Clock::time_point> deadline;  // a clock costs more than most waits
    for (int64_t look = 1;; ++look) {
      if (failure_) return *failure_;
      (void)NABLA_TRY(kept(progress()));
      if (settled(e)) return Ok{};
      // It may not have another second, and between two looks others may compute for long.
      if (options_.ended && *options_.ended != 0)
        return kept(error(Code::kPeerLost, "{}, and is told to end (SIGTERM), as launchers do when another rank has ended", what(e)));
      if (options_.yield) sched_yield();
      if (look % (options_.yield ? 64 : kLooks) != 0) continue;
      if (options_.verdict)
        if (std::optional<Diagnostic> why = options_.verdict()) return kept(*why);
      if (!deadline)
        deadline = Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(allowed));
      else if (Clock::now() > *deadline)
        return kept(late(e, allowed));
    }
  }

  // "rank 1 waits in all_reduce of 4 bytes of group dp for ranks 0, 2"
  std::string what(const Exchange& e) const {
    std::vector<uint32_t> named;
    for (const Open& o : e.open)
      if (o.comes && std::count(named.begin(), named.end(), o.peer) == 0) named.push_back(o.peer);
    std::string ranks;
    for (size_t i = 0; i < named.size(); ++i)
      ranks += fmt::format("{}{}", i > 0 ? ", " : named.size() > 1 ? " for ranks " : " for rank ", named[i]);
    if (e.group == nullptr) return fmt::format("rank {} waits with a message of {} bytes{}", me_, e.call.bytes, ranks);
    return fmt::format("rank {} waits in {} of {} bytes of group {}{}", me_, format::def_of(e.call.kind).name, e.call.bytes,
                       e.group->name, ranks);
  }
  Diagnostic late(const Exchange& e, double allowed) const {
    Diagnostic d = error(Code::kTooLate, "{}, and nothing came in {:.1f} s", what(e), allowed);
    d.help = options_.late_help;
    return d;
  }
  Diagnostic explained(const Exchange& e, Diagnostic d) const {
    d.notes.push_back(what(e));
    return d;
  }

  // A sender is ahead of the receiver by so many messages at most.
  Status room_in(uint32_t channel) {
    for (;;) {
      uint32_t count = 0;
      Exchange* oldest = nullptr;
      for (auto& e : exchanges_)
        if (e->busy && e->group == nullptr && e->channel == channel && !settled(*e) && ++count == 1) oldest = e.get();
      if (count < std::max(1u, options_.in_flight)) return Ok{};
      (void)NABLA_TRY(await(*oldest));
    }
  }

  Neighbours neighbours_;
  std::shared_ptr<Transport> transport_;
  PeerOptions options_;
  uint32_t me_;
  std::vector<uint64_t> next_;  // by group: collectives that this rank has started
  std::vector<std::unique_ptr<Exchange>> exchanges_;
  std::vector<const void*> parts_;
  const Exchange* awaiting_ = nullptr;  // progress leaves it to who waits for it
  std::optional<Diagnostic> failure_;
};

}  // namespace

Result<std::unique_ptr<World>> make_peers(const format::Ranks& ranks, std::shared_ptr<Transport> transport, const PeerOptions& options) {
  if (transport->ranks() != ranks.count())
    return error(Code::kRanksDisagree, "the bundle is for {} ranks, and {} has started {}", ranks.count(), transport->name(),
                 transport->ranks());
  Neighbours neighbours = neighbours_of(ranks, transport->rank());
  return std::unique_ptr<World>(
      new OneRank(std::make_unique<Rank>(std::move(neighbours), std::move(transport), options)));
}

std::function<Result<std::unique_ptr<World>>(const format::Ranks&, uint32_t in_flight)> peers_over(
    std::shared_ptr<Transport> transport, PeerOptions options) {
  return [=](const format::Ranks& ranks, uint32_t in_flight) mutable -> Result<std::unique_ptr<World>> {
    options.in_flight = in_flight;
    return make_peers(ranks, transport, options);
  };
}

}  // namespace nabla::comm
