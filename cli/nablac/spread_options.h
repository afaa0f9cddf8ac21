// Options that say how a program is spread over ranks, which several commands share.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <string>

#include "cli/driver/compile.h"

namespace nabla::cli {

/// An option of the driver that is a number of bytes, which `set` gets.
void add_bytes(CLI::App& command, const std::string& flag, const std::string& doc, std::function<void(passes::Bytes)> set);

/// Options for modules that ranks share.
class SpreadOptions {
 public:
  explicit SpreadOptions(driver::CompileOptions& options) : options_(options) {}
  SpreadOptions(const SpreadOptions&) = delete;

  /// The option of a pass, with the description and the default of the pass's own.
  CLI::Option* add(CLI::App& command, const std::string& flag, const passes::PassOption& option);
  /// All with this flag.
  void add_options_of_passes(CLI::App& command, passes::Flag flag);
  /// --layout; --microbatches.
  void add_rules(CLI::App& command);
  void add_microbatches(CLI::App& command);
  /// --offload, which needs no ranks.
  void add_offload(CLI::App& command);
  /// --max-bytes, which needs none either, and which found layouts keep.
  void add_max_bytes(CLI::App& command);
  /// --offload, --mesh, --allow-idle-axes, --layout, --data-axes, --zero, --zero-axes, --microbatches and --auto-shard: the
  /// layouts of values.
  void add_layouts(CLI::App& command);
  /// These, --auto-shard-plan, and all other options of passes for ranks.
  void add_all(CLI::App& command);
  /// Writes what --auto-shard-plan asks for.
  Status write_plan(const std::vector<passes::PassReport>& reports) const;
  const std::string& plan_file() const { return plan_file_; }
  void note(const std::string& flag) { given_.push_back(flag); }
  /// E0901 where options are given of which the module makes nothing.
  Status check(const ir::Module& module) const;

 private:
  void search(const std::string& flag);

  driver::CompileOptions& options_;
  std::string plan_file_;
  std::vector<std::string> given_;  // but for --mesh and --microbatches
};

}  // namespace nabla::cli
