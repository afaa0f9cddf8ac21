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

void set_from_flag(passes::PassOptions& options, const passes::PassOption& option, const std::string& flag, const std::string& text) {
  if (!option.set(options, text, flag).ok()) throw CLI::ValidationError(flag, fmt::format("`{}` is not {}", text, option.domain));
}

CLI::Option* SpreadOptions::add(CLI::App& command, const std::string& flag, const passes::PassOption& option) {
  auto set = [this, flag, &option](const std::string& text) {
    set_from_flag(options_.pass_options, option, flag, text);
    if (option.flag != passes::Flag::kProgram) note(option.name);
  };
  std::string standard = option.default_value.empty() ? "" : fmt::format(" [{}]", option.default_value);
  return command.add_option_function<std::string>(flag, set, option.doc + standard);
}

void SpreadOptions::add_options_of_passes(CLI::App& command, passes::Flag flag) {
  for (const passes::Pass& pass : passes::all_passes())
    for (const passes::PassOption& option : pass.options)
      if (option.flag == flag) add(command, "--" + option.name, option);
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
            std::string& all = options_.pass_options.apply_strategy.layouts;
            for (const std::string& rule : rules)
              for (const std::string& one : rules_of(rule)) all += (all.empty() ? "" : ";") + one;
            note("layout");
          },
          "PATTERN=WORDS: a regular expression of names of state leaves, and a word per dimension: ,tp or tp, or dp+tp; "
          "`,tp allow_padding` where axes need not divide; `input ` before it: of inputs, by ENTRY.NAME; @FILE: a file of such "
          "lines, as --auto-shard-plan writes it; may be repeated")
      ->allow_extra_args(false);
}

void SpreadOptions::add_offload(CLI::App& command) { add(command, "--offload", *passes::find_option("offload")); }

void add_bytes(CLI::App& command, const std::string& flag, const std::string& doc, std::function<void(passes::Bytes)> set) {
  auto read = [set = std::move(set)](const std::string& text) { set({parse_bytes(text).value_or(0)}); };
  command.add_option_function<std::string>(flag, read, fmt::format("{}: {}", doc, kByteUnits))->check(number_of_bytes());
}

void SpreadOptions::add_max_bytes(CLI::App& command) {
  add_bytes(command, "--max-bytes", "fail when the program needs more memory; --auto-shard chooses what needs no more",
            [this](passes::Bytes most) { options_.max_bytes = most; });
}

void SpreadOptions::add_layouts(CLI::App& command) {
  add_offload(command);
  command
      .add_option("--mesh", options_.mesh,
                  "dp=4,tp=2: ranks along axes of the module's mesh; default: as the module says. 1 each: one rank. With "
                  "--data-axes also a mesh for a module that has none")
      ->allow_extra_args(false)
      ->each([this](const std::string&) {
        std::optional<passes::IdleAxes>& idle = options_.pass_options.propagate.idle_axes;
        idle = idle.value_or(passes::IdleAxes::kError);
      });
  command.add_flag_callback(
      "--allow-idle-axes", [this] { options_.pass_options.propagate.idle_axes = passes::IdleAxes::kNote; },
      "compile also if nothing is sharded over an axis of --mesh, so that its ranks all compute the same");
  add_rules(command);
  add_options_of_passes(command, passes::Flag::kLayout);
  add_microbatches(command);
  command.add_flag_callback(
      "--auto-shard", [this] { search("auto-shard"); },
      "choose what neither the program nor other options lay out, by the time that ranks would take; needs a mesh. With --max-bytes "
      "among those whose memory on a rank is no larger");
}

// A search may find that ranks along an axis cost more than they save: that is a note.
void SpreadOptions::search(const std::string& option) {
  options_.pass_options.auto_shard.search = true;
  options_.pass_options.propagate.idle_axes = passes::IdleAxes::kNote;
  note(option);
}

void SpreadOptions::add_microbatches(CLI::App& command) {
  command
      .add_option("--microbatches", options_.microbatches,
                  "parts of the batch that ranks compute one after the other, adding up their gradients")
      ->check(whole(1, 1 << 20, "a whole number from 1 to 1048576"));
}

void SpreadOptions::add_all(CLI::App& command) {
  add_layouts(command);
  command
      .add_option("--auto-shard-plan", plan_file_,
                  "--auto-shard, and write what was chosen to this file, and why: a line per leaf and input, which --layout @FILE takes")
      ->check(file_name())
      ->each([this](const std::string&) { search("auto-shard-plan"); });
  add_options_of_passes(command, passes::Flag::kRanks);
}

Status SpreadOptions::write_plan(const std::vector<passes::PassReport>& reports) const {
  if (plan_file_.empty()) return Ok{};
  const passes::FoundPlan* plan = passes::found_plan(reports);
  return plan ? format::write_file(plan_file_, plan->text) : Ok{};
}

Status SpreadOptions::check(const ir::Module& module) const { return driver::check_spread(module, options_, given_); }

}  // namespace nabla::cli
