// How the rows of a procedure are shared out: the templates that targets have for it, one row each. The pass
// schedule-kernels gives the kernel the workspace of the template that applies, and printers print that template.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "ir/dim.h"
#include "ir/kernel_ir/procedure.h"

namespace nabla::kernel_ir {

enum class TemplateKind : uint8_t {
  kAttention,     ///< blocks of tiles of queries, and of keys
  kSortInBlock,   ///< a block holds what it must keep of a row in shared memory
  kMergeSort,     ///< blocks sort parts of rows, which are merged pair by pair
  kTeamScan,      ///< a thread, a warp or a block scans neighbouring rows
  kBlockPerRow,   ///< the threads of a block compute a row together
  kThreadPerRow,  ///< a thread computes the rows of a unit one after the other; the only one of CPUs
};

/// What the choice depends on of the target.
struct TemplateFacts {
  bool gpu = false;
  int64_t shared_bytes = 0;  ///< of a GPU's block
};

struct ProcedureTemplate {
  TemplateKind kind;
  std::string_view name;  ///< "merge-sort"
  bool (*applies)(const Procedure& procedure, const TemplateFacts& facts);
  /// Bytes of scratch memory for the rows that one thread or block computes, one after the other; 0: none. Null: none.
  int64_t (*scratch_of_unit)(const Procedure& procedure) = nullptr;
  /// Bytes per element of a row in each of two halves of scratch memory, from one of which rows are merged into the
  /// other; `key_bytes` as merged_bytes wants them. Null: none.
  int64_t (*bytes_in_halves)(const Procedure& procedure, int key_bytes) = nullptr;
  /// How many operations a row takes, for the number of units and threads.
  double (*work)(const Procedure& procedure) = nullptr;
};

/// The first row that applies.
const ProcedureTemplate& template_of(const Procedure& procedure, const TemplateFacts& facts);

}  // namespace nabla::kernel_ir
