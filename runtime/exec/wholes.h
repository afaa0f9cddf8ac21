// Tensors of all ranks together, and what each rank has of them.
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/exec/parts.h"
#include "runtime/exec/session.h"
#include "runtime/format/ranks_generated.h"

namespace nabla::exec {

/// What one rank has of a whole.
struct Part {
  int index = -1;  ///< of the rank's leaf, input or output; -1: the rank has nothing of it
  bool owner = false;
  struct Dim {
    int64_t begin = 0, number = 0, count = 1;  ///< part `number` of `count` parts, which begin at `begin`
  };
  std::vector<Dim> dims;

  Box box(const std::vector<int64_t>& shape) const {
    Box out{{}, shape};
    for (size_t d = 0; d < shape.size(); ++d) out.begin.push_back(dims[d].begin + dims[d].number * shape[d]);
    return out;
  }
};

/// A tensor of all ranks together.
struct Whole {
  TensorInfo info;
  std::vector<Part> parts;  ///< by rank
};

/// As the bundle's table has it. `class_of`: by rank.
Whole whole_of(const format::Ranks& table, const format::Whole& whole, const std::vector<uint32_t>& class_of);

}  // namespace nabla::exec
