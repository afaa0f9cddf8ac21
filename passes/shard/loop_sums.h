// Sums over ranks and microbatches that loops leave to what comes after them.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "ir/module.h"
#include "ir/op_def.h"
#include "passes/shard/microbatch.h"

namespace nabla::passes {

/// Of the body of a loop: what is combined after the last trip, and over which axes.
struct LoopSums {
  std::map<size_t, ir::Axes> carries;  ///< by parameter: those to which the body adds
  std::map<size_t, ir::Axes> stacked;  ///< by result: slices, each of which is a sum
  bool empty() const { return carries.empty() && stacked.empty(); }
};

/// The body of a loop, and what it is while nothing is left to the loop's end.
struct SummingBody {
  const ir::Function& f;
  const ir::ControlFlow& loop;
  const ir::Mesh& mesh;
  GradSync exchange;
  const std::map<std::string, ir::Axes>& begun;  ///< the axes of sums that begin in it, by their texts
  std::vector<ir::Axes> pending;                 ///< by result: over which such a sum is not made yet
};
/// What a body may leave to the end of its loop: carries whose next value is a sum when they are one, and to which the body
/// adds what it sums itself (gradients of microbatches); slices that are sums (gradients of the layers that a loop runs), but
/// for what scatters them onto shards: that too, where ranks exchange sums after the last microbatch. `pending_with` makes the
/// body with some of them, and says what is pending in its results.
Result<LoopSums> loop_sums(const SummingBody& body, const std::function<Result<std::vector<ir::Axes>>(const LoopSums&)>& pending_with);

/// By function: the loop whose body it is, where that is its only use.
std::map<std::string, ir::ControlFlow> bodies_of(const ir::Module& module);

}  // namespace nabla::passes
