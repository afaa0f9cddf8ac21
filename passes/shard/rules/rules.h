// How ranks compute ops that cannot be sharded by splitting their factors alone. There is one row per rule.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "ir/builder.h"
#include "ir/typed.h"
#include "passes/shard/layout.h"
#include "passes/shard/reshard.h"

namespace nabla::passes {

/// Zeros with the shape of `like`. A rank adds them to a sum over ranks if another rank has the value that the sum has to give. Zeros of
/// floats are -0.0, because -0.0 + 0.0 is 0.0 and the sum would lose the sign of a -0.0.
ir::Val no_addend(ir::Val like);
/// The same for the elements of a lookup. If the node fills elements that are out of range with zeros, no rank has them, and the
/// zeros are 0.0.
ir::Val no_addend_of(const ir::Node& lookup, ir::Val found);
/// The value on the first rank along the axes, and zeros on the others, so that a sum over the axes counts the value once.
ir::Val on_first_of(ir::Val value, const RankSymbols& rank, const ir::Axes& axes);

/// The factors of a node that looks up rows of a table or adds to them; nothing for other nodes. A lookup is summed over the ranks
/// that hold parts of the table. An addition is summed over the ranks that hold parts of the updates.
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
  bool deterministic;  ///< rules whose results depend on the number of ranks must not be used
  ir::FunctionBuilder& b;                                         ///< of the local function
  std::function<const Layout&(size_t operand)> layout;            ///< that an operand has
  std::function<Layout(size_t result)> wanted;                    ///< without pending
  std::function<ir::Val(size_t operand, const Layout& to)> part;  ///< an operand, brought to another layout
  std::function<ir::Val(size_t operand)> value;                   ///< as it is
  std::function<ir::Val(ir::Val)> share;  ///< the value in the type that shares of a sum or product of such values have
  std::function<ir::FunctionRef(ir::Function)> define;            ///< adds a function to the local module, under a new name
};

/// The results that a rule gives a node, and the bytes that they cost.
struct Ruled {
  std::vector<Layout> layouts;  ///< of the results
  double bytes = 0;             ///< sent by a rank, until the results are as they are wanted
  std::function<std::vector<ir::Val>()> make;
  /// The layouts to which the rule brings operands. A sum that is pending in one of them stays so. Nothing for an operand that it
  /// does not read.
  std::vector<std::optional<Layout>> operands = {};
  bool shares = false;  ///< results in which sums are pending have the type of shares, which is wider than that of narrow floats
};

/// A dimension of one of a node's operands or results.
struct TensorDim {
  bool result;
  size_t index, dim;
};
/// Groups of dimensions that have to be sharded over the same axes for the rule to be usable, although no factor that can be split
/// has them all. Propagation copies the axes of one to the others.
using Ties = std::vector<std::vector<TensorDim>>;

struct OpRule {
  ir::RankRule rule;
  std::optional<Ruled> (*apply)(const RuleContext&);  ///< nothing where it does not fit the node
  Ties (*ties)(const ir::TypedOp&);                   ///< null: none
  const char* doc;                                    ///< how ranks compute the op together
  bool reorders = false;  ///< floating-point numbers are combined in another order than by one rank
};
/// Null if the op has no rule of its own.
const OpRule* rule_of(const ir::OpDef& op);

/// Chooses between the rule of the op and an exchange that shards another dimension, which every op can use: the one that sends
/// fewer bytes. Nothing if neither fits; the node is then split by its factors.
std::optional<Ruled> by_rule(const RuleContext& context);

}  // namespace nabla::passes
