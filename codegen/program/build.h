// A planned module as a local program.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "codegen/program/program.h"

namespace nabla::program {

struct BuildOptions {
  Buckets buckets = {};
  /// The module before fusion, from which launches know their floating-point operations; null: they do not.
  const ir::Module* flat = nullptr;
};

/// One instruction per node that computes, moves or controls. Requires stage `planned`. E0106 for an entry with more
/// instructions; E0207 for a symbol that no input tells, E0403 for a node without an instruction.
Result<LocalProgram> build(const ir::Module& planned, const ir::Target& target,
                           const BuildOptions& options = {});

}  // namespace nabla::program
