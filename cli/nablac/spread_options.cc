#include "cli/nablac/spread_options.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "cli/driver/spread.h"
#include "cli/validators.h"
#include "passes/auto_shard/auto_shard.h"
#include "passes/pass.h"
#include "runtime/format/file.h"

namespace nabla::cli {

CLI::Option* SpreadOptions::add(CLI::App& command, const std::string& flag, const std::string& pass, const std::string& option) {
  const std::vector<passes::PassOption>& known = passes::find_pass(pass)->options;
  auto at = std::find_if(known.begin(), known.end(), [&](const auto& o) { return o.name == option; });
  auto set = [this, flag, pass, option](const std::string& value) {
    options_.pass_options[pass][option] = value;
    note(flag);
  };
  std::string standard = at->default_value.empty() ? "" : fmt::format(" [{}]", at->default_value);
  return command.add_option_function<std::string>(flag, set, at->doc + standard);
}

namespace {

// The rules of @FILE: a line each, and what follows a # that begins a line or has a space before it is a comment.
std::vector<std::string> rules_of(const std::string& given) {
  if (!given.starts_with("@")) return {given};
  std::ifstream file(given.substr(1));
  if (!file || file.peek() == EOF) {
    // A folder opens, and gives nothing.
    const std::string name = given.substr(1);
    std::error_code unknown;
    const char* why = name.empty()                                  ? "a name of a file follows @"
                      : std::filesystem::is_directory(name, unknown) ? "is a folder, expected a file of rules"
                      : file                                        ? "is empty"
                                                                    : "cannot be read: no such file, or no right to read it";
    throw CLI::ValidationError("--layout", name.empty() ? why : fmt::format("{} {}", name, why));
  }
  constexpr size_t kMost = 16 << 20;  // a plan of ten thousand leaves is a hundredth of it
  std::string text(kMost + 1, 0);
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<size_t>(file.gcount()));
  if (file.bad() || text.size() > kMost)
    throw CLI::ValidationError("--layout", given.substr(1) + (file.bad() ? " cannot be read to its end"
                                                                         : " has more than 16 MiB of rules"));
  std::istringstream lines(text.starts_with("\xef\xbb\xbf") ? text.substr(3) : text);
  std::vector<std::string> out;
  for (std::string line; std::getline(lines, line);) {
    size_t comment = line.starts_with("#") ? 0 : line.find(" #");
    line = line.substr(0, comment);
    line.erase(line.find_last_not_of(" \t\r") + 1);
    if (!line.empty()) out.push_back(line);
  }
  return out;
}

}  // namespace

void SpreadOptions::add_rules(CLI::App& command) {
  command
      .add_option_function<std::vector<std::string>>(
          "--layout",
          [this](const std::vector<std::string>& rules) {
            std::string& all = options_.pass_options["apply-strategy"]["layouts"];
            for (const std::string& rule : rules)
              for (const std::string& one : rules_of(rule)) all += (all.empty() ? "" : ";") + one;
            note("--layout");
          },
          "PATTERN=WORDS: a regular expression of names of state leaves, and a word per dimension: ,tp or tp, or dp+tp; "
          "`,tp allow_padding` where axes need not divide; `input ` before it: of inputs, by ENTRY.NAME; @FILE: a file of such "
          "lines, as --auto-shard-plan writes it; may be repeated")
      ->allow_extra_args(false);
}

void SpreadOptions::add_offload(CLI::App& command) {
  command
      .add_option_function<std::string>(
          "--offload",
          [this](const std::string& what) { options_.pass_options["apply-strategy"]["offload"] = what; },
          "none, opt, params or all: state that programs for GPUs keep in the host's memory, beside what the program says: the "
          "optimizer's, parameters, or all [none]")
      ->check(CLI::IsMember({"none", "opt", "params", "all"}));
}

void SpreadOptions::add_max_bytes(CLI::App& command) {
  command
      .add_option("--max-bytes", options_.max_bytes,
                  fmt::format("fail when the program needs more memory; --auto-shard chooses what needs no more: {}", kByteUnits))
      ->check(number_of_bytes());
}

void SpreadOptions::add_layouts(CLI::App& command) {
  add_offload(command);
  command
      .add_option("--mesh", options_.mesh,
                  "dp=4,tp=2: ranks along axes of the module's mesh; default: as the module says. 1 each: one rank. With "
                  "--data-axes also a mesh for a module that has none")
      ->allow_extra_args(false)
      ->each([this](const std::string&) { options_.pass_options["propagate"].emplace("idle-axes", "error"); });
  command.add_flag_callback(
      "--allow-idle-axes", [this] { options_.pass_options["propagate"]["idle-axes"] = "note"; },
      "compile also if nothing is sharded over an axis of --mesh, so that its ranks all compute the same");
  add_rules(command);
  add(command, "--data-axes", "apply-strategy", "data-axes");
  add(command, "--zero", "apply-strategy", "zero")->check(CLI::IsMember({"0", "1", "2", "3"}));
  add(command, "--zero-axes", "apply-strategy", "zero-axes");
  add_microbatches(command);
  command.add_flag_callback(
      "--auto-shard", [this] { search("--auto-shard"); },
      "choose what neither the program nor other options lay out, by the time that ranks would take; needs a mesh. With --max-bytes "
      "among those whose memory on a rank is no larger");
}

// A search may find that ranks along an axis cost more than they save: that is a note.
void SpreadOptions::search(const std::string& flag) {
  options_.pass_options["auto-shard"]["search"] = "true";
  options_.pass_options["propagate"]["idle-axes"] = "note";
  note(flag);
}

void SpreadOptions::add_microbatches(CLI::App& command) {
  command
      .add_option("--microbatches", options_.microbatches,
                  "parts of the batch that ranks compute one after the other, adding up their gradients")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 20));
}

void SpreadOptions::add_all(CLI::App& command) {
  add_layouts(command);
  command
      .add_option("--auto-shard-plan", plan_file_,
                  "--auto-shard, and write what was chosen to this file, and why: a line per leaf and input, which --layout @FILE takes")
      ->check(file_name())
      ->each([this](const std::string&) { search("--auto-shard-plan"); });
  add(command, "--grad-sync", "partition", "grad-sync")->check(CLI::IsMember({"last", "each"}));
  add(command, "--reduce-dtype", "partition", "reduce-dtype")->check(CLI::IsMember({"f32", "bf16", "f16"}));
}

Status SpreadOptions::write_plan(const std::vector<passes::PassReport>& reports) const {
  if (plan_file_.empty()) return Ok{};
  const passes::FoundPlan* plan = passes::found_plan(reports);
  return plan ? format::write_file(plan_file_, plan->text) : Ok{};
}

Status SpreadOptions::check(const ir::Module& module) const { return driver::check_spread(module, options_, given_); }

}  // namespace nabla::cli
