#include "passes/simplify/rules.h"

#include <cmath>

namespace nabla::passes {

const ir::Node* Candidate::made_by(ir::Val v, std::string_view name) const {
  int n = producers_[v.id];
  if (n < 0) return nullptr;
  const ir::Node& node = b.function().nodes[n];
  return node.op->name == name ? &node : nullptr;
}

std::optional<ir::Val> Candidate::repeated_scalar(ir::Val v) const {
  if (v.rank() == 0) return v;
  const ir::Node* broadcast = made_by(v, "broadcast_in_dim");
  if (!broadcast || operand_of(*broadcast).rank() != 0) return std::nullopt;
  return operand_of(*broadcast);
}

std::optional<Literal> Candidate::number(ir::Val v) const {
  ir::Val scalar = repeated_scalar(v).value_or(v);
  const ir::Node* constant = made_by(scalar, "constant");
  if (!constant) return std::nullopt;
  const Literal& value = constant->attrs.get_literal("value");
  if (value.size() == 0) return std::nullopt;
  int64_t bytes = bytes_of(value.dtype());
  const char* data = static_cast<const char*>(value.data());
  for (int64_t i = 1; i < value.size(); ++i)
    if (std::string_view(data + i * bytes, bytes) != std::string_view(data, bytes)) return std::nullopt;
  return Literal::from_bytes(value.dtype(), {}, data);
}

bool Candidate::is_number(ir::Val v, double value) const {
  std::optional<Literal> n = number(v);
  if (!n) return false;
  return is_float(n->dtype()) ? n->get(0) == value : n->get_i(0) == static_cast<int64_t>(value);
}

const std::vector<Rule>& canonicalization_rules() {
  static const std::vector<Rule> rules = [] {
    std::vector<Rule> all = arithmetic_rules();
    for (Rule& r : movement_rules()) all.push_back(std::move(r));
    return all;
  }();
  return rules;
}

}  // namespace nabla::passes
