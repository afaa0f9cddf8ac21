// Tracing functions, calling them, and transforming them. Only calls are recorded here: derivatives are made by the
// compiler.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "frontend/cpp/sharding.h"
#include "frontend/cpp/tensor.h"
#include "frontend/cpp/tree.h"
#include "ir/module.h"

namespace nabla {

struct Context;

/// The type of an input or of a state leaf, with a name where one is needed.
struct Spec {
  Spec() = default;
  Spec(DType dtype_in, Shape shape_in) : dtype(dtype_in), shape(std::move(shape_in)) {}
  Spec(std::string name_in, DType dtype_in, Shape shape_in)
      : name(std::move(name_in)), dtype(dtype_in), shape(std::move(shape_in)) {}
  /// Laid out over the program's mesh.
  Spec(std::string name_in, DType dtype_in, Shape shape_in, const P& layout)
      : name(std::move(name_in)), dtype(dtype_in), shape(std::move(shape_in)),
        sharding(std::make_shared<const ir::Sharding>(layout.sharding)) {}
  /// The same, laid out so.
  Spec on(const P& layout) const {
    Spec out = *this;
    out.sharding = std::make_shared<const ir::Sharding>(layout.sharding);
    return out;
  }
  /// The same, of a leaf that lives in the host's memory: programs for GPUs copy it to the device where it is read and back
  /// where it is written, and programs for CPUs keep it as any other. Leaves of optimizers that are declared by this spec do so too.
  Spec host() const {
    Spec out = *this;
    out.memory = ir::MemorySpace::kHost;
    return out;
  }
  std::string name;
  DType dtype = DType::kF32;
  Shape shape;
  ir::ShardingRef sharding = nullptr;  ///< null: propagation decides
  ir::MemorySpace memory = ir::MemorySpace::kDevice;  ///< of a leaf; inputs are the caller's
  ir::Type type() const { return {dtype, shape}; }
};

/// A finished function and the values of enclosing functions that it uses.
struct TracedFunction {
  std::shared_ptr<Context> context;
  ir::FunctionPtr function;
  std::vector<Tensor> captures;
};

/// A function under construction, from the constructor to `finish`. Inside another one it may use that one's values.
class Tracing {
 public:
  /// In the innermost open function's module, or in `context`, or in a new one.
  Tracing(const std::string& name, Site site, std::shared_ptr<Context> context = nullptr);
  ~Tracing();
  Tracing(const Tracing&) = delete;

  Tensor param(const std::string& name, const ir::Type& type);
  TracedFunction finish(const std::vector<Tensor>& results);

 private:
  std::shared_ptr<Frame> frame_;
  std::vector<int> params_;
  Site site_;
  bool open_ = true;
};

// What the templates below are made of; defined in trace.cc.
/// Name of `outer`'s function with "_" and `what`, or `what` outside of a trace.
std::string inner_name(const std::string& what);
/// The value's name in its function; empty: none.
std::string name_of(const Tensor& t);
/// Emits op (call, grad...) of `f` on `operands` followed by f's captures.
std::vector<Tensor> emit_call(const char* op, const TracedFunction& f, std::vector<Tensor> operands, const Ints* wrt,
                              const Site& site);
/// The same with these attributes beside the function.
std::vector<Tensor> emit_transform(const char* op, const TracedFunction& f, std::vector<Tensor> operands,
                                   ir::Attrs attrs, const Site& site);
/// Gives functions that one node names the same captures, the union, in order. Each function has them after so many of
/// its own parameters; kAllOwn: after all.
inline constexpr size_t kAllOwn = static_cast<size_t>(-1);
std::vector<Tensor> share_captures(const std::vector<std::pair<TracedFunction*, size_t>>& functions);
/// The same for jvp: `tangents` are those of the operands; tangents of integers are ignored.
std::vector<Tensor> emit_jvp(const TracedFunction& f, std::vector<Tensor> operands, std::vector<Tensor> tangents,
                             const Site& site);
/// vjp_backward: the gradients of the first `operands` parameters.
std::vector<Tensor> emit_pullback(const TracedFunction& f, const Tensor& residual,
                                  const std::vector<Tensor>& cotangents, size_t operands, const Site& site);
/// The module of a function traced outside of a Program: the function and all that it calls, and the mesh where they lay
/// anything out.
ir::Module module_of(const TracedFunction& f);
/// Whether the function lays a value of its own out over a mesh.
bool lays_out(const ir::Function& f);

/// Copies of the leaves of a tree, in order.
template <class T>
std::vector<Tensor> tensors_of(T tree) {
  std::vector<Tensor> out;
  for (auto& leaf : leaves_of<Tensor>(tree)) out.push_back(*leaf.second);
  return out;
}

/// The leaves of all arguments.
template <class... A>
std::vector<Tensor> all_tensors(const A&... args) {
  std::vector<Tensor> out;
  for (const std::vector<Tensor>& leaves : {std::vector<Tensor>{}, tensors_of(args)...})
    out.insert(out.end(), leaves.begin(), leaves.end());
  return out;
}

/// `tree` with other leaves, taken from `values` beginning at `next`.
template <class T>
T with_tensors(T tree, const std::vector<Tensor>& values, size_t& next) {
  for (auto& leaf : leaves_of<Tensor>(tree)) *leaf.second = values[next++];
  return tree;
}
template <class T>
T with_tensors(T tree, const std::vector<Tensor>& values) {
  size_t next = 0;
  return with_tensors(std::move(tree), values, next);
}

/// A parameter of a function of tensors alone.
template <size_t>
using Argument = Arg;

/// Traces `f` on arguments like `args`; returns the function and its result, whose tensors are of no further use.
template <class F, class... A>
auto trace_like(const std::string& name, F& f, const Site& site, const A&... args) {
  Tracing tracing(name, site);
  auto inner = [&](auto copy) {
    for (auto& leaf : leaves_of<Tensor>(copy)) *leaf.second = tracing.param(name_of(*leaf.second), leaf.second->type());
    return copy;
  };
  std::tuple<A...> inside{inner(args)...};
  auto result = std::apply(
      [&](const A&... a) {
        if constexpr (requires { f.call_at(site, a...); })
          return f.call_at(site, a...);
        else
          return f(a...);
      },
      inside);
  TracedFunction traced = tracing.finish(tensors_of(result));
  return std::pair(std::move(traced), std::move(result));
}

/// What `trace` returns: a function with a fixed signature that can be called, differentiated or looked at.
template <class R, size_t... I>
class Traced {
 public:
  Traced(TracedFunction f, R result) : f_(std::move(f)), result_(std::move(result)) {}

  /// A call of the function in the function being traced. Throws Error when the arguments do not fit.
  R operator()(const Argument<I>&... args) const {
    Site site;
    for (const Arg* a : {static_cast<const Arg*>(nullptr), &args...})
      if (a && site.line == 0) site = a->site();
    return call_at(site, args.tensor()...);
  }
  template <class... T>
  R call_at(const Site& site, const T&... args) const {
    return with_tensors(result_, emit_call("call", f_, {args...}, nullptr, site));
  }
  const std::string& name() const { return f_.function->name; }
  const TracedFunction& function() const { return f_; }
  /// A module of this function and all that it calls, at stage `traced`.
  ir::Module module() const { return module_of(f_); }

 private:
  TracedFunction f_;
  R result_;
};

/// Traces `f` once, on parameters of the types `specs`. Calls of the result become calls in the IR.
template <class F, class... S>
requires(std::is_same_v<S, Spec>&&...) auto trace(const std::string& name, F f, const S&... specs) {
  Tracing tracing(name, Site{});
  // A braced list, because its elements are evaluated in order.
  std::vector<Tensor> params{tracing.param(specs.name, specs.type())...};
  return [&]<size_t... I>(std::index_sequence<I...>) {
    auto result = f(params[I]...);
    TracedFunction traced = tracing.finish(tensors_of(result));
    return Traced<decltype(result), I...>(std::move(traced), std::move(result));
  }
  (std::index_sequence_for<S...>{});
}

/// Which arguments to differentiate by: `grad(f, wrt<0, 2>)`.
template <size_t... I>
struct Wrt {};
template <size_t... I>
inline constexpr Wrt<I...> wrt{};

/// What grad and value_and_grad return: call it with f's arguments.
template <bool kWithValue, class F, size_t... I>
class Gradient {
 public:
  Gradient(F f, Site site) : f_(std::move(f)), site_(site) {}

  template <class... A>
  auto operator()(const A&... args) const {
    static_assert(((I < sizeof...(A)) && ...), "wrt names an argument that f does not have");
    F f = f_;
    auto [traced, result] = trace_like(inner_name("fn"), f, site_, args...);
    std::vector<std::vector<Tensor>> trees{tensors_of(args)...};
    std::vector<Tensor> operands;
    std::vector<int64_t> first;
    for (const std::vector<Tensor>& tree : trees) {
      first.push_back(static_cast<int64_t>(operands.size()));
      operands.insert(operands.end(), tree.begin(), tree.end());
    }
    Ints positions;
    for (size_t argument : {I...})
      for (size_t k = 0; k < trees[argument].size(); ++k)
        positions.push_back(first[argument] + static_cast<int64_t>(k));
    std::vector<Tensor> out =
        emit_call(kWithValue ? "value_and_grad" : "grad", traced, std::move(operands), &positions, site_);
    size_t next = 0;
    std::tuple<const A&...> all(args...);
    if constexpr (kWithValue) {
      auto value = with_tensors(std::move(result), out, next);
      return std::pair(std::move(value), gradients(all, out, next));
    } else {
      return gradients(all, out, next);
    }
  }

 private:
  template <class Tuple>
  static auto gradients(const Tuple& args, const std::vector<Tensor>& out, size_t& next) {
    // Braces: evaluated in order. Types are named: of one pair or tuple std::tuple{...} would make its parts.
    std::tuple<std::remove_cvref_t<decltype(std::get<I>(args))>...> all{with_tensors(std::get<I>(args), out, next)...};
    if constexpr (sizeof...(I) == 1)
      return std::get<0>(std::move(all));
    else
      return all;
  }
  F f_;
  Site site_;
};

/// The gradients of f's first result, a floating scalar, by the arguments that `wrt` names (the first one): shaped like
/// the argument, or a tuple when there are several.
template <class F, size_t... I>
auto grad(F f, Wrt<I...>, Site site = Site::here()) {
  return Gradient<false, F, I...>(std::move(f), site);
}
template <class F>
auto grad(F f, Site site = Site::here()) {
  return Gradient<false, F, 0>(std::move(f), site);
}

/// f's result and its gradients, as a pair.
template <class F, size_t... I>
auto value_and_grad(F f, Wrt<I...>, Site site = Site::here()) {
  return Gradient<true, F, I...>(std::move(f), site);
}
template <class F>
auto value_and_grad(F f, Site site = Site::here()) {
  return Gradient<true, F, 0>(std::move(f), site);
}

/// f at `args` and its derivative in the direction `tangents`, which are shaped like them: a pair of results. Both are
/// tuples with one element per argument.
template <class F, class... A>
auto jvp(F f, const std::tuple<A...>& args, const std::tuple<A...>& tangents, Site site = Site::here()) {
  return std::apply(
      [&](const A&... a) {
        auto [traced, result] = trace_like(inner_name("fn"), f, site, a...);
        std::vector<Tensor> out = emit_jvp(traced, tensors_of(args), tensors_of(tangents), site);
        size_t next = 0;
        auto value = with_tensors(result, out, next);
        return std::pair(std::move(value), with_tensors(result, out, next));
      },
      args);
}
/// The same for a function of one argument.
template <class F>
auto jvp(F f, const Tensor& arg, const Tensor& tangent, Site site = Site::here()) {
  return jvp(std::move(f), std::tuple{arg}, std::tuple{tangent}, site);
}
template <class F, class A>
requires(!std::is_convertible_v<A, Tensor>) auto jvp(F f, const A& arg, const A& tangent, Site site = Site::here()) {
  return jvp(std::move(f), std::tuple<A>(arg), std::tuple<A>(tangent), site);
}

/// f at `args`, and a pullback: a function from a cotangent shaped like the result to a tuple of gradients, one per
/// argument. It may be called more than once, in the function being traced.
template <class F, class... A>
auto vjp(F f, const std::tuple<A...>& args, Site site = Site::here()) {
  return std::apply(
      [&](const A&... a) {
        auto [traced, result] = trace_like(inner_name("fn"), f, site, a...);
        std::vector<Tensor> out = emit_call("vjp_forward", traced, tensors_of(args), nullptr, site);
        Tensor residual = out.back();
        using R = decltype(result);
        size_t count = tensors_of(args).size();
        auto pullback = [traced = traced, residual, args, count, site](const R& cotangent) {
          return with_tensors(args, emit_pullback(traced, residual, tensors_of(cotangent), count, site));
        };
        return std::pair(with_tensors(result, out), std::move(pullback));
      },
      args);
}
/// The same for a function of one argument.
template <class F>
auto vjp(F f, const Tensor& arg, Site site = Site::here()) {
  return vjp(std::move(f), std::tuple{arg}, site);
}
template <class F, class A>
requires(!std::is_convertible_v<A, Tensor>) auto vjp(F f, const A& arg, Site site = Site::here()) {
  return vjp(std::move(f), std::tuple<A>(arg), site);
}

}  // namespace nabla
