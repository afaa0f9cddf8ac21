// Optimizers over structs of parameters, clipping of gradients, and schedules of learning rates: plain graph functions.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "frontend/cpp/array.h"
#include "frontend/cpp/emit.h"
#include "frontend/cpp/program.h"

namespace nabla::nn {

// ---- Learning rates by step: an integer scalar, counted from 1; the result is an f32 scalar

struct CosineSchedule {
  double peak = 1e-3, final = 0;  ///< learning rates after warm-up and at the end
  int64_t warmup = 0;             ///< steps in which the rate grows linearly from 0 to peak
  int64_t total = 1;              ///< steps after which it stays at final
};
/// Linear warm-up, then half a cosine from peak to final.
Tensor cosine_schedule(const Arg& step, const CosineSchedule& options);
/// Linear warm-up, then linear to `final`; the same options.
Tensor linear_schedule(const Arg& step, const CosineSchedule& options);
/// peak * sqrt(warmup / step) after a linear warm-up (at least 1 step).
Tensor inverse_sqrt_schedule(const Arg& step, double peak, int64_t warmup);
/// rate * factor^floor((step - 1) / every).
Tensor step_decay_schedule(const Arg& step, double rate, double factor, int64_t every);

// ---- Gradients

/// Square root of the sum of all squares: f64 if one of the tensors is f64, else f32.
Tensor global_norm(const std::vector<Tensor>& tensors, Site site = Site::here());
/// min(1, max_norm / norm): what clipping multiplies by. A norm that is not finite gives NaN, so that it shows.
Tensor clip_factor(const Arg& norm, double max_norm);

/// The gradients scaled down so that their global norm is at most max_norm, and the norm before.
template <template <class> class P>
std::pair<P<Tensor>, Tensor> clip_by_global_norm(P<Tensor> gradients, double max_norm, Site site = Site::here()) {
  auto leaves = leaves_of<Tensor>(gradients);
  std::vector<Tensor> all;
  for (auto& [name, t] : leaves) all.push_back(*t);
  Tensor norm = global_norm(all, site), factor = clip_factor(Arg(norm, site), max_norm);
  // The products are computed in the dtype of the factor, which may be too small for a number of f16.
  for (auto& [name, t] : leaves)
    *t = in_dtype(Arg(in_dtype(*t, factor.dtype()), site) * Arg(factor, site), t->dtype());
  return {gradients, norm};
}
/// Every element kept within [-bound, bound].
template <template <class> class P>
P<Tensor> clip_by_value(P<Tensor> gradients, double bound, Site site = Site::here()) {
  for (auto& [name, t] : leaves_of<Tensor>(gradients)) *t = clip(Arg(*t, site), Arg(-bound, site), Arg(bound, site));
  return gradients;
}

// ---- Rules

/// What an optimizer does to one parameter.
struct OptimizerRule {
  struct Slot {
    std::string name;  ///< of the state leaf: "PREFIX.NAME.PARAMETER"
    std::function<Shape(const Shape&)> shape = [](const Shape& s) { return s; };  ///< from the parameter's
  };
  std::string name;
  std::vector<Slot> slots;
  /// The new parameter; `slots` come with their old values and leave with the new ones. `step` counts from 1.
  std::function<Tensor(const Tensor& param, const Tensor& grad, std::vector<Tensor>& slots, const Tensor& step,
                       const Arg& lr)>
      update;
  /// `update`, whose nodes carry `site` as their place. Parameters of 16 bits are updated in f32, and what comes of it,
  /// slots too, is rounded once: an eps of 1e-8 is 0 in f16.
  Tensor updated(const Tensor& param, const Tensor& grad, std::vector<Tensor>& slots, const Tensor& step, const Arg& lr,
                 const Site& site) const;
};

/// p - lr (g + weight_decay p); with momentum as in PyTorch, without dampening.
OptimizerRule sgd(double momentum = 0, bool nesterov = false, double weight_decay = 0);
/// Kingma and Ba, 2014; weight_decay is added to the gradient (for the decoupled one see AdamW).
OptimizerRule adam(double beta1 = 0.9, double beta2 = 0.999, double eps = 1e-8, double weight_decay = 0);
/// Loshchilov and Hutter, 2017.
OptimizerRule adamw(double beta1 = 0.9, double beta2 = 0.999, double eps = 1e-8, double weight_decay = 0.01);
/// Tieleman and Hinton, 2012; with momentum as in PyTorch: b' = momentum b + g / (sqrt(v) + eps).
OptimizerRule rmsprop(double decay = 0.99, double eps = 1e-8, double momentum = 0, double weight_decay = 0);
/// Duchi, Hazan and Singer, 2011.
OptimizerRule adagrad(double eps = 1e-10, double weight_decay = 0);
/// Chen et al., 2023: the sign of an interpolation of momentum and gradient.
OptimizerRule lion(double beta1 = 0.9, double beta2 = 0.99, double weight_decay = 0);

struct AdafactorOptions {
  double eps = 1e-30;              ///< added to squared gradients
  double clip = 1;                 ///< bound of the update's root mean square
  double decay_exponent = -0.8;    ///< the share of the past is 1 - step^decay_exponent
  bool scale_by_parameter = true;  ///< lr times max(1e-3, root mean square of the parameter)
  double weight_decay = 0;         ///< decoupled, times lr
};
/// Shazeer and Stern, 2018, without momentum. Second moments of matrices (the last two dimensions) are kept as a row
/// and a column of means.
OptimizerRule adafactor(const AdafactorOptions& options = {});

/// A rule over a struct of parameters. Its slots and the step counter are state leaves.
template <template <class> class P>
class Optimizer {
 public:
  Optimizer(Program& program, const P<Spec>& specs, OptimizerRule rule, const std::string& prefix = "optimizer",
            Site site = Site::here())
      : rule_(std::move(rule)), step_(program.state(prefix + ".step", i32, {}, site)) {
    for (const OptimizerRule::Slot& slot : rule_.slots) {
      P<Spec> shapes = specs;
      for (auto& [name, spec] : leaves_of<Spec>(shapes)) spec->shape = slot.shape(spec->shape);
      slots_.push_back(program.states(prefix + "." + slot.name, shapes, site));
    }
  }

  /// In the entry that makes the parameters: slots and step become 0.
  void init(Site site = Site::here()) {
    for (P<State>& slot : slots_)
      for (auto& [name, leaf] : leaves_of<State>(slot))
        leaf->set(Arg(zeros(leaf->type().shape, leaf->type().dtype, site), site));
    step_.set(Arg(zeros({}, i32, site), site));
  }

  /// How many updates there have been.
  Tensor step(Site site = Site::here()) const { return step_.get(site); }

  /// Updates the parameters and its own state; with `only_if`, a bool scalar, where that holds.
  void apply(P<State> params, P<Tensor> gradients, const Arg& lr, std::optional<Tensor> only_if = {},
             Site site = Site::here()) {
    auto set = [&](const State& leaf, const Tensor& fresh) {
      leaf.set(
          Arg(only_if ? select(Arg(*only_if, site), Arg(fresh, site), Arg(leaf.get(site), site), site) : fresh, site));
    };
    Tensor step = Arg(step_.get(site), site) + Arg(1, site);
    set(step_, step);
    auto p = leaves_of<State>(params);
    auto g = leaves_of<Tensor>(gradients);
    std::vector<NamedLeaves<State>> leaves;
    for (P<State>& slot : slots_) leaves.push_back(leaves_of<State>(slot));
    for (size_t i = 0; i < p.size(); ++i) {
      std::vector<Tensor> values;
      for (auto& slot : leaves) values.push_back(slot[i].second->get(site));
      Tensor updated = rule_.updated(p[i].second->get(site), *g[i].second, values, step, lr, site);
      set(*p[i].second, updated);
      for (size_t s = 0; s < leaves.size(); ++s) set(*leaves[s][i].second, values[s]);
    }
  }

 private:
  OptimizerRule rule_;
  State step_;
  std::vector<P<State>> slots_;
};

}  // namespace nabla::nn
