// Golden files: tests/golden/SUITE/**. A file holds `// run: ARGUMENTS OF nablac`, an input, a line `// ----`, and what
// nablac prints for it (both streams; `exit code N` last unless it is 0). FILE in the arguments is the input; without
// it the input is the last argument. `// input: NAME` in the second line names the input, which decides its form.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include "cli/nablac/commands.h"

namespace nabla {
namespace {

namespace fs = std::filesystem;
constexpr std::string_view kRun = "// run: ", kInput = "// input: ", kSeparator = "// ----\n";
const std::set<std::string> kSuites = {"ir", "errors", "passes", "program"};
// Suites with a runner of their own.
const std::set<std::string> kOthers = {"codegen", "kernel_ir"};

constexpr const char* kUpdate = "bazel run //tests:golden_runner_test -- --update_goldens writes what comes out now";

bool update_goldens = false;

fs::path golden_root() {
  const char* workspace = std::getenv("BUILD_WORKSPACE_DIRECTORY");
  return fs::path(update_goldens && workspace ? workspace : fs::current_path().string()) / "tests/golden";
}

std::string read(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

struct Golden {
  std::string head;  ///< the lines before the input
  std::vector<std::string> args;
  std::string input_name = "input.nbl";
  std::string input, output;
};

/// Nothing when the file has no run line or no separator.
std::optional<Golden> parse(const std::string& text, std::string& problem) {
  Golden g;
  if (!text.starts_with(kRun)) return problem = "the first line must be `// run: ARGUMENTS`", std::nullopt;
  size_t end = text.find('\n') + 1;
  std::istringstream words(text.substr(kRun.size(), end - 1 - kRun.size()));
  for (std::string word; words >> word;) g.args.push_back(word);
  if (std::string_view(text).substr(end).starts_with(kInput)) {
    size_t begin = end + kInput.size();
    end = text.find('\n', begin) + 1;
    g.input_name = text.substr(begin, end - 1 - begin);
  }
  g.head = text.substr(0, end);
  size_t cut = text.find(kSeparator, end);
  if (cut == std::string::npos && !update_goldens) return problem = "there is no line `// ----`", std::nullopt;
  g.input = text.substr(end, cut == std::string::npos ? cut : cut - end);
  if (cut != std::string::npos) g.output = text.substr(cut + kSeparator.size());
  return g;
}

std::string run(const Golden& g) {
  // Blank lines in the place of the head keep the line numbers of the golden file.
  std::ofstream(g.input_name, std::ios::binary)
      << std::string(static_cast<size_t>(std::count(g.head.begin(), g.head.end(), '\n')), '\n') << g.input;
  std::vector<std::string> args = g.args;
  auto file = std::find(args.begin(), args.end(), "FILE");
  if (file == args.end())
    args.push_back(g.input_name);
  else
    *file = g.input_name;
  std::ostringstream out, err;
  int code = cli::run_nablac(args, {out, err});
  std::string text = out.str() + err.str();
  if (code != 0) text += fmt::format("exit code {}\n", code);
  return text;
}

class GoldenFile : public testing::Test {
 public:
  explicit GoldenFile(fs::path path) : path_(std::move(path)) {}
  void TestBody() override {
    std::string text = read(path_), problem;
    std::optional<Golden> g = parse(text, problem);
    ASSERT_TRUE(g.has_value()) << path_ << ": " << problem;
    fs::path folder = fs::temp_directory_path() / fmt::format("nabla_golden_{}", getpid());
    fs::create_directories(folder);
    fs::path before = fs::current_path();
    fs::current_path(folder);
    std::string now = g->head + g->input + std::string(kSeparator) + run(*g);
    fs::current_path(before);
    fs::remove_all(folder);
    if (update_goldens)
      std::ofstream(path_, std::ios::binary) << now;
    else
      EXPECT_EQ(now, text) << kUpdate;
  }

 private:
  fs::path path_;
};

/// A reference that lies in docs/.
class Reference : public testing::Test {
 public:
  explicit Reference(std::string topic) : topic_(std::move(topic)) {}
  void TestBody() override {
    fs::path path = golden_root() / "../../docs" / (topic_ + ".md");
    std::ostringstream out, err;
    ASSERT_EQ(cli::run_nablac({"doc", topic_}, {out, err}), 0) << err.str();
    if (update_goldens)
      std::ofstream(path, std::ios::binary) << out.str();
    else
      EXPECT_EQ(out.str(), read(path)) << kUpdate;
  }

 private:
  std::string topic_;
};

/// Files that no suite runs would rot.
class EveryFileIsInASuite : public testing::Test {
 public:
  explicit EveryFileIsInASuite(std::vector<fs::path> strays) : strays_(std::move(strays)) {}
  void TestBody() override {
    for (const fs::path& p : strays_) ADD_FAILURE() << p << " is in no suite";
  }

 private:
  std::vector<fs::path> strays_;
};

void register_goldens() {
  std::vector<fs::path> files, strays;
  fs::path root = golden_root();
  for (const auto& entry : fs::recursive_directory_iterator(root)) {
    if (!fs::is_regular_file(entry.path()) || entry.path().filename() == "BUILD") continue;
    // Lexically: in the test the files are links.
    fs::path relative = entry.path().lexically_relative(root);
    std::string suite = relative.begin()->string();
    if (kSuites.count(suite))
      files.push_back(relative);
    else if (!kOthers.count(suite))
      strays.push_back(relative);
  }
  std::sort(files.begin(), files.end());
  for (const fs::path& f : files)
    testing::RegisterTest("Golden", f.string().c_str(), nullptr, nullptr, __FILE__, __LINE__,
                          [path = root / f]() -> testing::Test* { return new GoldenFile(path); });
  for (const char* topic : {"coverage", "shards"})
    testing::RegisterTest("Golden", fmt::format("docs/{}.md", topic).c_str(), nullptr, nullptr, __FILE__, __LINE__,
                          [topic]() -> testing::Test* { return new Reference(topic); });
  testing::RegisterTest("Golden", "EveryFileIsInASuite", nullptr, nullptr, __FILE__, __LINE__,
                        [strays]() -> testing::Test* { return new EveryFileIsInASuite(strays); });
}

}  // namespace
}  // namespace nabla

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  for (int i = 1; i < argc; ++i)
    if (std::string_view(argv[i]) == "--update_goldens") nabla::update_goldens = true;
  nabla::register_goldens();
  return RUN_ALL_TESTS();
}
