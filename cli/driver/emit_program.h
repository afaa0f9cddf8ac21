// Planned modules as a bundle: a local program for each target, generated code and constants.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "codegen/compile_kernels.h"
#include "codegen/program/build.h"
#include "ir/program_set.h"
#include "ir/target.h"

namespace nabla::driver {

using program::Buckets;

struct EmittedProgram {
  std::string bytes;  ///< of the bundle, ready to be written or opened
  size_t kernels = 0;
  size_t code_bytes = 0;
};

/// More of a bundle's members: "ir/module.nbl", "report.json"...
using Members = std::vector<std::pair<std::string, std::string>>;

struct EmitOptions {
  codegen::ToolchainOptions toolchain;
  Members members;
};

/// What one target runs.
struct PlannedProgram {
  const ir::Module* module;  ///< of stage `planned`
  const ir::Target* target;
  codegen::TargetCode code;  ///< of codegen::compile_kernels
  program::BuildOptions options = {};
};

/// Planned programs of a class, one per target.
using PlannedClass = std::vector<PlannedProgram>;

/// A bundle for one rank. Errors of program::build, program::check and format::bundle_bytes; E0901 for two CPU targets.
Result<EmittedProgram> emit_programs(std::vector<PlannedProgram> programs, const Members& members);
/// For all classes of the set, in its order; `classes` are made of their modules.
Result<EmittedProgram> emit_set(const ir::ProgramSet& set, std::vector<PlannedClass> classes, const Members& members);
/// For one rank and target, kernels compiled.
Result<EmittedProgram> emit_program(const ir::Module& module, const ir::Target& target, const EmitOptions& options);

}  // namespace nabla::driver
