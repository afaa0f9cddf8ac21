// Functions with derivatives of the user's, and functions that are computed again instead of kept.
#pragma once

#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "frontend/cpp/trace.h"

namespace nabla {

// What the templates below are made of; defined in custom_rules.cc.
std::vector<Tensor> emit_custom_vjp(TracedFunction f, TracedFunction forward, TracedFunction backward,
                                    std::vector<Tensor> operands, const Site& site);
std::vector<Tensor> emit_custom_jvp(TracedFunction f, TracedFunction rule, std::vector<Tensor> operands,
                                    const Site& site);

/// f with a derivative in reverse mode: forward(args...) -> (result, residuals) runs in its place, and
/// backward(residuals, cotangent) -> a tuple of gradients, one per argument. Outer values that the three use count as
/// constant.
template <class F, class G, class H>
auto custom_vjp(F f, G forward, H backward, Site site = Site::here()) {
  return [=](const auto&... args) {
    F own = f;
    G there = forward;
    H back = backward;
    auto [function, result] = trace_like(inner_name("fn"), own, site, args...);
    auto [fwd, kept] = trace_like(inner_name("forward"), there, site, args...);
    static_assert(std::is_same_v<decltype(kept.first), decltype(result)>, "forward returns f's result first");
    auto [bwd, gradients] = trace_like(inner_name("backward"), back, site, kept.second, result);
    static_assert(std::is_same_v<decltype(gradients), std::tuple<std::decay_t<decltype(args)>...>>,
                  "backward returns a tuple of gradients, one per argument");
    std::vector<Tensor> out = emit_custom_vjp(function, fwd, bwd, all_tensors(args...), site);
    return with_tensors(result, out);
  };
}

/// f with a derivative of the user's: rule(args, tangents), both tuples, -> (result, its tangent). The tangent is
/// linear in the tangents, so that reverse mode can transpose it.
template <class F, class G>
auto custom_jvp(F f, G rule, Site site = Site::here()) {
  return [=](const auto&... args) {
    F own = f;
    G both = rule;
    auto [function, result] = trace_like(inner_name("fn"), own, site, args...);
    auto [pushed, results] = trace_like(inner_name("rule"), both, site, std::tuple(args...), std::tuple(args...));
    static_assert(std::is_same_v<decltype(results), std::pair<decltype(result), decltype(result)>>,
                  "the rule returns f's result and its tangent");
    return with_tensors(result, emit_custom_jvp(function, pushed, all_tensors(args...), site));
  };
}

/// Declares the number of examples that batch rules are written for, and gives it.
ir::Dim batch_symbol(const Site& site);
std::vector<Tensor> emit_custom_vmap(TracedFunction f, TracedFunction rule, std::vector<Tensor> operands,
                                     const ir::Dim& size, const Site& site);

/// f with a batch rule: rule(args...) is f on a batch of any size, which is the first dimension of everything;
/// arguments that all examples share are repeated for it. Outer values that both use are the same for all examples; where
/// a vmap maps one of them, f is batched instead. Derivatives are those of f, or of the rule where vmap comes first.
template <class F, class G>
auto custom_vmap(F f, G rule, Site site = Site::here()) {
  return [=](const auto&... args) {
    F own = f;
    G batched = rule;
    auto [function, result] = trace_like(inner_name("fn"), own, site, args...);
    ir::Dim size = batch_symbol(site);
    Tracing tracing(inner_name("batch_rule"), site);
    auto inner = [&](auto copy) {
      for (auto& leaf : leaves_of<Tensor>(copy)) {
        ir::Type type = leaf.second->type();
        type.shape.insert(type.shape.begin(), size);
        *leaf.second = tracing.param(name_of(*leaf.second), type);
      }
      return copy;
    };
    std::tuple<std::decay_t<decltype(args)>...> inside{inner(args)...};
    auto results = std::apply([&](const auto&... a) { return batched(a...); }, inside);
    static_assert(std::is_same_v<decltype(results), decltype(result)>, "the rule returns a tree like f's result");
    TracedFunction traced = tracing.finish(tensors_of(results));
    return with_tensors(result, emit_custom_vmap(function, traced, all_tensors(args...), size, site));
  };
}

/// What reverse mode keeps of a function under remat.
struct RematPolicy {
  std::string policy = "nothing";
  std::string names = {};
};
inline RematPolicy save_nothing() { return {}; }
/// Results of matrix products and convolutions.
inline RematPolicy save_dots() { return {"dots", ""}; }
/// Values of checkpoint_name with one of these names.
RematPolicy save_names(const std::vector<std::string>& names);

/// f, of which reverse mode keeps the arguments and what the policy names; the rest is computed again on the way back.
template <class F>
auto remat(F f, RematPolicy policy = {}, Site site = Site::here()) {
  return [=](const auto&... args) {
    F own = f;
    auto [function, result] = trace_like(inner_name("fn"), own, site, args...);
    ir::Attrs attrs{{"policy", policy.policy}, {"names", policy.names}};
    return with_tensors(result, emit_transform("remat", function, all_tensors(args...), std::move(attrs), site));
  };
}

}  // namespace nabla
