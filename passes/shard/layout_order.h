// The order in which arguments hand their layouts on to other values.
#pragma once

#include <string>
#include <vector>

#include "ir/module.h"
#include "ir/target.h"

namespace nabla::passes {

/// A dimension of a parameter or result of a function. Propagation hands its axes from `axis` on to other values after all others.
/// Example: with w: f32[256@dp] and `axis` dp, activations follow the batch along dp, and w is gathered where it is read.
struct LateAxis {
  std::string function;
  bool is_result;
  size_t index;
  int dim;
  std::string axis;
};
using LateAxes = std::vector<LateAxis>;

/// The orders to compare along one axis of the mesh: in each of them the axis is followed first from one kind of dimension
/// (the batch, the features, ...) and late from all others. Dimensions are of one kind if factors of ops tie them. Empty if
/// only one kind is sharded over the axis, or if no tensor has two of them: then no layouts compete.
std::vector<LateAxes> layout_orders(const ir::Module& flat, const std::string& axis);

/// What one rank needs for a run of all entries, by which orders are compared.
struct RunCost {
  double exchange_us = 0;  ///< bytes over their links, and messages that no bucket joins with others
  double product_us = 0;   ///< matrix products
  double us() const { return exchange_us + product_us; }
};
RunCost run_cost(const ir::Module& local, const ir::Target& target);

}  // namespace nabla::passes
