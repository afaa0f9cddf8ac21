// What all ranks of a job must have alike, as the lines that the coordinator compares.
#pragma once

#include <string>

#include "cli/nabla_run_options.h"

namespace nabla::cli {

/// What is in a file, for people and to be compared: "of 12345 bytes (content 0a1b2c3d)". Of more than 16 MiB its size and a sample
/// count: the first and the last MiB and 64 blocks of 4 KiB between them. Says so of a file that cannot be read.
std::string content_of(const std::string& path);

/// An option a line, name and value separated by a tab. Files may have other names on other hosts: what is in them is what counts.
std::string job_of(const RunOptions& options);

}  // namespace nabla::cli
