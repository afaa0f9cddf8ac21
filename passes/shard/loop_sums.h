// Sums over ranks and microbatches that loops leave to what comes after them.
#pragma once

#include <map>
#include <string>

#include "ir/module.h"
#include "ir/op_def.h"

namespace nabla::passes {

/// Of the body of a loop: what is combined after the last trip, and over which axes.
struct LoopSums {
  std::map<size_t, ir::Axes> carries;  ///< by parameter: those to which the body adds
  std::map<size_t, ir::Axes> stacked;  ///< by result: slices, each of which is a sum
  bool empty() const { return carries.empty() && stacked.empty(); }
};

/// By function: the loop whose body it is, where that is its only use.
std::map<std::string, ir::ControlFlow> bodies_of(const ir::Module& module);

}  // namespace nabla::passes
