// The host compiler: C++ text in, one shared object out, in parallel and through a cache on disk.
#pragma once

#include <string>
#include <vector>

#include "codegen/toolchain.h"
#include "ir/target.h"

namespace nabla::codegen {

/// What compile_shared_object runs, without file names: part of the cache key and of the report.
std::string compiler_command(const ir::Target& target);

/// Compiles each file in a process of its own and links them. The same texts give the same bytes.
/// E0501: no compiler ($NABLA_CXX, g++, clang++, c++ are tried). E0502: it refused the text; the diagnostic holds its
/// first messages and the folder that keeps the sources. E0504: it refused text of the user's; the diagnostic shows the
/// user's line.
Result<std::string> compile_shared_object(const std::vector<SourceFile>& sources, const ir::Target& target,
                                          const ToolchainOptions& options);

}  // namespace nabla::codegen
