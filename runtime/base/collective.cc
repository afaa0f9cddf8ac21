#include "runtime/base/collective.h"

#include <iterator>

namespace nabla {
namespace {

using Extent = CollectiveDef::Extent;

constexpr CollectiveDef kCollectives[] = {
    {.kind = CollectiveKind::kAllReduce,
     .name = "all_reduce",
     .result = Extent::kSame,
     .combines = true,
     .cuts = false,
     .rounds = [](int64_t halvings) { return 2 * halvings; },
     .sent = [](double n) { return 2 * ((n - 1) / n); },
     .moved = [](double) { return 2.0; }},
    {.kind = CollectiveKind::kAllGather,
     .name = "all_gather",
     .result = Extent::kWhole,
     .combines = false,
     .cuts = false,
     .rounds = [](int64_t halvings) { return halvings; },
     .sent = [](double n) { return n - 1; },
     .moved = [](double n) { return 2 * n; }},
    {.kind = CollectiveKind::kReduceScatter,
     .name = "reduce_scatter",
     .result = Extent::kPart,
     .combines = true,
     .cuts = true,
     .rounds = [](int64_t halvings) { return halvings; },
     .sent = [](double n) { return (n - 1) / n; },
     .moved = [](double n) { return 1 + 1 / n; }},
    {.kind = CollectiveKind::kAllToAll,
     .name = "all_to_all",
     .result = Extent::kSame,
     .combines = false,
     .cuts = true,
     .rounds = [](int64_t) { return int64_t{1}; },
     .sent = [](double n) { return (n - 1) / n; },
     .moved = [](double) { return 2.0; }},
    {.kind = CollectiveKind::kPermute,
     .name = "permute",
     .result = Extent::kSame,
     .combines = false,
     .cuts = false,
     .rounds = [](int64_t) { return int64_t{1}; },
     .sent = [](double) { return 1.0; },
     .moved = [](double) { return 2.0; }},
    {.kind = CollectiveKind::kBroadcast,
     .name = "broadcast",
     .result = Extent::kSame,
     .combines = false,
     .cuts = false,
     .rounds = [](int64_t halvings) { return halvings; },
     .sent = [](double n) { return n - 1; },
     .moved = [](double) { return 2.0; }},
};

// Rows are found by their place.
constexpr bool in_order() {
  for (size_t i = 0; i < std::size(kCollectives); ++i)
    if (static_cast<size_t>(kCollectives[i].kind) != i) return false;
  return true;
}
static_assert(in_order());

}  // namespace

const CollectiveDef& collective_def(CollectiveKind kind) { return kCollectives[static_cast<size_t>(kind)]; }

}  // namespace nabla
