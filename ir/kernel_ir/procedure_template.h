// How the rows of a procedure are shared out: the templates that targets have for it, one row each. The pass
// schedule-kernels puts the template that applies into the kernel's schedule and gives the kernel its workspace; printers
// print what the schedule says.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "ir/dim.h"
#include "ir/kernel_ir/procedure.h"
#include "ir/kernel_ir/schedule.h"

namespace nabla::kernel_ir {

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
};

/// The first row that applies.
const ProcedureTemplate& template_of(const Procedure& procedure, const TemplateFacts& facts);
/// Its row.
const ProcedureTemplate& template_for(TemplateKind kind);
std::string_view name_of(TemplateKind kind);
std::optional<TemplateKind> template_named(std::string_view name);

}  // namespace nabla::kernel_ir
