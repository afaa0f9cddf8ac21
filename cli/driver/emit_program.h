// A planned module as a bundle: generated code, constants and the instruction lists.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "codegen/cpu/toolchain.h"
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

struct EmitOptions {
  codegen::ToolchainOptions toolchain;
  /// More members: "ir/module.nbl", "report.json"...
  std::vector<std::pair<std::string, std::string>> members;
  /// These become part of the entries that they stand for.
  std::vector<VariantEntry> variants = {};
};

/// Requires stage `planned`. Prints and compiles the kernels, and writes one instruction per node.
Result<EmittedProgram> emit_program(const ir::Module& module, const ir::Target& target, const EmitOptions& options);

}  // namespace nabla::driver
