// Transforms beyond trace.h: batching, and what follows from composing transforms. Calls alone; no maths.
#pragma once

#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "frontend/cpp/convenience.h"
#include "frontend/cpp/trace.h"

namespace nabla {

/// Where the batch is: a dimension, which may count from the end, or none.
using Axis = std::optional<int>;
inline constexpr std::nullopt_t unmapped = std::nullopt;

struct VmapOptions {
  std::vector<Axis> in_axes = {0};        ///< one for all arguments, or one per argument; for all leaves of its tree
  std::vector<Axis> out_axes = {0};       ///< one for all tensors of the result, or one per tensor
  std::optional<ir::Dim> axis_size = {};  ///< of the batch; needed when nothing is mapped
  /// The axis of the program's mesh along which `shard` inside of the function lays out the batch; empty: propagation
  /// decides. E0210 where there is no such axis.
  std::string spmd_axis_name = {};
};

// What the templates below are made of; defined in transforms.cc.
/// The types of the examples: those of the operands without the mapped dimensions.
class Mapped {
 public:
  /// `leaves`: the number of tensors of each argument.
  Mapped(const VmapOptions& options, std::vector<Tensor> operands, const std::vector<size_t>& leaves, Site site);
  ir::Type example(size_t operand) const { return examples_[operand]; }
  /// The call, with f's captures unmapped.
  std::vector<Tensor> call(const TracedFunction& f) const;

 private:
  VmapOptions options_;
  std::vector<Tensor> operands_;
  std::vector<ir::Type> examples_;
  Ints in_axes_;
  Site site_;
};
/// The unit vectors of x's shape: [n, *x.shape] where x has n elements.
Tensor unit_vectors(const Tensor& x);
/// Dimension `from` of x, which has prod(shape) elements, becomes the dimensions `shape`.
Tensor unflattened(const Tensor& x, int from, const Shape& shape);

/// What vmap returns: call it with f's arguments.
template <class F>
class Vmapped {
 public:
  Vmapped(F f, VmapOptions options, Site site) : f_(std::move(f)), options_(std::move(options)), site_(site) {}

  template <class... A>
  auto operator()(const A&... args) const {
    F f = f_;
    std::vector<Tensor> operands;
    std::vector<size_t> leaves;
    for (const std::vector<Tensor>& tree : {tensors_of(args)...}) {
      leaves.push_back(tree.size());
      operands.insert(operands.end(), tree.begin(), tree.end());
    }
    Mapped mapped(options_, std::move(operands), leaves, site_);
    Tracing tracing(inner_name("fn"), site_);
    size_t next = 0;
    auto inner = [&](auto copy) {
      for (auto& leaf : leaves_of<Tensor>(copy))
        *leaf.second = tracing.param(name_of(*leaf.second), mapped.example(next++));
      return copy;
    };
    std::tuple<A...> inside{inner(args)...};
    auto result = std::apply([&](const A&... a) { return f(a...); }, inside);
    TracedFunction traced = tracing.finish(tensors_of(result));
    return with_tensors(std::move(result), mapped.call(traced));
  }

 private:
  F f_;
  VmapOptions options_;
  Site site_;
};

/// f on every example of a batch, at once. f sees one example: the arguments without their mapped dimension.
template <class F>
auto vmap(F f, VmapOptions options = {}, Site site = Site::here()) {
  return Vmapped<F>(std::move(f), std::move(options), site);
}

/// f at `args`, and its derivative there: a function from a tuple of tangents to the tangent of the result. What does
/// not depend on the tangents is computed once; it may be called more than once, in the function being traced.
template <class F, class... A>
auto linearize(F f, const std::tuple<A...>& args, Site site = Site::here()) {
  auto [value, pullback] = vjp(std::move(f), args, site);
  // The derivative is the transpose of its transpose, the pullback, which is linear: any cotangent will do.
  auto somewhere = value;
  for (auto& leaf : leaves_of<Tensor>(somewhere)) *leaf.second = zeros_like({*leaf.second, site});
  auto transpose = vjp(pullback, std::tuple{std::move(somewhere)}, site).second;
  auto linear = [transpose](const std::tuple<A...>& tangents) { return std::get<0>(transpose(tangents)); };
  return std::pair(std::move(value), std::move(linear));
}
/// The same for a function of one argument.
template <class F>
auto linearize(F f, const Tensor& arg, Site site = Site::here()) {
  auto [value, linear] = linearize(std::move(f), std::tuple{arg}, site);
  auto one = [linear = linear](const Tensor& tangent) { return linear(std::tuple{tangent}); };
  return std::pair(std::move(value), std::move(one));
}

/// The derivatives of f's result by argument I, a tensor: every tensor of the result becomes one of the shape
/// [*result, *argument]. One sweep in forward mode per element of the argument, all at once.
template <size_t I = 0, class F>
auto jacfwd(F f, Wrt<I> = {}, Site site = Site::here()) {
  return [f = std::move(f), site](const auto&... args) {
    const Tensor x = std::get<I>(std::tie(args...));
    auto along = [&](const Tensor& direction) {
      auto of_x = [&](const Tensor& moved) {
        std::tuple inside(args...);
        std::get<I>(inside) = moved;
        F g = f;
        return std::apply([&](const auto&... a) { return g(a...); }, inside);
      };
      return jvp(of_x, x, direction, site).second;
    };
    auto out = vmap(along, {.out_axes = {-1}}, site)(unit_vectors(x));
    for (auto& leaf : leaves_of<Tensor>(out))
      *leaf.second = unflattened(*leaf.second, leaf.second->rank() - 1, x.shape());
    return out;
  };
}

/// The same in reverse mode: one sweep per element of f's result, which is one tensor.
template <size_t I = 0, class F>
auto jacrev(F f, Wrt<I> = {}, Site site = Site::here()) {
  return [f = std::move(f), site](const auto&... args) {
    const Tensor x = std::get<I>(std::tie(args...));
    auto of_x = [&](const Tensor& moved) {
      std::tuple inside(args...);
      std::get<I>(inside) = moved;
      F g = f;
      return std::apply([&](const auto&... a) { return g(a...); }, inside);
    };
    auto [y, pullback] = vjp(of_x, x, site);
    auto back = [pullback = pullback](const Tensor& ct) { return std::get<0>(pullback(ct)); };
    return unflattened(vmap(back, {}, site)(unit_vectors(y)), 0, y.shape());
  };
}

/// The second derivatives of f's result, one tensor, by argument I: [*result, *argument, *argument].
template <size_t I = 0, class F>
auto hessian(F f, Wrt<I> = {}, Site site = Site::here()) {
  return jacfwd(jacrev(std::move(f), Wrt<I>{}, site), Wrt<I>{}, site);
}

/// The Hessian of f, a floating scalar of one tensor, times v; the Hessian itself is never there.
template <class F>
Tensor hvp(F f, const Tensor& x, const Tensor& v, Site site = Site::here()) {
  return jvp(grad(std::move(f), site), x, v, site).second;
}

}  // namespace nabla
