#include "runtime/comm/conformance.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <iterator>
#include <limits>

#include "runtime/base/dtype.h"
#include "runtime/format/collective.h"
#include "runtime/format/ranks_generated.h"

namespace nabla::comm {
namespace {

using format::CollectiveKind;
using format::Reduction;

/// The ranks of the groups of `rank`, as plain_table makes them.
struct Mesh {
  std::vector<uint32_t> axes;
  uint32_t rank;

  uint32_t count() const {
    uint32_t n = 1;
    for (uint32_t a : axes) n *= a;
    return n;
  }
  std::vector<uint32_t> members(uint32_t group) const {
    std::vector<uint32_t> out;
    if (group == 0) {
      for (uint32_t r = 0; r < count(); ++r) out.push_back(r);
      return out;
    }
    uint32_t stride = 1, size = axes[group - 1];
    for (size_t d = group; d < axes.size(); ++d) stride *= axes[d];
    uint32_t base = rank - rank / stride % size * stride;
    for (uint32_t k = 0; k < size; ++k) out.push_back(base + k * stride);
    return out;
  }
};

// What a rank brings: values that every rank can make for every other.
int64_t value_of(uint32_t rank, int64_t i, DType dtype) {
  int64_t v = (rank * 5 + i * 3 + i / 7) % 3;
  return dtype == DType::kBool ? v % 2 : v;
}

int64_t fold(Reduction r, int64_t v, int64_t w) {
  switch (r) {
    case Reduction::Sum: return v + w;
    case Reduction::Prod: return v * w;
    case Reduction::Max: return std::max(v, w);
    case Reduction::Min: return std::min(v, w);
    case Reduction::And: return v & w;
    default: return v | w;
  }
}

class Suite {
 public:
  Suite(uint32_t rank, const std::vector<uint32_t>& axes, Communicator& peers) : mesh_{axes, rank}, peers_(peers) {}

  Status one(const CollectiveCall& of, int64_t count) {
    Pending p = NABLA_TRY(start(0, of, count));
    (void)NABLA_TRY(peers_.wait(0));
    return check(p);
  }

  /// One along every group, awaited in another order than they were started in, by rank.
  Status several(int64_t count) {
    std::vector<Pending> pending;
    auto groups = static_cast<uint32_t>(mesh_.axes.size() + 1);
    for (uint32_t g = 0; g < groups; ++g) {
      CollectiveCall call{.reduction = Reduction::Sum, .dtype = format::DType::F32, .group = g};
      pending.push_back(NABLA_TRY(start(g, call, count)));
    }
    for (uint32_t i = 0; i < groups; ++i) {
      uint32_t g = mesh_.rank % 2 == 0 ? i : groups - 1 - i;
      (void)NABLA_TRY(peers_.wait(g));
    }
    for (const Pending& p : pending) (void)NABLA_TRY(check(p));
    return Ok{};
  }

  /// Floats that do not add up to the same in any other order, in place: the sum is that in the order of the members.
  Status in_order(int64_t count) {
    auto of = [](uint32_t rank, int64_t i) {
      return std::ldexp(1.0F + static_cast<float>(i % 7), static_cast<int>(rank % 5) * 9 - 12);
    };
    std::vector<float> own;
    for (int64_t i = 0; i < count; ++i) own.push_back(of(mesh_.rank, i));
    CollectiveCall call{.reduction = Reduction::Sum, .dtype = format::DType::F32};
    call.from = call.to = own.data(), call.bytes = own.size() * sizeof(float);
    (void)NABLA_TRY(peers_.start(0, call));
    (void)NABLA_TRY(peers_.wait(0));
    for (int64_t i = 0; i < count; ++i) {
      float sum = of(0, i);
      for (uint32_t r = 1; r < mesh_.count(); ++r) sum += of(r, i);
      if (own[static_cast<size_t>(i)] != sum)
        return error(Code::kRanksDiverge, "element {} of {} is {}, in order it is {}", i, count, own[static_cast<size_t>(i)], sum);
    }
    return Ok{};
  }

  /// Numbers that compare and add in ways of their own: NaN, infinities, both zeros, and ties. NaN wins; which zero does is
  /// not said, but all ranks have the same bits.
  Status specials(const CollectiveCall& of) {
    std::vector<uint32_t> members = mesh_.members(of.group);
    auto n = static_cast<int64_t>(members.size()), count = 128 * n;
    auto dtype = static_cast<DType>(of.dtype);
    auto bytes = static_cast<size_t>(bytes_of(dtype));
    std::vector<char> from(static_cast<size_t>(count) * bytes), to(from.size());
    for (int64_t i = 0; i < count; ++i) set_float(dtype, from.data(), i, special(mesh_.rank, i));
    CollectiveCall call = of;
    call.from = from.data(), call.to = to.data(), call.bytes = from.size();
    (void)NABLA_TRY(peers_.start(0, call));
    (void)NABLA_TRY(peers_.wait(0));
    const bool scatters = of.kind == CollectiveKind::ReduceScatter;
    int64_t first = scatters ? 128 * (std::find(members.begin(), members.end(), mesh_.rank) - members.begin()) : 0;
    for (int64_t i = 0; i < (scatters ? 128 : count); ++i) {
      double want = stored(dtype, special(members[0], first + i));
      for (size_t m = 1; m < members.size(); ++m) want = combined(of.reduction, want, stored(dtype, special(members[m], first + i)));
      double got = get_float(dtype, to.data(), i);
      if (std::isnan(got) != std::isnan(want) || (!std::isnan(got) && got != stored(dtype, want)))
        return error(Code::kRanksDiverge, "element {} is {}, not {}", i, got, want);
    }
    return scatters ? Status(Ok{}) : alike(call, to);
  }

  /// Messages along the row, more than one at once.
  Status row(int64_t bytes) {
    bool last = mesh_.rank + 1 == mesh_.count(), first = mesh_.rank == 0;
    std::vector<char> out[2], in[2];
    for (int k = 0; k < 2; ++k) {
      out[k].assign(static_cast<size_t>(bytes), static_cast<char>(mesh_.rank * 2 + static_cast<uint32_t>(k)));
      in[k].resize(static_cast<size_t>(bytes));
      auto ticket = static_cast<uint32_t>(k);
      if (!last) (void)NABLA_TRY(peers_.send(ticket, 0, out[k].data(), static_cast<uint64_t>(bytes), nullptr));
      if (!first) (void)NABLA_TRY(peers_.recv(2 + ticket, 1, in[k].data(), static_cast<uint64_t>(bytes), nullptr));
    }
    for (uint32_t k = 0; k < 2; ++k) {
      if (!last) (void)NABLA_TRY(peers_.wait(k));
      if (first) continue;
      (void)NABLA_TRY(peers_.wait(2 + k));
      auto want = static_cast<char>((mesh_.rank - 1) * 2 + k);
      for (char c : in[k])
        if (c != want) return error(Code::kRanksDiverge, "message {} of {} bytes is another", k, bytes);
    }
    return Ok{};
  }

  bool ends(uint32_t group) const { return mesh_.members(group).size() > 1; }

 private:
  static double special(uint32_t rank, int64_t i) {
    constexpr double kInf = std::numeric_limits<double>::infinity();
    constexpr double kValues[] = {0.0, -0.0, 1.0, -1.0, kInf, -kInf, std::numeric_limits<double>::quiet_NaN(), 2.0};
    return kValues[static_cast<size_t>(i * (rank + 1) + rank * 3 + i / 8) % std::size(kValues)];
  }
  // The number as the type has it: not every one of them has infinities.
  static double stored(DType dtype, double v) {
    uint64_t bits = 0;
    set_float(dtype, &bits, 0, v);
    return get_float(dtype, &bits, 0);
  }
  static double combined(Reduction r, double a, double b) {
    if (std::isnan(a) || std::isnan(b)) return std::numeric_limits<double>::quiet_NaN();
    return r == Reduction::Sum ? a + b : r == Reduction::Prod ? a * b : r == Reduction::Max ? std::max(a, b) : std::min(a, b);
  }
  // Have all members of the call's group these bits?
  Status alike(const CollectiveCall& call, const std::vector<char>& mine) {
    std::vector<char> all(mine.size() * mesh_.members(call.group).size());
    CollectiveCall gather{.kind = CollectiveKind::AllGather, .reduction = Reduction::None, .dtype = format::DType::U8, .group = call.group};
    gather.from = mine.data(), gather.to = all.data(), gather.bytes = mine.size();
    (void)NABLA_TRY(peers_.start(0, gather));
    (void)NABLA_TRY(peers_.wait(0));
    for (size_t at = 0; at < all.size(); ++at)
      if (all[at] != mine[at % mine.size()])
        return error(Code::kRanksDiverge, "byte {} of member {} is not this rank's", at % mine.size(), at / mine.size());
    return Ok{};
  }

  struct Pending {
    CollectiveCall call;
    int64_t count = 0;
    std::vector<uint32_t> members;
    std::vector<char> from, to;
    std::vector<int32_t> targets;
  };

  Result<Pending> start(uint32_t ticket, const CollectiveCall& of, int64_t count) {
    Pending p;
    p.members = mesh_.members(of.group);
    auto n = static_cast<int64_t>(p.members.size());
    auto dtype = static_cast<DType>(of.dtype);
    bool parts = of.kind == CollectiveKind::ReduceScatter || of.kind == CollectiveKind::AllToAll;
    p.count = parts ? count / n * n : count;
    p.call = of;
    p.call.root = static_cast<uint32_t>(n - 1);
    for (int64_t m = 0; m < n; ++m) p.targets.push_back(m == 1 ? -1 : static_cast<int32_t>((m + 2) % n));
    if (n == 2) p.targets = {1, -1};
    if (n > 3) p.targets = permutation(n);
    auto bytes = static_cast<size_t>(bytes_of(dtype));
    p.from.resize(static_cast<size_t>(p.count) * bytes), p.to.assign(p.from.size() * static_cast<size_t>(n) + 1, 77);
    for (int64_t i = 0; i < p.count; ++i) set_int(dtype, p.from.data(), i, value_of(mesh_.rank, i, dtype));
    p.call.from = p.from.data(), p.call.to = p.to.data(), p.call.bytes = p.from.size();
    p.call.targets = p.targets.data();
    (void)NABLA_TRY(peers_.start(ticket, p.call));
    return p;
  }

  // To the third next, and from one of them to none.
  static std::vector<int32_t> permutation(int64_t n) {
    std::vector<int32_t> out;
    for (int64_t m = 0; m < n; ++m) out.push_back(m == 1 ? -1 : static_cast<int32_t>((m + 3) % n));
    return out;
  }

  Status check(const Pending& p) const {
    auto n = static_cast<int64_t>(p.members.size());
    auto dtype = static_cast<DType>(p.call.dtype);
    int64_t me = 0;
    while (p.members[static_cast<size_t>(me)] != mesh_.rank) ++me;
    auto of = [&](int64_t m, int64_t i) { return value_of(p.members[static_cast<size_t>(m)], i, dtype); };
    auto folded = [&](int64_t i) {
      int64_t v = of(0, i);
      for (int64_t m = 1; m < n; ++m) v = fold(p.call.reduction, v, of(m, i));
      return v;
    };
    int64_t part = p.count / n, size = p.count, source = -1;
    if (p.call.kind == CollectiveKind::ReduceScatter) size = part;
    if (p.call.kind == CollectiveKind::AllGather) size = p.count * n;
    for (int64_t m = 0; m < n; ++m)
      if (p.targets[static_cast<size_t>(m)] == me) source = m;
    for (int64_t i = 0; i < size; ++i) {
      int64_t want = 0;
      switch (p.call.kind) {
        case CollectiveKind::AllReduce: want = folded(i); break;
        case CollectiveKind::ReduceScatter: want = folded(me * part + i); break;
        case CollectiveKind::AllGather: want = of(i / p.count, i % p.count); break;
        case CollectiveKind::AllToAll: want = of(i / part, me * part + i % part); break;
        case CollectiveKind::Permute: want = source < 0 ? 0 : of(source, i); break;
        case CollectiveKind::Broadcast: want = of(n - 1, i); break;
      }
      int64_t got = get_int(dtype, p.to.data(), i), stored = 0;
      set_int(dtype, &stored, 0, want);  // small types round, or wrap
      if (got != get_int(dtype, &stored, 0))
        return error(Code::kRanksDiverge, "element {} is {}, not {}", i, got, want);
    }
    if (p.to[static_cast<size_t>(size) * static_cast<size_t>(bytes_of(dtype))] != 77)
      return error(Code::kRanksDiverge, "it writes beyond its {} elements", size);
    return Ok{};
  }

  Mesh mesh_;
  Communicator& peers_;
};

bool sensible(CollectiveKind kind, Reduction reduction, DType dtype) {
  bool reduces = format::def_of(kind).combines;
  if (!reduces) return reduction == Reduction::None;
  if (reduction == Reduction::None) return false;
  bool logical = reduction >= Reduction::And;
  return logical ? !is_float(dtype) : dtype != DType::kBool;
}

}  // namespace

std::string check_engine(uint32_t rank, const std::vector<uint32_t>& axes, Communicator& peers, bool quick,
                         const std::function<bool(const CollectiveCall&)>& has) {
  Suite suite(rank, axes, peers);
  auto groups = static_cast<uint32_t>(axes.size() + 1);
  auto wrong = [&](const std::string& what, const Status& status) {
    return fmt::format("rank {}: {}: {}", rank, what, status.errors()[0].message);
  };
  for (uint32_t g = 0; g < groups; ++g)
    for (int d = 0; d < kDTypeCount; ++d)
      for (int k = 0; k <= static_cast<int>(CollectiveKind::MAX); ++k)
        for (int r = 0; r <= static_cast<int>(Reduction::MAX); ++r) {
          auto kind = static_cast<CollectiveKind>(k);
          auto reduction = static_cast<Reduction>(r);
          auto dtype = static_cast<DType>(d);
          if (!sensible(kind, reduction, dtype)) continue;
          if (has && !has({.kind = kind, .reduction = reduction, .dtype = static_cast<format::DType>(d)})) continue;
          bool large = !quick && dtype == DType::kF32 && (reduction == Reduction::None || reduction == Reduction::Sum);
          CollectiveCall plain{.kind = kind, .reduction = reduction, .dtype = static_cast<format::DType>(d), .group = g};
          if (is_float(dtype) && reduction != Reduction::None)
            if (Status done = suite.specials(plain); !done.ok())
              return wrong(fmt::format("{} {} of special {} along group {}", format::EnumNameCollectiveKind(kind),
                                       format::EnumNameReduction(reduction), name_of(dtype), g),
                           done);
          for (int64_t count : std::vector<int64_t>{0, 1, 37, large ? 700057 : 5003}) {
            if (Status done = suite.one(plain, count); !done.ok())
              return wrong(fmt::format("{} {} of {} {} along group {}", format::EnumNameCollectiveKind(kind),
                                       format::EnumNameReduction(reduction), count, name_of(dtype), g),
                           done);
          }
        }
  for (int64_t count : std::vector<int64_t>{1, 5003, quick ? 7 : 700057}) {
    if (Status done = suite.several(count); !done.ok()) return wrong("several at once", done);
    if (Status done = suite.in_order(count); !done.ok()) return wrong("in order", done);
    if (Status done = suite.row(count); !done.ok()) return wrong("a row of messages", done);
  }
  return "";
}

}  // namespace nabla::comm
