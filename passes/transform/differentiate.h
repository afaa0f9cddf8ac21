// Derivatives of functions, composed from the rules of the ops. Nothing here knows an op by name.
#pragma once

#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "ir/op_def.h"

namespace nabla::passes {

/// Which function is derived from f.
enum class Derivative : uint8_t {
  kVjpForward,    ///< f's parameters -> f's results, then residuals
  kVjpBackward,   ///< residuals, a cotangent per result of f -> gradients of the active parameters
  kJvp,           ///< f's parameters, tangents of the active ones -> f's results, then a tangent of each
  kGrad,          ///< f's parameters -> gradients of its first result, a scalar, by the active parameters
  kValueAndGrad,  ///< f's parameters -> f's results, then those gradients
};

/// A function that computes the forward pass in its first `forward_nodes` nodes, and then the backward pass.
struct Joint {
  ir::Function f;
  size_t primal_params = 0, forward_nodes = 0;
  std::vector<ir::ValueId> primal_results;
};

/// Makes derived functions on demand and adds them to a module, each once. An op without a derivative on an active
/// path counts as constant and is noted in errors(), so that one run finds all of them.
class Differentiator {
 public:
  /// Both outlive it. Functions that are derived from must be free of transforms.
  Differentiator(ir::Module& module, const ir::OpTable& ops) : module_(module), ops_(ops) {}
  Differentiator(const Differentiator&) = delete;

  /// Name of the derived function in the module. `active`, one per parameter, says by which ones to differentiate;
  /// those that are not floating never are. Requires that the module has `function`.
  std::string derive(std::string_view function, Derivative kind, std::vector<bool> active);
  /// Derivative::kVjpBackward that reads only the cotangents of the `given` results.
  std::string derive_backward(std::string_view function, std::vector<bool> active, const std::vector<bool>& given);
  /// `active` with every floating parameter.
  static std::vector<bool> all_active(const ir::Function& f);

  const Diagnostics& errors() const { return errors_; }
  /// Notes that a node of f stands on an active path and cannot be differentiated.
  void refuse(const ir::Function& f, const ir::Node& node, Code code, std::string_view reason);
  /// Adds a function under its name or a similar one.
  std::string define(ir::Function f);
  const ir::OpTable& ops() const { return ops_; }
  const ir::Module& module() const { return module_; }

 private:
  /// The function, the derivative, the active parameters, and for kVjpBackward the results that have cotangents.
  using Key = std::tuple<std::string, Derivative, std::vector<bool>, std::vector<bool>>;
  ir::FunctionPtr need(std::string_view function) const;
  std::string name_for(const ir::Function& f, Derivative kind, const std::vector<bool>& active) const;
  ir::Function make_jvp(const ir::Function& f, const std::vector<bool>& active, std::string name);
  ir::Function make_grad(const ir::Function& f, const std::vector<bool>& active, bool with_values, std::string name);
  Joint both_ways(const ir::Function& f, const std::vector<bool>& active, const std::vector<bool>& given);
  void make_vjp(const ir::Function& f, const std::vector<bool>& active);
  std::string make_backward(const ir::Function& f, const std::vector<bool>& active, const std::vector<bool>& given);

  ir::Module& module_;
  const ir::OpTable& ops_;
  std::map<Key, std::string> names_;
  std::map<Key, std::vector<ir::ValueId>> residuals_;  ///< value ids in `both_ways`, by the key of kVjpForward
  Diagnostics errors_;
};

/// What derivative rules of higher-order ops ask for, about one node of f. All references outlive it.
class DerivativeFunctions : public ir::Functions {
 public:
  DerivativeFunctions(Differentiator& d, const ir::Function& f, const ir::Node& node) : d_(d), f_(f), node_(node) {}
  std::string derive(std::string_view function, ir::Transform transform, std::vector<bool> active) override;
  std::string derive_backward(std::string_view function, std::vector<bool> active, std::vector<bool> given) override {
    return d_.derive_backward(function, std::move(active), given);
  }
  std::vector<bool> depends(std::string_view function, const std::vector<bool>& params) override;
  ir::BatchedFunction batch(std::string_view function, std::vector<bool> params, std::vector<bool> forced) override;
  std::string define(ir::Function f) override { return d_.define(std::move(f)); }
  const ir::Function& get(std::string_view function) const override { return *d_.module().find(function); }
  void refuse(std::string_view reason) override { d_.refuse(f_, node_, Code::kNotDifferentiable, reason); }

 private:
  Differentiator& d_;
  const ir::Function& f_;
  const ir::Node& node_;
};

}  // namespace nabla::passes
