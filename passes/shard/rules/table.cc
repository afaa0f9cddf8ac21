// The code of each rank rule. The records of ops say which op has which.
#include <algorithm>

#include "passes/shard/rules/families.h"
#include "runtime/base/check.h"

namespace nabla::passes {
namespace {

constexpr const char* kExtreme =
    "each rank finds its own; an all_reduce of the extreme, and one of the first position that has it";
constexpr const char* kRunning =
    "each rank combines its part; an all_gather of one slice per rank gives what is before it";
constexpr const char* kCut =
    "elements go to the ranks in whose shards of the result they lie (permute); where the result does not divide, each "
    "rank has its elements of it and the sum is pending";
constexpr const char* kKeys =
    "keys and values travel round the ring of the ranks, with their gradients on the way back; where queries lie "
    "elsewhere each rank attends to its own keys, and the results are weighed by their logsumexp";
constexpr const char* kHalo = "neighbours send what windows read beyond the borders of a part (permute)";
constexpr const char* kAdd =
    "by rows, or one index per window: each rank adds the updates that it has into what it has; over updates that are "
    "cut "
    "the sum is pending";
constexpr const char* kInto = "one index per window: each rank writes what lies in its part";
constexpr const char* kRows = "rows of a table: the rank that has a row looks it up, and the sum is pending";
constexpr const char* kIndexed =
    "by rows, or one index per window: the rank that has an element reads it, and the sum is pending";

using ir::RankRule;
const OpRule kRules[] = {
    {RankRule::kArgmax, position_of_extreme, nullptr, kExtreme},
    {RankRule::kArgmin, position_of_extreme, nullptr, kExtreme},
    {RankRule::kRunningSum, running, along_axis, kRunning, true},
    {RankRule::kRunningExtreme, running, along_axis, kRunning},
    {RankRule::kRunningArgmax, running_position, along_axis, kRunning},
    {RankRule::kRunningArgmin, running_position, along_axis, kRunning},
    {RankRule::kTopK, top_of_candidates, nullptr, "the best of each rank are gathered, and the best of those are taken"},
    {RankRule::kSlice, cut_or_pad, same_dims, kCut},
    {RankRule::kSection, cut_or_pad, same_dims, kCut},
    {RankRule::kPad, cut_or_pad, same_dims, "elements go to the ranks in whose shards of the result they lie (permute)"},
    {RankRule::kConcatenate, joined_along, same_dims,
     "pieces of the operands go to the ranks in whose shards they lie (permute)"},
    {RankRule::kReverse, reversed, same_dims, "parts change places (permute), and each is turned round"},
    {RankRule::kConvolution, convolved, space_and_output, kHalo},
    {RankRule::kInputGrad, convolved_back, space_and_output, kHalo},
    {RankRule::kFilterGrad, filter_gradient, space_and_cotangent, kHalo},
    {RankRule::kPoolSum, pooled, same_dims, kHalo},
    {RankRule::kPoolMax, pooled, same_dims, kHalo},
    {RankRule::kPoolGrad, scattered_back, same_dims, kHalo},
    {RankRule::kAttention, attended_by_ranks, keys_and_values, kKeys, true},
    {RankRule::kAttentionGrad, attention_back, keys_and_values, kKeys, true},
    {RankRule::kEmbedding, look_up_rows, nullptr, kRows},
    {RankRule::kGather, gathered_by_index, nullptr, kIndexed},
    {RankRule::kScatterAdd, scattered_by_index, operand_and_result, kAdd},
    {RankRule::kScatterInto, scattered_by_index, operand_and_result, kInto},
    {RankRule::kDynamicSlice, sliced_where_it_is, nullptr, "each rank has its elements of the window, and the sum is pending"},
    {RankRule::kDynamicUpdate, updated_where_it_is, operand_and_result, "each rank writes what lies in its part"},
};

}  // namespace

const OpRule* rule_of(const ir::OpDef& op) {
  if (op.rank_rule == RankRule::kNone) return nullptr;
  const OpRule* at = std::find_if(std::begin(kRules), std::end(kRules), [&](const OpRule& r) { return r.rule == op.rank_rule; });
  NABLA_CHECK(at != std::end(kRules), "{}: its rank rule has no row", op.name);
  return at;
}

namespace {

// Would ranks combine floating-point numbers?
bool leaves_sums(const RuleContext& c, const Ruled& ruled) {
  for (size_t r = 0; r < ruled.layouts.size(); ++r)
    if (!ruled.layouts[r].pending.empty() && is_float(c.op.results[r].dtype)) return true;
  return false;
}

}  // namespace

std::optional<Ruled> by_rule(const RuleContext& c) {
  const OpRule* own = rule_of(*c.n.op);
  if (own && own->reorders && c.deterministic) own = nullptr;
  std::optional<Ruled> best = own ? own->apply(c) : std::nullopt;
  if (best && c.deterministic && leaves_sums(c, *best)) best.reset();
  std::optional<Ruled> exchange = exchanged(c);
  return exchange && (!best || exchange->bytes < best->bytes) ? exchange : best;
}

}  // namespace nabla::passes
