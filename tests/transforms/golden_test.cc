// Modules before and after each pass: tests/golden/passes/PASS/CASE.nbl holds `// run: opt --pass=PASS`, the module,
// a line `// ----` and the module that must come out. `bazel run //tests/transforms:golden_test -- --update_goldens`
// writes what comes out now.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include "ir/ops/all_ops.h"
#include "ir/text.h"
#include "ir/verifier.h"
#include "passes/pass_manager.h"

namespace nabla::transforms {

bool update_goldens = false;

namespace {

namespace fs = std::filesystem;
constexpr std::string_view kRun = "// run: opt --pass=", kSeparator = "// ----\n";

fs::path root() {
  const char* workspace = std::getenv("BUILD_WORKSPACE_DIRECTORY");
  return fs::path(update_goldens && workspace ? workspace : ".") / "tests/golden/passes";
}

std::vector<fs::path> goldens() {
  std::vector<fs::path> out;
  for (const auto& entry : fs::recursive_directory_iterator(root()))
    if (entry.path().extension() == ".nbl") out.push_back(entry.path());
  std::sort(out.begin(), out.end());
  return out;
}

std::string read(const fs::path& path) {
  std::ifstream in(path);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

TEST(GoldenPasses, GiveTheModulesThatTheFilesShow) {
  passes::ManagerOptions options;
  options.verify = [](const ir::Module& m) { return ir::verify(m); };
  for (const fs::path& path : goldens()) {
    std::string text = read(path), name = path.filename().string();
    SCOPED_TRACE(path.string());
    size_t line_end = text.find('\n'), cut = text.find(kSeparator);
    // Reports, and modules that other passes make first, are compared by the runner of all goldens alone.
    if (text.starts_with("// run: inspect") || text.starts_with("// run: opt --target") ||
        text.starts_with("// run: opt --pipeline"))
      continue;
    ASSERT_TRUE(text.starts_with(kRun)) << "the first line must be `" << kRun << "NAME`";
    std::string head = text.substr(0, line_end + 1);
    constexpr std::string_view kTarget = " --target ";
    std::string run = text.substr(kRun.size(), line_end - kRun.size());
    size_t named = run.find(kTarget);
    ir::Target target = ir::find_target(named == std::string::npos ? "cpu" : run.substr(named + kTarget.size())).value();
    target.library = true;  // as nablac opt has it
    auto step = passes::parse_step(run.substr(0, named));
    ASSERT_TRUE(step.ok()) << to_string(step.errors());
    EXPECT_EQ(path.parent_path().filename(), step->pass);
    std::string input = text.substr(line_end + 1, cut == std::string::npos ? cut : cut - line_end - 1);
    auto module = ir::parse_module(input, name, ops::all_ops());
    ASSERT_TRUE(module.ok()) << to_string(module.errors());
    auto out = passes::run_passes(*module, {*step}, ops::all_ops(), target, options);
    ASSERT_TRUE(out.ok()) << to_string(out.errors());
    std::string got = ir::print(out->module);
    for (const passes::PassReport& r : out->reports)
      for (const ir::Remark& remark : r.remarks) got += r.pass + ": " + remark.text + "\n";
    if (update_goldens) {
      std::ofstream(path) << head << input << kSeparator << got;
      continue;
    }
    ASSERT_NE(cut, std::string::npos) << "no line `// ----`; run with --update_goldens";
    EXPECT_EQ(text.substr(cut + kSeparator.size()), got);
  }
}

TEST(GoldenPasses, ThereIsOneForEveryPassOverTensors) {
  std::set<std::string> seen;
  for (const fs::path& path : goldens()) seen.insert(path.parent_path().filename().string());
  for (const passes::Pass& p : passes::all_passes())
    EXPECT_TRUE(p.stage_out >= ir::Stage::kKernels || seen.count(p.name)) << p.name;
}

}  // namespace
}  // namespace nabla::transforms

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  for (int i = 1; i < argc; ++i)
    if (std::string_view(argv[i]) == "--update_goldens") nabla::transforms::update_goldens = true;
  return RUN_ALL_TESTS();
}
