// Training in 16-bit floats: autocast, and scaling of losses whose gradients f16 could not hold.
// Micikevicius et al., "Mixed Precision Training", 2018.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "frontend/cpp/program.h"

namespace nabla {

/// f with its matrix products and convolutions in bf16 or f16 where it has f32; arguments, results, gradients by the
/// arguments and everything that is summed stay f32. Wherever it stands among other transforms, it acts on what is
/// inside it: value_and_grad(autocast(f)) also goes backward in 16 bits. E0204 for another dtype.
template <class F>
auto autocast(F f, DType dtype = bf16, Site site = Site::here()) {
  return [=](const auto&... args) {
    F own = f;
    auto [function, result] = trace_like(inner_name("fn"), own, site, args...);
    return with_tensors(result, emit_transform("autocast", function, all_tensors(args...), {{"dtype", dtype}}, site));
  };
}

namespace nn {

/// bool scalar: no element is infinite or NaN.
Tensor all_finite(const std::vector<Tensor>& tensors, Site site = Site::here());

struct LossScaleOptions {
  double initial = 65536;   ///< the first scale
  double growth = 2;        ///< factor after `interval` updates without overflow
  double backoff = 0.5;     ///< factor after an overflow
  int64_t interval = 2000;  ///< updates
  double least = 1, most = 16777216;
};

/// The factor that keeps small gradients above the least f16 number, raised while all goes well and lowered after an
/// overflow; f16 needs it, bf16 does not. State leaves PREFIX.scale (f32) and PREFIX.good (i32).
///
///   auto [scaled, g] = value_and_grad([&](P<Tensor> p) { return scale.scaled(loss(p)); })(values);
///   auto [gradients, finite] = scale.unscaled(g);
///   optimizer.apply(parameters, gradients, rate, finite);   // a step that overflowed changes nothing but the scale
class LossScale {
 public:
  explicit LossScale(Program& program, LossScaleOptions options = {}, const std::string& prefix = "loss_scale",
                     Site site = Site::here());

  /// In the entry that makes the parameters.
  void init(Site site = Site::here());
  /// The factor at hand, f32.
  Tensor value(Site site = Site::here()) const { return scale_.get(site); }
  /// An f32 loss times the factor.
  Tensor scaled(const Tensor& loss, Site site = Site::here()) const;
  /// Gradients of the scaled loss (a struct of tensors) divided by the factor, and whether all of them are finite;
  /// moves the factor for the next step.
  template <class Tree>
  std::pair<Tree, Tensor> unscaled(Tree gradients, Site site = Site::here()) {
    std::vector<Tensor> all;
    for (auto& leaf : leaves_of<Tensor>(gradients)) {
      *leaf.second = divided(*leaf.second, site);
      all.push_back(*leaf.second);
    }
    Tensor finite = all_finite(all, site);
    move(finite, site);
    return {gradients, finite};
  }

 private:
  Tensor divided(const Tensor& gradient, const Site& site) const;
  void move(const Tensor& finite, const Site& site);

  LossScaleOptions options_;
  State scale_, good_;
};

}  // namespace nn
}  // namespace nabla
