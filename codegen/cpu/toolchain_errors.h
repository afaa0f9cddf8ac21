// What the host compiler said, as diagnostics.
#pragma once

#include <optional>
#include <string>

#include "codegen/cpu/toolchain.h"

namespace nabla::codegen {

/// E0502: the log's first lines. `how`: "g++, exit status 1"; `what` is the file, or the link.
Diagnostic refused_ours(const std::string& log, const std::string& how, const std::string& what,
                        const std::string& folder);
/// What the machine lacked when a compiler failed, which is no fault of the code: E0803 for room where it writes (`folder`), E0804
/// for memory or processes. Nothing if the log and the folder tell of no such lack. `how` and `what` as for refused_ours.
std::optional<Diagnostic> short_of(const std::string& log, const std::string& how, const std::string& what,
                                   const std::string& folder);
/// E0504 of a link that fails for want of a library; nothing where the log speaks of something else.
std::optional<Diagnostic> missing_symbols(const std::string& log, const std::vector<SourceFile>& sources);

}  // namespace nabla::codegen
