// Flags of nablac, which need no value: what they may get.
#include <gtest/gtest.h>

#include <sstream>

#include "cli/nablac/commands.h"

namespace nabla::cli {
namespace {

struct Outcome {
  int code;
  std::string err;
};

// The file is missed only by a line that is right.
Outcome nablac(const std::string& command, const std::string& option) {
  std::ostringstream out, err;
  testing::internal::CaptureStderr();  // where `compile` writes
  std::vector<std::string> args = {command, "none.nbl", option};
  if (command == "diff") args.insert(args.begin() + 1, "none.nbl");
  int code = run_nablac(args, {out, err});
  return {code, err.str() + testing::internal::GetCapturedStderr()};
}

TEST(Flags, TakeNothingElseThanYesOrNo) {
  for (const auto& [command, flags] : std::vector<std::pair<std::string, std::vector<std::string>>>{
           {"compile",
            {"--tf32", "--no-library", "--no-fuse", "--no-debug-prints", "--no-cache", "--timing", "--deterministic", "--no-overlap",
             "--auto-shard"}},
           {"inspect", {"--json", "--source", "--auto-shard", "--tf32", "--no-library"}},
           {"opt", {"--no-library", "--print-after-all", "--print-changed", "--program", "--locations", "--timing"}},
           {"diff", {"--locations", "--color"}},
           {"plan", {"--json"}}})
    for (const std::string& flag : flags) {
      for (const char* value : {"7", "-1", "2", "banana", "TRUE", "99999999999999999999"}) {
        Outcome o = nablac(command, flag + "=" + value);
        EXPECT_EQ(o.code, 2) << command << " " << flag << "=" << value;
        EXPECT_EQ(o.err, fmt::format("error[E0901]: nablac: {}: `{}` is not true, false, yes, no, on, off, 1 or 0; "
                                     "the flag needs no value\n   = help: `nablac {} --help` lists what it takes\n",
                                     flag, value, command));
      }
      for (const char* value : {"", "=true", "=0"}) {
        Outcome o = nablac(command, flag + value);
        EXPECT_EQ(o.err.find("needs no value"), std::string::npos) << o.err;
      }
    }
}

// Without the check, CLI11 would take the next argument as the value.
TEST(Options, NeedAValueAfterTheirEqualsSign) {
  Outcome o = nablac("compile", "--target=");
  EXPECT_EQ(o.code, 2);
  EXPECT_EQ(o.err, "error[E0901]: --target: nothing stands after the `=`\n   = help: give it a value, or leave it out\n");
}

}  // namespace
}  // namespace nabla::cli
