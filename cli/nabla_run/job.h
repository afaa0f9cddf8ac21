// Runs one entry as the command line says: once, for steps, over data, or as a benchmark.
#pragma once

#include <functional>

#include "cli/nabla_run/data.h"
#include "cli/nabla_run/options.h"
#include "cli/nabla_run/progress.h"
#include "cli/nabla_run/report.h"
#include "runtime/base/diagnostic.h"
#include "runtime/exec/session.h"

namespace nabla::cli {

class Checkpoints;

/// Reads all files of `job`, through `files`, and checks all its names; calling what it returns runs it. State that has
/// no value yet is then made by the entry `init` before training, which goes on where `progress` says and moves it on, and tells
/// `checkpoints` of every run; they may be null.
/// All arguments but `files` and `reporter` outlive it.
Result<std::function<Status(Reporter&)>> prepare_job(exec::Session& session, const RunOptions& options,
                                                     const JobOptions& job, ProgressOf& progress, Checkpoints* checkpoints,
                                                     ArrayFiles& files, Reporter& reporter);

/// split_at_names for all assignments of the job, by the names of its entry; an unknown entry is left to prepare_job.
Status split_at_names(const exec::Session& session, JobOptions& job);

/// Runs the entry `init` once; does nothing where there is none.
Status run_init(exec::Session& session, const RunOptions& options, ProgressOf& progress, Reporter& reporter);

/// Who decides whether jobs go on. By default they do until a signal comes.
struct Steering {
  std::function<bool()> may_run;  ///< before every run: may it begin?
  std::function<bool()> stopped;  ///< has it said no?
};
void steer_jobs(Steering steering);

/// Who gets signals to stop, and what a second one does. Of several processes each gets the first one, perhaps twice: what comes
/// within control::kTogetherS is one.
enum class Stops {
  kAlone,   ///< ends the process
  kRank,    ///< ends it too; also what its keeper says is one (control::keep_rank)
  kStarter  ///< is counted, for the process that has started the ranks
};
/// From now on the first INT, TERM or HUP makes jobs end: between two instructions where the session stops all loops
/// (SessionOptions), else after the step that runs. All but ranks say so on stderr.
void stop_jobs_on_signals(Stops who);
/// Have jobs been stopped?
bool interrupted();
/// How many signals have come: 0, 1, or 2.
int signals();
/// Turns from 0 when one comes.
const volatile sig_atomic_t* stop_flag();

}  // namespace nabla::cli
