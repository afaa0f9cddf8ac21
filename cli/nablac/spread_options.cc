#include "cli/nablac/spread_options.h"

#include <algorithm>

#include "passes/pass.h"

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

void SpreadOptions::add_rules(CLI::App& command) {
  command
      .add_option_function<std::vector<std::string>>(
          "--layout",
          [this](const std::vector<std::string>& rules) {
            std::string& all = options_.pass_options["apply-strategy"]["layouts"];
            for (const std::string& rule : rules) all += (all.empty() ? "" : ";") + rule;
            note("--layout");
          },
          "PATTERN=WORDS: a regular expression of names of state leaves, and a word per dimension: ,tp or tp, or dp+tp; "
          "`,tp allow_padding` where axes need not divide; may be repeated")
      ->allow_extra_args(false);
}

void SpreadOptions::add_layouts(CLI::App& command) {
  command
      .add_option("--mesh", options_.mesh,
                  "dp=4,tp=2: ranks along axes of the module's mesh; default: as the module says. 1 each: one rank. With "
                  "--data-axes also a mesh for a module that has none")
      ->allow_extra_args(false);
  add_rules(command);
  add(command, "--data-axes", "apply-strategy", "data-axes");
  add(command, "--zero", "apply-strategy", "zero")->check(CLI::IsMember({"0", "1", "2", "3"}));
  add(command, "--zero-axes", "apply-strategy", "zero-axes");
  add_microbatches(command);
}

void SpreadOptions::add_microbatches(CLI::App& command) {
  command
      .add_option("--microbatches", options_.microbatches,
                  "parts of the batch that ranks compute one after the other, adding up their gradients")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 20));
}

void SpreadOptions::add_all(CLI::App& command) {
  add_layouts(command);
  add(command, "--grad-sync", "partition", "grad-sync")->check(CLI::IsMember({"last", "each"}));
}

Status SpreadOptions::check(const ir::Module& module) const {
  bool temporal = options_.microbatches > 0 || (module.mesh() && module.mesh()->temporal());
  bool waits = std::find(given_.begin(), given_.end(), "--grad-sync") != given_.end();
  if (waits && !temporal) return error(Code::kBadOption, "--grad-sync: the batch is not cut into microbatches (--microbatches)");
  if (module.mesh() || !options_.mesh.empty() || given_.empty() || (waits && given_.size() == 1)) return Ok{};
  return error(Code::kBadOption, "{}: the module has no mesh, so that one rank runs it, which exchanges nothing", given_[0]);
}

}  // namespace nabla::cli
