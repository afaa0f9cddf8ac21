// What one rank computes of a function: all decisions of `partition`, before a node is emitted.
#pragma once

#include <deque>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "ir/module.h"
#include "ir/op_def.h"
#include "ir/remark.h"
#include "passes/shard/reshard.h"

namespace nabla::passes {

/// A value of the local function: its place in PartitionPlan::values.
using Slot = int;

/// How a local value is made from others.
struct LocalParam {};
struct NodeResult {
  size_t node, result;  ///< in PartitionPlan::nodes, and of that node
};
struct Resharded {
  Slot from;
  Layout layout;  ///< of `from`
  std::vector<ReshardStep> steps;
  std::optional<DType> made;  ///< the type to which a sum is rounded right after ranks have combined it
};
struct Reduced {
  Slot from;
  ir::Axes axes;
  kernel_ir::Combiner combiner;
};
struct Converted {
  Slot from;
  DType dtype;
};
/// The value on the first rank along the axes, and zeros on the others.
struct OnFirstRank {
  Slot from;
  ir::Axes axes;
};
/// A constant with one value for all elements, as short as the shard.
struct LocalConstant {
  Literal value;
};
/// A node that a rank computes for itself alone, because the value follows from nothing but scalars.
struct LocalNode {
  const ir::Node* node;
  ir::Attrs attrs;
  std::vector<Slot> operands;
};
using LocalValue = std::variant<LocalParam, NodeResult, Resharded, Reduced, Converted, OnFirstRank, LocalConstant, LocalNode>;

/// How ranks compute a node of the function.
enum class NodePlan : uint8_t {
  kNone,        ///< its results are its operands, resharded
  kReplicated,  ///< every rank computes all of it
  kSplit,       ///< on shards of its operands, as its factors say
  kByRule,      ///< by the rule of its op, or by an exchange of axes
  kControl,     ///< a branch or a loop, whose functions are partitioned by themselves
};
struct PlannedResult {
  Slot slot;
  Layout layout;
  DType dtype;  ///< that of shares, if a sum is pending
};
struct PlannedNode {
  const ir::Node* node;
  NodePlan how;
  std::vector<Slot> first;      ///< operands that are gathered before their first reader
  std::vector<Layout> layouts;  ///< that operands have before they are brought
  std::vector<Slot> values;     ///< the operands in these layouts
  std::vector<Slot> operands;   ///< the operands as the node reads them; -1: by a rule that reads `values`, or not at all
  std::vector<Layout> brought;  ///< the layouts of `operands`
  std::vector<ir::Axes> axes;   ///< by factor, of kSplit and kByRule
  bool shares = false;          ///< kSplit: operands are converted to the type of shares, since the results are shares of sums
  std::vector<PlannedResult> results;
};

struct PartitionPlan {
  PartitionPlan() = default;
  PartitionPlan(PartitionPlan&&) = default;  // nodes point into `made`
  PartitionPlan& operator=(PartitionPlan&&) = default;

  std::string function;
  std::vector<LocalValue> values;
  std::vector<Slot> params;
  std::vector<ir::Type> param_types;
  std::vector<PlannedNode> nodes;  ///< in the order of emission
  std::vector<Slot> results;
  std::vector<ir::Remark> remarks;
  std::deque<ir::Node> made;  ///< nodes that the function does not have: additions in another order

  std::map<std::string, ir::Axes> begun;  ///< the axes of sums that begin in it, each list once, by its text
  std::vector<ir::Axes> made_pending;     ///< by value of the function: the sums that are pending in it when it is made
  std::vector<ir::Axes> pending_results;  ///< by result: the same before it has its layout, if a sum that began here is in it
};

/// A line for each node: how ranks compute it, and the layouts of its operands and results.
std::string str(const PartitionPlan& plan, const ir::Function& f);

}  // namespace nabla::passes
