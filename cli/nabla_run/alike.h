// What all ranks of a job must have alike, as the lines that the coordinator compares.
#pragma once

#include <string>

#include "cli/nabla_run/options.h"

namespace nabla::cli {

/// An option a line, name and value separated by a tab. Files may have other names on other hosts: what is in them is what counts.
std::string job_of(const RunOptions& options);

}  // namespace nabla::cli
