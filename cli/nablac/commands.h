// What the subcommands of nablac share. Each stands in a file of its own and adds itself to the command line.
#pragma once

#include <functional>
#include <ostream>
#include <string>
#include <vector>

#include "runtime/base/diagnostic.h"

namespace CLI {
class App;
}
namespace nabla::ir {
class OpTable;
struct Module;
}  // namespace nabla::ir
namespace nabla::passes {
struct PassReport;
}

namespace nabla::cli {

/// Where a command writes. Tests pass string streams.
struct Streams {
  std::ostream& out;
  std::ostream& err;
  bool color = false;  ///< of `out`
};

/// The chosen command, once the command line is parsed. It returns the exit code: 0 done, 1 failed (or "different"),
/// 2 for a wrong command line.
using Action = std::function<int()>;

// Each declares its subcommand and, when that is chosen, sets the action.
void add_convert(CLI::App& app, const Streams& streams, Action& action);
void add_verify(CLI::App& app, const Streams& streams, Action& action);
void add_sign(CLI::App& app, const Streams& streams, Action& action);
void add_diff(CLI::App& app, const Streams& streams, Action& action);
void add_doc(CLI::App& app, const Streams& streams, Action& action);
void add_opt(CLI::App& app, const Streams& streams, Action& action);
void add_inspect(CLI::App& app, const Streams& streams, Action& action);
void add_why(CLI::App& app, const Streams& streams, Action& action);
void add_plan(CLI::App& app, const Streams& streams, Action& action);

// These write to the process's streams; the callback runs the command and sets the exit code.
void add_compile(CLI::App& app, int& exit_code);
void add_tune(CLI::App& app, int& exit_code);

/// Prints the diagnostics of a failure to standard error; the exit code of `status`.
int report(const Status& status);
/// Prints the diagnostics of a failure; the exit code of `status`.
int finish(const Status& status, const Streams& streams);
/// nablac without the process around it; `args` lacks the program's name.
int run_nablac(const std::vector<std::string>& args, const Streams& streams);

/// Writes the module before a failing pass to $TMPDIR, or /tmp, with `command` in its first line, and says where.
void keep_reproducer(const ir::Module& before, const std::string& command, const Streams& streams);

/// Prints what passes have to say of the program, each note once.
void print_notes(const std::vector<passes::PassReport>& passes, std::ostream& err);

/// "2 functions, 14 nodes, stage flat".
std::string summary_of(const ir::Module& module);

// ---- diff.
/// The changes from `a` to `b`, or "" when the modules are the same: what changed in words, then the texts as a unified
/// diff. Numbers of unnamed values do not matter, only what they stand for.
std::string diff_modules(const ir::Module& a, const ir::Module& b, const std::string& name_a, const std::string& name_b,
                         bool locations, bool color);

// ---- doc: pages in Markdown, made from the records and tables.
std::string doc_ops(const ir::OpTable& ops);
/// E0102 for an unknown name, with the nearest one.
Result<std::string> doc_op(const ir::OpTable& ops, const std::string& name);
std::string doc_refusals(const ir::OpTable& ops);
std::string doc_coverage(const ir::OpTable& ops);
/// How ranks share each op.
std::string doc_shards(const ir::OpTable& ops);
std::string doc_errors();
std::string doc_passes();

}  // namespace nabla::cli
