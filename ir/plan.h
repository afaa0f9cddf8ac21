// Where every value of a planned module lives.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "ir/module.h"

namespace nabla::ir {

/// Same numbering as BaseKind in runtime/format/program.fbs.
enum class Base : uint8_t { kArena, kConstants, kInput, kOutput };

struct Placement {
  Base base = Base::kArena;
  int index = 0;        ///< of the input or output
  int64_t offset = -1;  ///< bytes; -1: the value has no memory (nobody reads it)
  int64_t bytes = 0;
};

struct FunctionPlan {
  std::vector<Placement> values;        ///< by ValueId
  std::map<int, Placement> workspaces;  ///< by node: scratch memory of library calls
  int64_t temporary_bytes = 0;          ///< behind the state, while this function runs
  struct Live {
    ValueId value;
    int64_t bytes;
  };
  std::vector<Live> at_peak;  ///< temporaries alive at the peak, largest first
  int peak_node = -1;
};

struct MemoryPlan {
  std::vector<int64_t> state_offsets;  ///< by leaf, in the arena
  int64_t state_bytes = 0;
  int64_t arena_bytes = 0;  ///< state and the largest temporary part
  struct Constant {
    Literal value;
    int64_t offset;
  };
  std::vector<Constant> constants;  ///< distinct
  int64_t constants_bytes = 0;
  std::map<std::string, FunctionPlan> functions;
};

}  // namespace nabla::ir
