// Ops that ranks share in another way than by cutting their factors.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "ir/builder.h"
#include "passes/shard/layout.h"
#include "passes/shard/reshard.h"

namespace nabla::passes {

/// The value on the ranks that come first along the axes, zeros on the others: a sum over them has it once.
ir::Val on_first_of(ir::Val value, const RankSymbols& rank, const ir::Axes& axes);

/// A node under partition.
struct RuleContext {
  const ir::Function& f;  ///< with whole types
  const ir::Node& n;
  const ir::Mesh& mesh;
  const RankSymbols& rank;
  ir::FunctionBuilder& b;                                         ///< of the local function
  std::function<const Layout&(size_t operand)> layout;            ///< that an operand has
  std::function<Layout(size_t result)> wanted;                    ///< without pending
  std::function<ir::Val(size_t operand, const Layout& to)> part;  ///< an operand, brought to another layout
  std::function<ir::Val(size_t operand)> value;                   ///< as it is
};

/// What a rule makes of a node: its results, and what it costs.
struct Ruled {
  std::vector<Layout> layouts;  ///< of the results
  double bytes = 0;             ///< sent by a rank, until the results are as they are wanted
  std::function<std::vector<ir::Val>()> make;
};

/// Nothing where no rule fits: then the node is split by its factors.
///   rows of a table (embedding, gather) that lies along its rows: every rank looks up those that it has, and the sum
///   over
///     ranks is pending (Megatron's vocabulary-parallel embedding)
///   adding into rows (scatter_add), of updates that are cut: each rank adds its own, and the sum is pending; into rows
///   that
///     are cut: each rank adds to those that it has
std::optional<Ruled> by_rule(const RuleContext& context);

}  // namespace nabla::passes
