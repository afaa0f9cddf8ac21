#include "codegen/cuda/sass.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <optional>

namespace nabla::codegen {
namespace {

constexpr size_t kInstructionBytes = 16;

// The low 12 bits are the opcode; the upper 3 of them say what kind of operands it has.
enum Opcode : uint64_t {
  kFfma = 0x023,
  kImad = 0x024,
  kImadWide = 0x025,
  kDfma = 0x02b,
  kMatrixLoad = 0x03b,
  kHmma = 0x03c,
  kQmma = 0x07a,
  kMufu = 0x108,
  kNop = 0x118,
  kBarrier = 0x11d,
  kCall = 0x144,
  kBranch = 0x147,
  kExit = 0x14d,
  kReturn = 0x150,
  kGlobalLoad = 0x181,
  kLocalLoad = 0x183,
  kSharedLoad = 0x184,
  kGlobalStore = 0x186,
  kLocalStore = 0x187,
  kSharedStore = 0x188,
  kAsyncCopy = 0x1ae,
  kTensorLoad = 0x1b4,
  kHgmma = 0x1f0,
  kQgmma = 0x1f3,
};

struct Instruction {
  uint64_t low, high;

  uint64_t opcode() const { return low & 0x1ff; }
  bool is_uniform() const { return (low & 0xfff) == 0x547; }  // a branch by a predicate of the warp
  // By its guard, which is a predicate that may be negated; 7 is the one that is always true.
  bool always() const { return (low >> 12 & 0xf) == 7; }
  // Branches have a second predicate, and say whether they part a warp that has not met.
  bool goes_on() const { return opcode() != kBranch || is_uniform() || !always() || (high >> 23 & 0x1f) != 7; }
  // Bits 73 to 75: below 4 one or two bytes, then 4, 8 and 16; but 4, 8 and 16 are 0, 2 and 4 for LDGSTS since sm_100.
  uint64_t width(int compute) const {
    uint64_t width = high >> 9 & 7;
    return opcode() == kAsyncCopy && compute >= 100 ? 4 + width / 2 : width;
  }
  // Until the next one of the warp may be issued.
  int clocks() const { return std::max(1, static_cast<int>(high >> 41 & 0xf)); }
  // The scoreboard that is set until the result is there; 7: none.
  unsigned sets() const { return static_cast<unsigned>(high >> 46 & 7); }
  // A bit for each scoreboard that it waits for.
  unsigned awaits() const { return static_cast<unsigned>(high >> 52 & 0x3f); }
  // In instructions, from the next one: a signed number from bit 34 on in words of 4 bytes. Since sm_90 it begins with 8 bits at 16.
  int64_t distance(int compute) const {
    int64_t upper = static_cast<int64_t>(high << 46 | low >> 34 << 16) >> 16;
    int64_t words = compute >= 90 ? upper * 256 + static_cast<int64_t>(low >> 16 & 0xff) : upper;
    return words / 4;
  }
};

Instruction at(std::string_view code, size_t i) {
  Instruction out;
  std::memcpy(&out.low, code.data() + i * kInstructionBytes, sizeof out.low);
  std::memcpy(&out.high, code.data() + i * kInstructionBytes + sizeof out.low, sizeof out.high);
  return out;
}

void count_access(uint64_t width, AccessCounts& c) {
  ++(width < 4 ? c.narrow : width == 4 ? c.bytes4 : width == 5 ? c.bytes8 : c.bytes16);
}

void count(const Instruction& i, int compute, InstructionCounts& n) {
  n.all += i.opcode() != kNop;
  switch (i.opcode()) {
    case kFfma: ++n.ffma; break;
    case kDfma: ++n.dfma; break;
    case kImad:
    case kImadWide: ++n.imad; break;
    case kMatrixLoad: ++n.matrix_loads; break;
    case kHmma: ++n.hmma; break;
    case kQmma: ++n.qmma; break;
    case kHgmma:
    case kQgmma: ++n.hgmma; break;
    case kTensorLoad: ++n.boxes; break;
    case kMufu: ++n.mufu; break;
    case kBarrier: ++n.bars; break;
    case kLocalLoad: ++n.local_loads; break;
    case kLocalStore: ++n.local_stores; break;
    case kGlobalLoad: count_access(i.width(compute), n.global_loads); break;
    case kGlobalStore: count_access(i.width(compute), n.global_stores); break;
    case kSharedLoad: count_access(i.width(compute), n.shared_loads); break;
    case kSharedStore: count_access(i.width(compute), n.shared_stores); break;
    case kAsyncCopy: count_access(i.width(compute), n.async_copies); break;
    default: break;
  }
}

// ---- The graph of branches

struct Block {
  int first = 0, end = 0;  // instructions
  std::vector<int> next, before;
  int order = -1;      // in which blocks are left by a walk from the first; -1: no way leads to it
  int dominator = -1;  // the last block, other than itself, that all ways to it come through
  int loop = 0;        // the innermost one around it
  bool skipped = false;  // in a trip of that loop
};

class Graph {
 public:
  Graph(std::string_view code, int compute)
      : code_(code), compute_(compute), size_(static_cast<int>(code.size() / kInstructionBytes)) {
    cut();
    walk();
    find_dominators();
    find_loops();
    waits_.assign(static_cast<size_t>(size_), false);
    find_loads();
  }

  KernelCode read() {
    KernelCode out;
    out.loops = std::move(loops_);
    for (const Block& b : blocks_)
      for (int i = b.first; i < b.end; ++i) {
        Instruction in = at(code_, static_cast<size_t>(i));
        if (b.order >= 0) {
          CodeLoop& loop = out.loops[static_cast<size_t>(b.loop)];
          count(in, compute_, loop.own);
          loop.clocks += in.clocks(), loop.waits += waits_[static_cast<size_t>(i)];
          if (!b.skipped) continue;
          loop.skipped += in.opcode() != kNop, loop.skipped_clocks += in.clocks(), loop.skipped_waits += waits_[static_cast<size_t>(i)];
        } else {
          out.apart += in.opcode() != kNop && target(i) != i;  // the code ends in a branch to itself, and fills up
        }
      }
    out.loads_in_flight = flight_.loads, out.bytes_in_flight = flight_.bytes;
    return out;
  }

 private:
  std::optional<int> target(int i) const {
    Instruction in = at(code_, static_cast<size_t>(i));
    // ptxas for sm_80 leaves loops by calls with a guard, which do not come back.
    if (in.opcode() != kBranch && (in.opcode() != kCall || in.always())) return std::nullopt;
    int64_t distance = in.distance(compute_);
    if (distance < -i - 1 || distance >= size_ - i - 1) return std::nullopt;
    return static_cast<int>(i + 1 + distance);
  }
  bool ends(int i) const {
    Instruction in = at(code_, static_cast<size_t>(i));
    bool leaves = in.opcode() == kExit || in.opcode() == kReturn;
    return leaves ? in.always() : !in.goes_on();
  }

  void cut() {
    std::vector<bool> starts(static_cast<size_t>(size_) + 1, false);
    starts[0] = true;
    for (int i = 0; i < size_; ++i) {
      std::optional<int> to = target(i);
      if (to) starts[static_cast<size_t>(*to)] = true;
      if (to || ends(i)) starts[static_cast<size_t>(i) + 1] = true;
    }
    std::vector<int> block_of(static_cast<size_t>(size_), 0);
    for (int i = 0; i < size_; ++i) {
      if (starts[static_cast<size_t>(i)]) blocks_.push_back({i, i, {}, {}});
      blocks_.back().end = i + 1;
      block_of[static_cast<size_t>(i)] = static_cast<int>(blocks_.size()) - 1;
    }
    for (size_t b = 0; b < blocks_.size(); ++b) {
      int last = blocks_[b].end - 1;
      if (std::optional<int> to = target(last)) connect(static_cast<int>(b), block_of[static_cast<size_t>(*to)]);
      if (!ends(last) && b + 1 < blocks_.size()) connect(static_cast<int>(b), static_cast<int>(b) + 1);
    }
  }
  void connect(int from, int to) {
    blocks_[static_cast<size_t>(from)].next.push_back(to);
    blocks_[static_cast<size_t>(to)].before.push_back(from);
  }

  // Depth first, without recursion: code of any length is walked.
  void walk() {
    if (blocks_.empty()) return;
    std::vector<std::pair<int, size_t>> path = {{0, 0}};
    std::vector<bool> seen(blocks_.size(), false);
    seen[0] = true;
    while (!path.empty()) {
      auto& [b, which] = path.back();
      if (which == blocks_[static_cast<size_t>(b)].next.size()) {
        blocks_[static_cast<size_t>(b)].order = static_cast<int>(left_.size());
        left_.push_back(b);
        path.pop_back();
        continue;
      }
      int to = blocks_[static_cast<size_t>(b)].next[which++];
      if (seen[static_cast<size_t>(to)]) continue;
      seen[static_cast<size_t>(to)] = true;
      path.emplace_back(to, 0);
    }
  }

  // Cooper, Harvey, Kennedy, A Simple, Fast Dominance Algorithm, 2001.
  void find_dominators() {
    if (blocks_.empty()) return;
    blocks_[0].dominator = 0;
    for (bool changed = true; changed;) {
      changed = false;
      for (auto b = left_.rbegin(); b != left_.rend(); ++b) {
        if (*b == 0) continue;
        int found = -1;
        for (int from : blocks_[static_cast<size_t>(*b)].before)
          if (blocks_[static_cast<size_t>(from)].dominator >= 0) found = found < 0 ? from : meet(found, from);
        changed |= blocks_[static_cast<size_t>(*b)].dominator != found;
        blocks_[static_cast<size_t>(*b)].dominator = found;
      }
    }
  }
  int meet(int a, int b) const {
    while (a != b) {
      while (order(a) < order(b)) a = blocks_[static_cast<size_t>(a)].dominator;
      while (order(b) < order(a)) b = blocks_[static_cast<size_t>(b)].dominator;
    }
    return a;
  }
  int order(int b) const { return blocks_[static_cast<size_t>(b)].order; }
  bool dominates(int a, int b) const {
    while (order(b) < order(a)) b = blocks_[static_cast<size_t>(b)].dominator;
    return a == b;
  }

  // Loops around others come first: their heads are met earlier on every way.
  void find_loops() {
    loops_.push_back({});
    for (auto head = left_.rbegin(); head != left_.rend(); ++head) {
      std::vector<int> open;
      for (int from : blocks_[static_cast<size_t>(*head)].before)
        if (order(from) >= 0 && dominates(*head, from)) open.push_back(from);
      if (open.empty()) continue;
      int loop = static_cast<int>(loops_.size()), around = blocks_[static_cast<size_t>(*head)].loop;
      loops_[static_cast<size_t>(around)].innermost = false;
      int depth = loops_[static_cast<size_t>(around)].depth + 1;
      loops_.push_back({around, depth, blocks_[static_cast<size_t>(*head)].first, true, {}});
      blocks_[static_cast<size_t>(*head)].loop = loop;
      const std::vector<int> sources = open;
      while (!open.empty()) {
        Block& b = blocks_[static_cast<size_t>(open.back())];
        open.pop_back();
        if (b.loop == loop) continue;
        b.loop = loop;
        const int number = static_cast<int>(&b - blocks_.data());
        b.skipped = !std::all_of(sources.begin(), sources.end(), [&](int source) { return dominates(number, source); });
        for (int from : b.before)
          if (order(from) >= 0) open.push_back(from);
      }
    }
  }

  // In the order of the text. What has been issued is forgotten where the way goes on elsewhere.
  void find_loads() {
    struct Pending {
      int loads = 0, bytes = 0, since = 0;
    };
    std::array<Pending, 8> pending{};
    int wait = 1;  // the next wait's number
    for (int i = 0; i < size_; ++i) {
      Instruction in = at(code_, static_cast<size_t>(i));
      bool news = false;
      for (unsigned s = 0; s < 6; ++s) {
        if (!(in.awaits() >> s & 1)) continue;
        news |= pending[s].loads > 0 && pending[s].since == wait;
        pending[s] = {};
      }
      if (news) waits_[static_cast<size_t>(i)] = true, ++wait;
      if (in.opcode() == kGlobalLoad) {
        AccessCounts width;
        count_access(in.width(compute_), width);
        Pending& p = pending[in.sets()];
        ++p.loads, p.bytes += width.bytes(), p.since = wait;
      }
      Pending all;
      for (unsigned s = 0; s < 6; ++s) all.loads += pending[s].loads, all.bytes += pending[s].bytes;
      flight_.loads = std::max(flight_.loads, all.loads), flight_.bytes = std::max(flight_.bytes, all.bytes);
      if (ends(i)) pending = {};
    }
  }

  std::string_view code_;
  int compute_, size_;
  struct {
    int loads = 0, bytes = 0;
  } flight_;
  std::vector<bool> waits_;
  std::vector<Block> blocks_;
  std::vector<int> left_;
  std::vector<CodeLoop> loops_;
};

}  // namespace

InstructionCounts count_instructions(std::string_view code, int compute) {
  InstructionCounts n;
  for (size_t i = 0; i < code.size() / kInstructionBytes; ++i) count(at(code, i), compute, n);
  return n;
}

KernelCode read_code(std::string_view code, int compute) {
  return Graph(code, compute).read();
}

}  // namespace nabla::codegen
