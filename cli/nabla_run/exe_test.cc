// The nabla-run executable with a bundle appended, as `nablac compile --emit=exe` makes it.
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>

#include "runtime/exec/test_bundle.h"
#include "runtime/format/executable.h"
#include "runtime/format/file.h"

namespace nabla::cli {
namespace {

std::string read_text(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return std::string((std::istreambuf_iterator<char>(file)), {});
}

TEST(Executable, ABundleAtItsEndIsRunWithoutAnArgument) {
  auto runtime = format::FileBytes::map("cli/nabla-run");
  ASSERT_TRUE(runtime.ok()) << to_string(runtime.errors());
  std::string path = testing::TempDir() + "/toy", out = testing::TempDir() + "/toy.out";
  ASSERT_TRUE(format::write_executable(path, (*runtime)->bytes(), exec::toy_bundle()).ok());
  auto shell = [&](const std::string& args) {
    int status = std::system(fmt::format("'{}' {} >'{}' 2>&1", path, args, out).c_str());
    return WEXITSTATUS(status);
  };
  EXPECT_EQ(shell("--entry init --input seed=1 --entry step --bench 3"), 0) << read_text(out);
  EXPECT_NE(read_text(out).find("step: min "), std::string::npos) << read_text(out);
  EXPECT_EQ(shell("other.nbundle --entry init"), 2) << read_text(out);
}

TEST(Executable, ABundleThatWasCutOrStrippedAwayIsNamed) {
  auto runtime = format::FileBytes::map("cli/nabla-run");
  ASSERT_TRUE(runtime.ok()) << to_string(runtime.errors());
  std::string path = testing::TempDir() + "/cut", out = testing::TempDir() + "/cut.out";
  std::string off = fmt::format("truncate -s {}", (*runtime)->bytes().size());
  for (const std::string& harm : std::vector<std::string>{"truncate -s -1", off, "strip", "echo tail >>"}) {
    ASSERT_TRUE(format::write_executable(path, (*runtime)->bytes(), exec::toy_bundle()).ok());
    ASSERT_EQ(std::system(fmt::format("{} '{}'", harm, path).c_str()), 0) << harm;
    int status = std::system(fmt::format("'{}' --entry init >'{}' 2>&1", path, out).c_str());
    EXPECT_EQ(WEXITSTATUS(status), 1) << harm;
    EXPECT_EQ(read_text(out), "error[E0104]: " + path +
                                  ": this executable had a bundle appended, and it is cut or gone\n"
                                  "   = help: write it again with `nablac compile --emit=exe`, and do not strip it\n")
        << harm;
  }
  int status = std::system("cli/nabla-run --entry init >/dev/null 2>&1");
  EXPECT_EQ(WEXITSTATUS(status), 2) << "nabla-run itself carries none";
}

}  // namespace
}  // namespace nabla::cli
