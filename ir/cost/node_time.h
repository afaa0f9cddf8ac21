// How long the instructions of a module take on its target, by themselves.
#pragma once

#include <map>
#include <string>

#include "ir/cost/time.h"
#include "ir/module.h"

namespace nabla::ir {

/// Of a module whose nodes are kernels, calls of libraries and views. Of CPUs with the rates of the target, one thread of every rank at
/// work; of GPUs the least time. Kernels are those of the module, which outlives the object.
class NodeTimes {
 public:
  NodeTimes(const Module& module, const Target& target);
  /// Microseconds; of views, constants, loops, branches and collectives nobody asks. `reach` are the bytes that a run of the function
  /// goes through, which decides between caches and memory.
  double us(const Function& f, const Node& n, double reach) const;

 private:
  struct OfKernel {
    Work work;
    double product = 0;
    Operations operations = {};
  };
  const Target target_;
  int64_t ranks_ = 1;
  std::map<std::string, OfKernel> kernels_;
};

}  // namespace nabla::ir
