// A pass is a pure function from module to module and one row in passes/registry.cc. It neither prints nor reads
// the environment; verification, timing, dumps and reproducers belong to the manager (passes/pass_manager.h).
#pragma once

#include <any>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ir/module.h"
#include "ir/op_def.h"
#include "ir/remark.h"
#include "ir/target.h"
#include "passes/options.h"

namespace nabla::passes {

struct PassContext {
  const ir::OpTable& ops;
  const ir::Target& target;
  PassOptions options = {};
  /// Decisions that a user may ask about.
  std::vector<ir::Remark> remarks = {};
  /// A second result of the pass, of a type that its header declares (FoundPlan of auto_shard). It is empty for most passes.
  std::any found = {};

  /// Drops all remarks after the first `count`, before the work that made them is done again.
  void forget_remarks(size_t count) { remarks.erase(remarks.begin() + static_cast<std::ptrdiff_t>(count), remarks.end()); }
};

using PassFn = Result<ir::Module> (*)(const ir::Module&, PassContext&);

/// What a pass did when the manager ran it.
struct PassReport {
  std::string pass;
  double seconds;  ///< of the pass itself, without verification
  bool changed;
  std::vector<ir::Remark> remarks;
  std::any found = {};  ///< PassContext::found
};

struct Pass {
  std::string name;     ///< a verb phrase: "fold-constants"
  std::string summary;  ///< one line
  std::string doc;      ///< what it does, needs and guarantees, and why it runs where it runs
  ir::Stage stage_in;   ///< the earliest stage at which it may run
  ir::Stage stage_out;  ///< the stage of its result; equal to stage_in: the stage is kept
  std::vector<PassOption> options;
  PassFn run;
};

/// All passes, in the order of the pipeline.
std::span<const Pass> all_passes();
const Pass* find_pass(std::string_view name);
/// The option with this name, of the first pass that has one. Null if no pass has it.
const PassOption* find_option(std::string_view name);

}  // namespace nabla::passes
