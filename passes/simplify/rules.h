// The rules of canonicalize. A rule is a row: to add one, write a matcher in rules_*.cc, add its row there and a
// test of its name in canonicalize_test.cc.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "ir/builder.h"
#include "ir/op_def.h"

namespace nabla::passes {

/// A node that is about to be added to a function under construction, and what a rule may ask about it.
class Candidate {
 public:
  Candidate(ir::FunctionBuilder& b, const ir::OpDef& op, const std::vector<ir::Val>& operands, const ir::Attrs& attrs,
            const std::vector<int>& producers, std::vector<bool> only_use)
      : b(b), op(op), operands(operands), attrs(attrs), producers_(producers), only_use_(std::move(only_use)) {}

  ir::FunctionBuilder& b;
  const ir::OpDef& op;
  const std::vector<ir::Val>& operands;
  const ir::Attrs& attrs;

  ir::Val operand(int i) const { return operands[i]; }
  /// The node that made `v`, when it is an `op`; otherwise null.
  const ir::Node* made_by(ir::Val v, std::string_view op) const;
  /// An operand of a node of the function.
  ir::Val operand_of(const ir::Node& node, int i = 0) const { return {&b, node.operands[i]}; }
  /// The rank-0 value that `v` repeats everywhere; `v` itself when it has rank 0.
  std::optional<ir::Val> repeated_scalar(ir::Val v) const;
  /// The one number that every element of `v` is known to be, as a literal of rank 0.
  std::optional<Literal> number(ir::Val v) const;
  bool is_number(ir::Val v, double value) const;
  /// Whether this node is known to be the only user of operand i, so that its producer may be replaced and not
  /// doubled.
  bool is_only_user(int i) const { return only_use_[i]; }

 private:
  const std::vector<int>& producers_;  // per value of the function; -1: parameter
  std::vector<bool> only_use_;         // per operand
};

/// What stands for the node's results instead; nothing: the rule does not apply.
using Replacement = std::optional<std::vector<ir::Val>>;

struct Rule {
  std::string name;              ///< "add-zero"
  std::string text;              ///< "x + 0 -> x", with the guard
  std::vector<std::string> ops;  ///< that the node may be
  Replacement (*apply)(const Candidate&);
};

/// Arithmetic of elements, then movement, then products; each op's rules are tried in this order.
const std::vector<Rule>& canonicalization_rules();
std::vector<Rule> arithmetic_rules();
std::vector<Rule> movement_rules();

}  // namespace nabla::passes
