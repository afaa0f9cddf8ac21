// The command line of nabla-run.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cli/nabla_run/launch.h"
#include "runtime/base/diagnostic.h"

namespace nabla::cli {

/// "x=file.npz:images": a name of the program and what stands for it.
struct Assignment {
  std::string name;
  std::string value;
};
/// Names may hold `=`: each assignment is split after the longest of the `known` names that it begins with, and where
/// it begins with none as it was, at the first `=`. E0901 for a name that then occurs twice.
Status split_at_names(std::vector<Assignment>& assignments, const std::vector<std::string>& known,
                      const std::string& option);

/// What belongs to one --entry.
struct JobOptions {
  std::string entry;  ///< empty: the bundle's only entry
  std::vector<Assignment> inputs, outputs, maps;
  std::string data;
  std::optional<int64_t> steps, epochs, bench;
  std::optional<int64_t> batch;             ///< otherwise the largest that the program and the data allow
  std::optional<int64_t> start_step, skip;  ///< otherwise as the saved state says
};

/// Of a bundle for several ranks.
struct RankOptions {
  const comm::Engine* engine = nullptr;  ///< null: as the process was started
  std::optional<uint32_t> np;
  std::string hosts;        ///< file
  RankFlags flags;
  double heartbeat_s = 1;   ///< who says nothing for five of them is lost
  double join_s = 60;       ///< for all ranks to come
  std::string reports;      ///< folder for what ranks were at when a run failed; empty: one of its own
  int max_restarts = 0;
  bool check_messages = false;
};

struct CheckpointOptions {
  std::string dir;               ///< empty: none are written
  std::optional<int64_t> every;  ///< steps; otherwise at the end alone
  int64_t keep = 3, keep_every = 0;
  bool required = false;         ///< one that cannot be written ends the run
  std::string resume;            ///< "latest", a step, or a folder; empty: begin anew
};

struct RunOptions {
  std::string bundle;  ///< empty: the bundle that this executable carries
  std::string state, weights, save_state, trace, metrics, tensorboard, loss_curve, target, rank_class;
  std::vector<std::string> weight_maps;  ///< "PATTERN=TARGET"
  std::vector<std::string> signers;      ///< files with public keys, one of which has signed the bundle; none: anybody may
  bool weights_partial = false;
  std::optional<uint64_t> seed;  ///< otherwise as the saved state says, or 0
  int threads = 0;
  std::optional<int64_t> comm_timeout_s;
  std::optional<int64_t> prometheus;  ///< port
  bool json = false, check_nan = false, sync_debug = false, profile = false;
  RankOptions ranks;
  CheckpointOptions checkpoints;
  std::string postmortem;        ///< not empty: only tell what the reports in this folder say
  std::vector<JobOptions> jobs;  ///< at least one
  std::string for_processes;     ///< the first option on the line that only ranks in several processes have; empty: none
};

/// What the command line asks for: a run, or a text to print (--help).
struct CommandLine {
  RunOptions options;
  std::string text;  ///< not empty: print this and exit with 0
};

/// `carries_bundle`: the executable carries one, so that BUNDLE is no argument. E0901 when the line is wrong.
Result<CommandLine> parse_command_line(const std::vector<std::string>& args, bool carries_bundle);

}  // namespace nabla::cli
