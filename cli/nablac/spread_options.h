// The options that spread a program over ranks. Several commands have them.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <string>

#include "cli/driver/compile.h"

namespace nabla::cli {

/// Reads the text of a flag into an option of a pass. Throws CLI::ValidationError if the option does not allow the text.
void set_from_flag(passes::PassOptions& options, const passes::PassOption& option, const std::string& flag, const std::string& text);
/// Adds an option of the driver that is a number of bytes. `set` receives it.
void add_bytes(CLI::App& command, const std::string& flag, const std::string& doc, std::function<void(passes::Bytes)> set);

/// The command-line options of programs that run on several ranks.
class SpreadOptions {
 public:
  explicit SpreadOptions(driver::CompileOptions& options) : options_(options) {}
  SpreadOptions(const SpreadOptions&) = delete;

  /// Adds an option of a pass, with its description and its default value.
  CLI::Option* add(CLI::App& command, const std::string& flag, const passes::PassOption& option);
  /// Adds all options of passes that have this flag.
  void add_options_of_passes(CLI::App& command, passes::Flag flag);
  /// --layout; --microbatches.
  void add_rules(CLI::App& command);
  void add_microbatches(CLI::App& command);
  /// --offload, which needs no ranks.
  void add_offload(CLI::App& command);
  /// --max-bytes, which needs no ranks either. A search finds only layouts that keep it.
  void add_max_bytes(CLI::App& command);
  /// --offload, --mesh, --allow-idle-axes, --layout, --data-axes, --zero, --zero-axes, --microbatches and --auto-shard: the
  /// layouts of values.
  void add_layouts(CLI::App& command);
  /// The options of add_layouts, --auto-shard-plan, and all other options of passes for ranks.
  void add_all(CLI::App& command);
  /// Writes the file of --auto-shard-plan, if it was given.
  Status write_plan(const std::vector<passes::PassReport>& reports) const;
  const std::string& plan_file() const { return plan_file_; }
  void note(const std::string& option) { given_.push_back(option); }
  /// E0901 if an option is given that has no effect on the module.
  Status check(const ir::Module& module) const;

 private:
  void search(const std::string& option);

  driver::CompileOptions& options_;
  std::string plan_file_;
  std::vector<std::string> given_;  // names of options without dashes, but for mesh and microbatches
};

}  // namespace nabla::cli
