// A planned module as a bundle: generated code, constants and the instruction lists.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "cli/driver/emit_code.h"
#include "ir/module.h"
#include "ir/target.h"

namespace nabla::driver {

/// Everything that goes into a bundle beside what the caller adds.
struct EmittedProgram {
  std::string bytes;  ///< of the bundle, ready to be written or opened
  size_t kernels = 0;
  size_t code_bytes = 0;
};

/// An entry of the module that stands for another one at these values of its symbols.
struct VariantEntry {
  std::string entry, of;
  std::map<std::string, int64_t> values;
};

/// By symbol, ascending: up to which sizes runs on GPUs share one recording of their launches.
using Buckets = std::map<std::string, std::vector<int64_t>>;

struct EmitOptions {
  codegen::ToolchainOptions toolchain;
  std::vector<std::pair<std::string, std::string>> members;  ///< more of the bundle's
};

/// What one target runs.
struct PlannedProgram {
  const ir::Module* module;  ///< of stage `planned`
  const ir::Target* target;
  TargetCode code;  ///< of compile_kernels
  /// These become part of the entries that they stand for.
  std::vector<VariantEntry> variants = {};
  Buckets buckets = {};
};

/// Writes one instruction per node, for each target. Errors of bundle_bytes; E0901 for two CPU targets. `members` are
/// more of the bundle's: "ir/module.nbl", "report.json"...
using Members = std::vector<std::pair<std::string, std::string>>;
Result<EmittedProgram> emit_programs(std::vector<PlannedProgram> programs, const Members& members);
/// The same for one target, kernels compiled.
Result<EmittedProgram> emit_program(const ir::Module& module, const ir::Target& target, const EmitOptions& options);

}  // namespace nabla::driver
