#include "tests/e2e/commands.h"

#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cstdio>
#include <cstdlib>

namespace nabla::e2e {

Output run(const std::string& command) {
  std::FILE* pipe = popen((command + " 2>&1").c_str(), "r");
  Output out{-1, ""};
  char buffer[4096];
  while (size_t n = std::fread(buffer, 1, sizeof buffer, pipe)) out.text.append(buffer, n);
  int status = pclose(pipe);
  out.code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  return out;
}

std::string must(const std::string& command) {
  Output out = run(command);
  EXPECT_EQ(out.code, 0) << command << "\n" << out.text;
  return out.text;
}

std::string scratch(const std::string& name) { return std::string(std::getenv("TEST_TMPDIR")) + "/" + name; }

}  // namespace nabla::e2e
