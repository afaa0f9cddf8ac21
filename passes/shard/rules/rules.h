// Ops that ranks share in another way than by cutting their factors: one row per op.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "ir/builder.h"
#include "ir/typed.h"
#include "passes/shard/layout.h"
#include "passes/shard/reshard.h"

namespace nabla::passes {

/// What a rank adds to a sum over ranks when the sum is to be another rank's value: as many zeros as `like` has elements.
/// Of floats they are -0.0, because -0.0 + 0.0 is 0.0 and the sum would lose the sign of a -0.0.
ir::Val no_addend(ir::Val like);
/// The same of a lookup's elements, which no rank has where the node fills with zeros what is out of range: these are 0.0.
ir::Val no_addend_of(const ir::Node& lookup, ir::Val found);
/// The value on the ranks that come first along the axes, zeros on the others: a sum over them has it once.
ir::Val on_first_of(ir::Val value, const RankSymbols& rank, const ir::Axes& axes);

/// How ranks share a node that looks rows of a table up, or adds into them, as factors: rows that are looked up are summed
/// over the ranks that have the table's parts, and what is added over those that have the updates'. Nothing of other nodes.
std::optional<ir::Factors> factors_by_rows(const ir::Function& f, const ir::Node& n);

/// A node under partition.
struct RuleContext {
  const ir::Function& f;  ///< with whole types
  const ir::Node& n;
  const ir::TypedOp& op;
  const ir::Factors& factors;
  const std::vector<ir::Axes>& axes;  ///< of every factor, where the node is split by its factors alone
  const ir::Mesh& mesh;
  const RankSymbols& rank;
  bool deterministic;  ///< rules that combine in an order of ranks do not serve
  ir::FunctionBuilder& b;                                         ///< of the local function
  std::function<const Layout&(size_t operand)> layout;            ///< that an operand has
  std::function<Layout(size_t result)> wanted;                    ///< without pending
  std::function<ir::Val(size_t operand, const Layout& to)> part;  ///< an operand, brought to another layout
  std::function<ir::Val(size_t operand)> value;                   ///< as it is
  std::function<ir::Val(ir::Val)> share;  ///< the value in the type that shares of a sum or product of such values have
  std::function<ir::FunctionRef(ir::Function)> define;            ///< adds a function to the local module, under a new name
};

/// What a rule makes of a node: its results, and what it costs.
struct Ruled {
  std::vector<Layout> layouts;  ///< of the results
  double bytes = 0;             ///< sent by a rank, until the results are as they are wanted
  std::function<std::vector<ir::Val>()> make;
};

/// A dimension of one of a node's operands or results.
struct TensorDim {
  bool result;
  size_t index, dim;
};
/// Dimensions that lie along the same axes where the rule is to serve, though no factor that can be split has both:
/// propagation hands axes from one to the others.
using Ties = std::vector<std::vector<TensorDim>>;

struct OpRule {
  const char* op;
  std::optional<Ruled> (*rule)(const RuleContext&);  ///< nothing where it does not fit the node
  Ties (*ties)(const ir::TypedOp&);                  ///< null: none
  const char* doc;                                   ///< how ranks share the op
  bool reorders = false;  ///< floating-point numbers are combined in another order than by one rank
};
/// All of them, by name.
std::span<const OpRule> op_rules();
/// Null: the op has no rule of its own.
const OpRule* rule_of(std::string_view op);

/// The rule of the op, or the exchange that serves every op with another dimension to be cut along: whichever sends
/// fewer bytes. Nothing where neither fits: then the node is split by its factors.
std::optional<Ruled> by_rule(const RuleContext& context);

}  // namespace nabla::passes
