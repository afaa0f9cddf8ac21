// The two ways through a function: with tangents from front to back, with cotangents from back to front.
#pragma once

#include <vector>

#include "passes/transform/differentiate.h"

namespace nabla::passes {

/// Which values carry derivatives: floating ones that depend on an active parameter and lead to a wanted result.
struct Activity {
  Activity(const ir::Function& f, const std::vector<bool>& active_params, const std::vector<bool>& wanted_results);
  std::vector<bool> depends;                            ///< per value: floating and computed from an active parameter
  std::vector<bool> active;                             ///< per value
  bool any(const std::vector<ir::ValueId>& ids) const;  ///< is one of them active?
};

/// Copies f into `b` on these arguments and pushes tangents along; `values` and `tangents` are then those of f's
/// results.
struct Pushed {
  std::vector<ir::Val> values;
  std::vector<ir::MaybeVal> tangents;
};
Pushed push_forward(Differentiator& d, ir::FunctionBuilder& b, const ir::Function& f, const std::vector<ir::Val>& args,
                    const std::vector<ir::MaybeVal>& tangents);

/// Copies f into a builder, then pulls cotangents back through the copy.
class ReverseSweep {
 public:
  /// Emits f's nodes on these arguments. All references outlive the sweep.
  ReverseSweep(Differentiator& d, ir::FunctionBuilder& b, const ir::Function& f, const std::vector<ir::Val>& args,
               const std::vector<bool>& active_params, const std::vector<bool>& wanted_results);
  /// Values of f's results.
  std::vector<ir::Val> results() const { return pick(f_.results); }
  /// Emits the way back. Cotangents of f's results (absent: zero) -> cotangents of its parameters, absent where
  /// nothing flows back.
  std::vector<ir::MaybeVal> pull_back(const std::vector<ir::MaybeVal>& cotangents);

 private:
  std::vector<ir::Val> pick(const std::vector<ir::ValueId>& ids) const;
  std::vector<ir::MaybeVal> pull_back_node(size_t n, const std::vector<ir::MaybeVal>& cotangents);
  std::vector<bool> wanted_operands(const ir::Node& node) const;
  void accumulate(ir::ValueId id, const ir::MaybeVal& ct);

  Differentiator& d_;
  ir::FunctionBuilder& b_;
  const ir::Function& f_;
  Activity activity_;
  std::vector<ir::Val> values_;
  std::vector<ir::MaybeVal> cotangents_;
  std::vector<std::vector<ir::Val>> residuals_;  // per node
};

}  // namespace nabla::passes
