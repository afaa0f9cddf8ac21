// Which op has which rule.
#include <algorithm>

#include "passes/shard/rules/families.h"

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

// By name.
const OpRule kRules[] = {
    {"argmax", position_of_extreme, nullptr, kExtreme},
    {"argmin", position_of_extreme, nullptr, kExtreme},
    {"attention", attended_by_ranks, keys_and_values, kKeys, true},
    {"attention_grad", attention_back, keys_and_values, kKeys, true},
    {"concatenate", joined_along, same_dims,
     "pieces of the operands go to the ranks in whose shards they lie (permute)"},
    {"conv_filter_grad", filter_gradient, space_and_cotangent, kHalo},
    {"conv_input_grad", convolved_back, space_and_output, kHalo},
    {"convolution", convolved, space_and_output, kHalo},
    {"cumargmax", running_position, along_axis, kRunning},
    {"cumargmin", running_position, along_axis, kRunning},
    {"cummax", running, along_axis, kRunning},
    {"cummin", running, along_axis, kRunning},
    {"cumprod", running, along_axis, kRunning, true},
    {"cumsum", running, along_axis, kRunning, true},
    {"dynamic_slice", sliced_where_it_is, nullptr, "each rank has its elements of the window, and the sum is pending"},
    {"dynamic_update_slice", updated_where_it_is, operand_and_result, "each rank writes what lies in its part"},
    {"embedding", look_up_rows, nullptr, kRows},
    {"gather", gathered_by_index, nullptr, kIndexed},
    {"pad", cut_or_pad, same_dims, "elements go to the ranks in whose shards of the result they lie (permute)"},
    {"reduce_window_max", pooled, same_dims, kHalo},
    {"reduce_window_sum", pooled, same_dims, kHalo},
    {"reverse", reversed, same_dims, "parts change places (permute), and each is turned round"},
    {"scatter_add", scattered_by_index, operand_and_result, kAdd},
    {"scatter_max", scattered_by_index, operand_and_result, kInto},
    {"scatter_min", scattered_by_index, operand_and_result, kInto},
    {"scatter_mul", scattered_by_index, operand_and_result, kInto},
    {"scatter_set", scattered_by_index, operand_and_result, kInto},
    {"section", cut_or_pad, same_dims, kCut},
    {"select_and_scatter", scattered_back, same_dims, kHalo},
    {"slice", cut_or_pad, same_dims, kCut},
    {"top_k", top_of_candidates, nullptr, "the best of each rank are gathered, and the best of those are taken"},
    {"window_gather_max", pooled, same_dims, kHalo},
};

}  // namespace

std::span<const OpRule> op_rules() { return kRules; }

const OpRule* rule_of(std::string_view op) {
  const OpRule* at =
      std::lower_bound(std::begin(kRules), std::end(kRules), op,
                       [](const OpRule& rule, std::string_view name) { return std::string_view(rule.op) < name; });
  return at != std::end(kRules) && at->op == op ? at : nullptr;
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
  const OpRule* own = rule_of(c.n.op->name);
  if (own && own->reorders && c.deterministic) own = nullptr;
  std::optional<Ruled> best = own ? own->rule(c) : std::nullopt;
  if (best && c.deterministic && leaves_sums(c, *best)) best.reset();
  std::optional<Ruled> exchange = exchanged(c);
  return exchange && (!best || exchange->bytes < best->bytes) ? exchange : best;
}

}  // namespace nabla::passes
