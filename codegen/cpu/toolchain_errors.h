// What the host compiler said, as diagnostics.
#pragma once

#include <optional>
#include <string>

#include "codegen/cpu/toolchain.h"

namespace nabla::codegen {

/// E0502: the log's first lines. `how`: "g++, exit status 1"; `what` is the file, or the link.
Diagnostic refused_ours(const std::string& log, const std::string& how, const std::string& what,
                        const std::string& folder);
/// Returns the error of a compiler that failed because of the machine: E0803 if `folder` has no free space, E0804 if memory or processes
/// are missing. Returns nullopt if neither the log, the folder nor the limits of the process show such a cause. `how` and `what` have the
/// same meaning as for refused_ours.
std::optional<Diagnostic> short_of(const std::string& log, const std::string& how, const std::string& what,
                                   const std::string& folder);
/// E0504 of a link that fails for want of a library; nothing where the log speaks of something else.
std::optional<Diagnostic> missing_symbols(const std::string& log, const std::vector<SourceFile>& sources);

}  // namespace nabla::codegen
