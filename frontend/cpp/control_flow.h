// Branches and loops. Bodies are lambdas over tensors or trees of them; each is traced once, whatever the number of
// iterations, and may use values of the enclosing function.
#pragma once

#include <algorithm>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "frontend/cpp/trace.h"

namespace nabla {

// What the templates below are made of; defined in control_flow.cc. Functions take what they close over as operands.
std::vector<Tensor> emit_cond(const Arg& pred, std::vector<TracedFunction> branches, const std::vector<Tensor>& args,
                              const Site& site);
std::vector<Tensor> emit_switch(const Arg& index, std::vector<TracedFunction> branches, const std::vector<Tensor>& args,
                                const Site& site);
std::vector<Tensor> emit_while(TracedFunction cond, TracedFunction body, const std::vector<Tensor>& init,
                               int64_t trip_count, const Site& site);
std::vector<Tensor> emit_scan(TracedFunction body, const std::vector<Tensor>& init, const std::vector<Tensor>& xs,
                              const ir::Dim& length, bool reverse, const Site& site);
/// A constant i32 scalar.
Tensor counter(int64_t value, const Site& site);
/// The common extent of the sequences, or `given`; throws Error (E0204) when there is neither.
ir::Dim length_of(const std::vector<Tensor>& xs, const std::optional<ir::Dim>& given, const Site& site);
/// The type without its first dimension; throws Error (E0203) when there is none.
ir::Type slice_type(const Tensor& x, const Site& site);

/// then(args...) where pred, a bool[], holds, else otherwise(args...). Both return trees of the same types.
template <class F, class G, class... A>
auto cond(const Arg& pred, F then, G otherwise, const A&... args) {
  const Site& site = pred.site();
  auto [f, result] = trace_like(inner_name("then"), then, site, args...);
  auto [g, other] = trace_like(inner_name("else"), otherwise, site, args...);
  static_assert(std::is_same_v<decltype(result), decltype(other)>, "both branches return trees of one shape");
  return with_tensors(result, emit_cond(pred, {f, g}, all_tensors(args...), site));
}

/// branches[index](args...); an index out of range runs the first or the last one. All return trees of the same types.
template <class... F, class... A>
auto switch_(const Arg& index, std::tuple<F...> branches, const A&... args) {
  const Site& site = index.site();
  std::vector<TracedFunction> traced;
  auto one = [&](auto& f) {
    auto [function, result] = trace_like(inner_name("branch"), f, site, args...);
    traced.push_back(std::move(function));
    return std::move(result);
  };
  auto results = std::apply([&](auto&... f) { return std::tuple{one(f)...}; }, branches);
  return with_tensors(std::get<0>(results), emit_switch(index, std::move(traced), all_tensors(args...), site));
}

/// body(state) again and again, as long as cond(state), a bool[], holds. With a trip_count >= 0 it runs exactly that
/// often, cond is not asked, and the loop has a derivative in reverse mode.
template <class C, class B, class T>
T while_loop(C cond, B body, const T& init, int64_t trip_count = -1, Site site = Site::here()) {
  auto [go, flag] = trace_like(inner_name("while_cond"), cond, site, init);
  auto [step, next] = trace_like(inner_name("while_body"), body, site, init);
  static_assert(std::is_same_v<decltype(flag), Tensor>, "the condition is one tensor");
  static_assert(std::is_same_v<decltype(next), T>, "the body returns a state like the one it gets");
  return with_tensors(init, emit_while(go, step, tensors_of(init), trip_count, site));
}

/// body(i, state) for i = begin, ..., end-1, as i32. It has a derivative in reverse mode.
template <class B, class T>
T fori_loop(int64_t begin, int64_t end, B body, const T& init, Site site = Site::here()) {
  std::pair<Tensor, T> start(counter(begin, site), init);
  auto cond = [&](const std::pair<Tensor, T>& s) { return s.first < end; };
  auto step = [&](const std::pair<Tensor, T>& s) {
    T next = body(s.first, s.second);
    return std::pair<Tensor, T>(s.first + 1, std::move(next));
  };
  return while_loop(cond, step, start, std::max<int64_t>(end - begin, 0), site).second;
}

struct ScanOptions {
  bool reverse = false;                ///< begin with the last slice
  std::optional<ir::Dim> length = {};  ///< needed when there are no sequences
};

/// body(state, slice) -> (state, y) for every slice of the trees `xs` along their first dimension: the last state, and
/// the ys stacked. Pass std::tuple<>() and a length for a loop without sequences.
template <class B, class T, class X>
auto scan(B body, const T& init, const X& xs, ScanOptions options = {}, Site site = Site::here()) {
  Tracing tracing(inner_name("scan_body"), site);
  T state = init;
  for (auto& leaf : leaves_of<Tensor>(state)) *leaf.second = tracing.param(name_of(*leaf.second), leaf.second->type());
  X slice = xs;
  for (auto& leaf : leaves_of<Tensor>(slice))
    *leaf.second = tracing.param(name_of(*leaf.second), slice_type(*leaf.second, site));
  auto result = body(static_cast<const T&>(state), static_cast<const X&>(slice));
  static_assert(std::is_same_v<decltype(result.first), T>, "the body returns a state like the one it gets");
  std::vector<Tensor> leaves = tensors_of(result.first), ys = tensors_of(result.second);
  leaves.insert(leaves.end(), ys.begin(), ys.end());
  TracedFunction traced = tracing.finish(leaves);
  std::vector<Tensor> sequences = tensors_of(xs);
  ir::Dim length = length_of(sequences, options.length, site);
  std::vector<Tensor> out = emit_scan(std::move(traced), tensors_of(init), sequences, length, options.reverse, site);
  size_t next = 0;
  T last = with_tensors(init, out, next);
  return std::pair(std::move(last), with_tensors(result.second, out, next));
}

/// f of every slice of the trees `xs` along their first dimension, one after the other; vmap does them at once.
template <class F, class X>
auto map(F f, const X& xs, Site site = Site::here()) {
  auto body = [&](const std::tuple<>& none, const X& slice) { return std::pair(none, f(slice)); };
  return scan(body, std::tuple<>(), xs, {}, site).second;
}

}  // namespace nabla
