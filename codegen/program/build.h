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
  std::vector<ir::Axes> groups = {};  ///< groups_of the programs of a class
  bool overlap = true;  ///< false: every collective is awaited where it starts
  std::map<std::string, double> predicted_us = {};  ///< of entries
};

/// The groups that programs of these modules need, each once: those of the rank's coordinates first.
std::vector<ir::Axes> groups_of(const std::vector<const ir::Module*>& planned);

/// One instruction per node that computes, moves or controls. Requires stage `planned`. E0106 for an entry with more
/// instructions; E0207 for a symbol that no input tells, E0403 for a node without an instruction. A collective is two: it is
/// awaited where its result is needed, or what it reads is written.
Result<LocalProgram> build(const ir::Module& planned, const ir::Target& target,
                           const BuildOptions& options = {});

}  // namespace nabla::program
