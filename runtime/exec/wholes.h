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

/// A global tensor. The shard of a rank is computed from the placement of its class. A process stores only the shards of its own
/// ranks, so its memory does not grow with the number of ranks elsewhere.
class Whole {
 public:
  /// As the bundle's table has it, which outlives it. `class_of`: by rank; outlives it. `here`: the ranks of this process.
  Whole(const format::Ranks& table, const format::Whole& whole, const std::vector<uint32_t>& class_of, const std::vector<uint32_t>& here);

  TensorInfo info;
  std::vector<Part> here;  ///< of the ranks of this process, in their order

  /// Of any rank.
  Part part(uint32_t rank) const;
  bool owned_by(uint32_t rank) const;
  /// The index in the programs of a class; -1: the class has nothing of it.
  int index_in(uint32_t of_class) const;
  /// In how many parts a dimension is cut at most.
  int64_t most_parts(size_t dim) const;

 private:
  const format::Placement* placement_of(uint32_t rank) const { return by_class_[(*class_of_)[rank]]; }

  const format::Ranks* table_;
  const std::vector<uint32_t>* class_of_;
  std::vector<const format::Placement*> by_class_;  ///< null: the class has nothing of it
};

}  // namespace nabla::exec
