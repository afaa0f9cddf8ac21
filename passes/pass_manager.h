// Runs passes over a module. Verification, timing, dumps and reproducers are here and nowhere else.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "ir/program_set.h"
#include "passes/pass.h"

namespace nabla::passes {

/// Sets an option of a pass from its text. E0405 if the pass has no such option. E0901 if the text is no allowed value; the error
/// calls the option `spelled`.
Status set_option(PassOptions& options, const Pass& pass, const std::string& name, const std::string& text,
                  const std::string& spelled);

/// One pass with its options.
struct Step {
  std::string pass;
  PassOptions options = {};
  /// The step as on the command line: `plan-memory{max-bytes=1000}`. Options that have their default value are left out.
  std::string str() const;
};

/// Reads `NAME` or `NAME{OPTION=VALUE,...}`. A value with commas stands between double quotes. E0101 if the text has another form,
/// E0108 if an option is given twice, E0405 for unknown names, and E0901 for values that the option does not allow.
Result<Step> parse_step(std::string_view text);
/// The steps of default_pipeline() that a module at this stage has before it, up to the last that leaves it at `to`.
std::vector<Step> default_steps(ir::Stage from, ir::Stage to = ir::Stage::kPlanned);

/// The steps that lower a local module to a planned one; `prepare` is the first.
std::vector<Step> lowering_steps();

/// What the manager checks and shows for its caller. Every callback may be empty.
struct ManagerOptions {
  /// Checks a module: before the first pass and after each one. ir::verify in the product.
  std::function<Status(const ir::Module&)> verify;
  /// Receives the module after each pass that the four fields below ask for.
  std::function<void(const Pass&, const ir::Module&, bool changed)> print;
  bool print_after_all = false;
  bool print_changed = false;            ///< after passes that change something
  std::vector<std::string> print_after;  ///< after these passes
  std::string stop_after;                ///< not empty: the last pass to run, at its first occurrence
  /// When a pass fails by our fault (a NABLA_CHECK, or the verification after it), not when it finds a mistake of the
  /// user's: the module before the pass, and the command that runs the pass on it alone, with FILE in the place of the
  /// module's file.
  std::function<void(const ir::Module& before, const std::string& command)> reproduce;
};

/// All remarks in their order, each once.
std::vector<ir::Remark> remarks_of(const std::vector<PassReport>& reports);

struct ManagerResult {
  ir::Module module;
  std::vector<PassReport> reports;  ///< one per pass that ran
};

/// Runs the steps in order. E0405 for an unknown pass or name in print_after or stop_after, with the nearest
/// known name, and E0205 when a pass does not fit the stage that modules have there, before anything runs. A failing pass's own
/// diagnostics come with a note that names the pass.
Result<ManagerResult> run_passes(const ir::Module& module, const std::vector<Step>& steps, const ir::OpTable& ops,
                                 const ir::Target& target, const ManagerOptions& options = {});

struct SetResult {
  ir::ProgramSet set;
  std::vector<PassReport> reports;  ///< of each pass one per class
};

/// Runs the steps on the modules of all classes of ranks. Each pass runs on every module before the next pass starts. The errors are
/// those above; if there are several classes, they name the class.
Result<SetResult> run_passes(const ir::ProgramSet& set, const std::vector<Step>& steps, const ir::OpTable& ops,
                             const ir::Target& target, const ManagerOptions& options = {});

/// Whether two modules share all functions, entries and kernels, and have the same stage and plan.
bool same_module(const ir::Module& a, const ir::Module& b);

}  // namespace nabla::passes
