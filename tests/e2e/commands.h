// Starting programs as users do, in end-to-end tests.
#pragma once

#include <string>

namespace nabla::e2e {

struct Output {
  int code;          ///< exit code; -1 when the program was ended by a signal
  std::string text;  ///< stdout and stderr
};
/// Runs a command by /bin/sh.
Output run(const std::string& command);
/// What a command prints; a test failure when its exit code is not 0.
std::string must(const std::string& command);
/// A path in the test's own folder.
std::string scratch(const std::string& name);

}  // namespace nabla::e2e
