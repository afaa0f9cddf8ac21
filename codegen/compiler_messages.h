// What compilers say, read back: the user's own line for the user's own mistakes.
#pragma once

#include <string>
#include <vector>

#include "codegen/toolchain.h"
#include "runtime/base/diagnostic.h"

namespace nabla::codegen {

constexpr size_t kMostLogLines = 12;  ///< of a compiler's log in a diagnostic

struct CompilerMessage {
  std::string file;
  int line = 0, column = 0;  ///< 1-based; column 0: unknown
  std::string kind, text;    ///< "error", "note"...
};

/// The messages of g++, clang++ and NVRTC in a log, in order.
std::vector<CompilerMessage> compiler_messages(const std::string& log);

/// The file that the compiler's messages about the text name: the user's, with `?` for what would break a message.
std::string user_file(const kernel_ir::UserText& text);
/// A line of the user's text, with that text.
LocationRef user_location(const kernel_ir::UserText& text, int64_t line);

/// E0504: the first error of the log at the user's own line, further messages as notes, the expected prototype as help.
Diagnostic refused_user(const std::string& log, const UserSource& user);
/// E0504 of a kernel of the user's that is beyond a target's limits, which `d` says, at the beginning of its text.
Diagnostic user_beyond_limits(Diagnostic d, const UserSource& user);

}  // namespace nabla::codegen
