// Runs one entry as the command line says: once, for steps, over data, or as a benchmark.
#pragma once

#include <vector>

#include "cli/nabla_run_options.h"
#include "cli/nabla_run_report.h"
#include "runtime/base/diagnostic.h"
#include "runtime/exec/session.h"

namespace nabla::cli {

/// Runs `job`; state that has no value yet is made by the entry `init` before training. All files are read and all
/// names checked before the first run.
Status run_job(exec::Session& session, const RunOptions& options, const JobOptions& job, Reporter& reporter);

}  // namespace nabla::cli
