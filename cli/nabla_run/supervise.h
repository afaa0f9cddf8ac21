// Who supervises the ranks of several processes: the nabla-run that starts mpirun, or the keeper of rank 0.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "cli/nabla_run/launch.h"
#include "cli/nabla_run/options.h"
#include "runtime/control/coordinator.h"

namespace nabla::cli {

/// How long ranks may take to end after the cause is known.
double grace_s(double heartbeat_s);
/// A coordinator with the times of `options`, which says on stderr what it has to warn of.
Result<std::unique_ptr<control::Coordinator>> start_coordinator(const RunOptions& options, control::CoordinatorOptions settings);
/// Where it listens for ranks of all machines that the launcher names: on this machine alone where they are all here.
std::string meeting_place(const Launched& launched);
/// The folder for reports of a start: `wanted`, or one of its own for this token.
std::string reports_folder(const std::string& wanted, const std::string& token);

/// Waits for the end of the run, and says on stderr who has waited for whom. The cause is written beside
/// the reports, and says where these are.
Status cause_of(control::Coordinator& coordinator, const std::string& folder);

/// Starts this program's own command line on all ranks, by mpirun or with --engine nccl itself, supervises them, and starts them again
/// where the options say so. Returns the exit code. `ranks` is how many the bundle is for.
int run_ranks(const RunOptions& options, const std::vector<std::string>& args, uint32_t ranks);

}  // namespace nabla::cli
