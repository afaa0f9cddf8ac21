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
int64_t rounds(std::string_view op, int64_t ranks) {
  if (ranks == 1) return 0;
  int64_t halvings = std::bit_width(static_cast<uint64_t>(ranks - 1));
  return op == "permute" || op == "all_to_all" ? 1 : op == "all_reduce" ? 2 * halvings : halvings;
}

}  // namespace

Link link_along(const Mesh& mesh, const Axes& axes) {
  bool near = std::all_of(axes.begin(), axes.end(), [&](const AxisRef& a) { return reach(mesh, a) <= kRanksOfMachine; });
  return near ? kInMachine : kBetweenMachines;
}

double sent_bytes(std::string_view op, int64_t ranks, double part) {
  if (ranks == 1) return 0;
  if (op == "permute") return part;
  auto n = static_cast<double>(ranks);
  double others = op == "all_gather" ? n - 1 : (n - 1) / n;
  return (op == "all_reduce" ? 2 : 1) * others * part;
}

double exchange_us(std::string_view op, const Mesh& mesh, const Axes& axes, double part) {
  int64_t ranks = shards(mesh, axes);
  Link link = link_along(mesh, axes);
  return static_cast<double>(rounds(op, ranks)) * link.message_us + sent_bytes(op, ranks, part) / link.bytes_per_us;
}

}  // namespace nabla::ir
