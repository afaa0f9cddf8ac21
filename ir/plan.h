// Where every value of a planned module lives.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "ir/module.h"

namespace nabla::ir {

/// Same numbering as BaseKind in runtime/format/program.fbs.
enum class Base : uint8_t { kArena, kConstants, kInput, kOutput, kHost };

struct Placement {
  Base base = Base::kArena;
  int index = 0;        ///< of the input or output
  int64_t offset = -1;  ///< bytes; -1: the value has no memory (nobody reads it)
  int64_t bytes = 0;
};

/// Where a loop keeps what is neither operand nor result. Offsets from the start of its workspace.
struct ControlPlan {
  std::vector<int64_t> staged;  ///< by carry: its next value, where it is not made in place; -1: it is
  int64_t predicate = -1;       ///< of a while
};

struct FunctionPlan {
  std::vector<Placement> values;  ///< by ValueId
  /// By node: scratch memory of library calls; of a branch or a loop the temporaries of its functions, which are
  /// placed as if they stood at MemoryPlan::state_bytes, and after them what `ControlPlan` names.
  std::map<int, Placement> workspaces;
  std::map<int, ControlPlan> controls;  ///< by node
  /// Of a loop's body: which carries it may overwrite while it runs. The others are copied when it has run.
  std::vector<bool> carries_in_place;
  /// Small state leaves whose new value could not be made in place: copied to the leaf after the last node.
  struct StagedWrite {
    ValueId value;
    int leaf;
  };
  std::vector<StagedWrite> staged_writes;
  int64_t temporary_bytes = 0;  ///< after the state, while this function runs
  struct Live {
    ValueId value;
    int64_t bytes;
  };
  std::vector<Live> at_peak;  ///< temporaries alive at the peak, largest first
  int peak_node = -1;
};

struct MemoryPlan {
  struct Leaf {
    Base base = Base::kArena;  ///< or kHost
    int64_t offset = 0;
  };
  std::vector<Leaf> leaves;  ///< by state leaf
  int64_t state_bytes = 0;   ///< of leaves in the arena
  int64_t arena_bytes = 0;   ///< these and the largest temporary part
  int64_t host_bytes = 0;    ///< of leaves in the host's memory, beside a GPU's
  struct Constant {
    Literal value;
    int64_t offset;
  };
  std::vector<Constant> constants;  ///< distinct
  int64_t constants_bytes = 0;
  std::map<std::string, FunctionPlan> functions;
};

}  // namespace nabla::ir
