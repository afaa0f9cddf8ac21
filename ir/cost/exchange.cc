#include "ir/cost/exchange.h"

#include <algorithm>
#include <bit>

namespace nabla::ir {
namespace {

constexpr int64_t kRanksOfMachine = 8;
constexpr Link kInMachine{2, 2e5}, kBetweenMachines{10, 2.5e4};  // NVLink; a network card of 200 Gb/s for each rank

// How many ranks in a row the groups along an axis reach over.
int64_t reach(const Mesh& mesh, const AxisRef& axis) {
  int64_t out = 1;
  for (auto a = mesh.axes.rbegin(); a != mesh.axes.rend(); ++a) {
    if (a->name == axis.name) return out * (a->size / axis.before);
    if (!a->temporal) out *= a->size;
  }
  return out;
}

// Messages that a rank waits for one after the other.
int64_t rounds(CollectiveKind kind, int64_t ranks) {
  return ranks == 1 ? 0 : collective_def(kind).rounds(std::bit_width(static_cast<uint64_t>(ranks - 1)));
}

// Of so many members of so many ranks: the largest program that is no larger, else the smallest; in it the same of groups.
const CpuRates::Exchange& nearest(const std::vector<CpuRates::Exchange>& all, int64_t members, int64_t ranks) {
  auto better = [](int64_t a, int64_t b, int64_t wanted) {
    if ((a <= wanted) != (b <= wanted)) return a <= wanted;
    return a <= wanted ? a > b : a < b;
  };
  const CpuRates::Exchange* out = &all.front();
  for (const CpuRates::Exchange& e : all)
    if (better(e.ranks, out->ranks, ranks) || (e.ranks == out->ranks && better(e.members, out->members, members))) out = &e;
  return *out;
}

}  // namespace

Link link_along(const Mesh& mesh, const Axes& axes) {
  bool near = std::all_of(axes.begin(), axes.end(), [&](const AxisRef& a) { return reach(mesh, a) <= kRanksOfMachine; });
  return near ? kInMachine : kBetweenMachines;
}

double sent_bytes(CollectiveKind kind, int64_t ranks, double part) {
  return ranks == 1 ? 0 : collective_def(kind).sent(static_cast<double>(ranks)) * part;
}

double exchange_us(CollectiveKind kind, const Mesh& mesh, const Axes& axes, double part) {
  int64_t ranks = shards(mesh, axes);
  Link link = link_along(mesh, axes);
  return static_cast<double>(rounds(kind, ranks)) * link.message_us + sent_bytes(kind, ranks, part) / link.bytes_per_us;
}

double moved_bytes(CollectiveKind kind, int64_t ranks, double part) {
  return ranks == 1 ? 0 : collective_def(kind).moved(static_cast<double>(ranks)) * part;
}

double exchange_us(CollectiveKind kind, const Mesh& mesh, const Axes& axes, double part, const Target& target) {
  if (!exchange_computes(target)) return exchange_us(kind, mesh, axes, part);
  const int64_t ranks = mesh.ranks(), members = shards(mesh, axes);
  if (members == 1) return 0;
  const CpuRates::Exchange& known = nearest(target.rates.exchanges, members, ranks);
  double more = std::max(1.0, static_cast<double>(ranks) / static_cast<double>(known.ranks));
  return more * (known.us + moved_bytes(kind, members, part) / known.bytes_per_us);
}

bool exchange_computes(const Target& target) { return !target.is_cuda() && !target.rates.exchanges.empty(); }

}  // namespace nabla::ir
