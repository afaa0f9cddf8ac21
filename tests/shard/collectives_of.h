// What the ranks of a local program exchange, one collective after the other.
#pragma once

#include <functional>
#include <string>

#include "ir/op_def.h"

namespace nabla::shard_tests {

/// Calls `visit(function, node, times)` for the collectives of a local function and of the scans that it runs. Branches and other
/// functions exchange nothing.
inline void for_each_collective(const ir::Module& m, const std::string& function,
                                const std::function<void(const ir::Function&, const ir::Node&, int64_t)>& visit, int64_t times = 1) {
  const ir::Function& f = *m.find(function);
  for (const ir::Node& n : f.nodes) {
    if (n.op->name == "scan")
      for_each_collective(m, n.attrs.get_function("body"), visit, times * n.attrs.get_shape("length")[0].value());
    if (n.op->lower == ir::Lowering::kCollective && !n.operands.empty()) visit(f, n, times);
  }
}

}  // namespace nabla::shard_tests
