// Building blocks of models: initial values and optimizers over structs of parameters.
#pragma once

#include <string>

#include "frontend/cpp/convenience.h"
#include "frontend/cpp/program.h"

namespace nabla::nn {

/// Weights and bias of a linear layer or a convolution.
template <class T>
struct Affine {
  T w, b;
  template <class V>
  void visit(V&& v) {
    v("w", w);
    v("b", b);
  }
};

/// w [in, out] and b [out].
inline Affine<Spec> dense_spec(int64_t in, int64_t out) { return {{f32, {in, out}}, {f32, {out}}}; }
/// w [taps, taps, in, out] and b [out].
inline Affine<Spec> conv_spec(int64_t taps, int64_t in, int64_t out) {
  return {{f32, {taps, taps, in, out}}, {f32, {out}}};
}
/// He's initial values: w uniform in +-sqrt(6 / fan_in), b zero; fan_in is the product of all extents of w but the
/// last.
void init_affine(const Affine<State>& layer, const Arg& key);
/// x [..., in] times w plus b.
Tensor dense(const Arg& x, const Affine<Tensor>& layer);

/// AdamW over a struct of parameters. The moments and the step counter are state leaves.
template <template <class> class P>
class AdamW {
 public:
  struct Options {
    double beta1 = 0.9, beta2 = 0.999, eps = 1e-8, weight_decay = 0.01;
  };

  /// Declares the leaves "PREFIX.m...", "PREFIX.v..." and "PREFIX.step".
  AdamW(Program& program, const P<Spec>& specs, Options options, const std::string& prefix = "adamw",
        Site site = Site::here())
      : m_(program.states(prefix + ".m", specs, site)),
        v_(program.states(prefix + ".v", specs, site)),
        step_(program.state(prefix + ".step", i32, {}, site)),
        options_(options) {}

  /// In the entry that makes the parameters: moments and step become 0.
  void init(Site site = Site::here()) {
    for (P<State>* moments : {&m_, &v_})
      for (auto& leaf : leaves_of<State>(*moments))
        leaf.second->set(Arg(zeros(leaf.second->type().shape, leaf.second->type().dtype, site), site));
    step_.set(Arg(zeros({}, i32, site), site));
  }

  /// Updates the parameters and its own state.
  void apply(P<State> params, P<Tensor> gradients, const Arg& lr, Site site = Site::here()) {
    Tensor step = Arg(step_.get(site), site) + Arg(1, site);
    step_.set(Arg(step, site));
    auto p = leaves_of<State>(params);
    auto g = leaves_of<Tensor>(gradients);
    auto m = leaves_of<State>(m_);
    auto v = leaves_of<State>(v_);
    for (size_t i = 0; i < p.size(); ++i) {
      auto [new_p, new_m, new_v] =
          adamw_update(Arg(p[i].second->get(site), site), Arg(*g[i].second, site), Arg(m[i].second->get(site), site),
                       Arg(v[i].second->get(site), site), Arg(step, site), lr, options_.weight_decay, options_.beta1,
                       options_.beta2, options_.eps);
      p[i].second->set(Arg(new_p, site));
      m[i].second->set(Arg(new_m, site));
      v[i].second->set(Arg(new_v, site));
    }
  }

 private:
  P<State> m_, v_;
  State step_;
  Options options_;
};

}  // namespace nabla::nn
