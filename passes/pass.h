// A pass is a pure function from module to module and one row in passes/registry.cc. It neither prints nor reads
// the environment; verification, timing, dumps and reproducers belong to the manager (passes/pass_manager.h).
#pragma once

#include <any>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ir/module.h"
#include "ir/op_def.h"
#include "ir/target.h"

namespace nabla::passes {

struct PassContext {
  const ir::OpTable& ops;
  const ir::Target& target;
  std::map<std::string, std::string> options = {};  ///< of this pass; the manager rejects undeclared ones
  /// Lines for the report: decisions that a user may ask about ("state leaf w: updated in place").
  std::vector<std::string> remarks = {};
  /// A second result of the pass, of a type that its header declares (FoundPlan of auto_shard). It is empty for most passes.
  std::any found = {};
};

/// An option that is a number of bytes ("16MiB"), where it is given and not empty. E0901 for what is no such number.
Result<std::optional<int64_t>> bytes_option(const PassContext& context, const std::string& name);
/// The option `deterministic` of a pass that has it: layouts and sums may not depend on how many ranks there are.
bool is_deterministic(const PassContext& context);

using PassFn = Result<ir::Module> (*)(const ir::Module&, PassContext&);

/// What a pass did, in a run of the manager.
struct PassReport {
  std::string pass;
  double seconds;  ///< of the pass itself, without verification
  bool changed;
  std::vector<std::string> remarks;
  std::any found = {};  ///< PassContext::found
};

struct PassOption {
  std::string name, default_value, doc;
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

/// Every pass there is, in the order of the pipeline.
std::span<const Pass> all_passes();
const Pass* find_pass(std::string_view name);

}  // namespace nabla::passes
