// Budgets and house rules that a machine can check: sizes of files and functions, one BUILD per folder, nothing of the
// machine that the code was written on.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

namespace nabla {
namespace {

namespace fs = std::filesystem;
using std::string;

constexpr size_t kFileLines = 600;
constexpr size_t kFunctionLines = 80;

// The test's data are links into the workspace.
fs::path root() { return fs::canonical("WORKSPACE").parent_path(); }

bool is_source(const fs::path& p) {
  string e = p.extension();
  return e == ".cc" || e == ".h" || e == ".c";
}
bool is_text(const fs::path& p) {
  string e = p.extension();
  return is_source(p) || e == "" || e == ".md" || e == ".sh" || e == ".fbs" || e == ".bzl" || e == ".BUILD";
}

std::vector<fs::path> files() {
  std::vector<fs::path> out;
  for (auto it = fs::recursive_directory_iterator(root()); it != fs::recursive_directory_iterator(); ++it) {
    string name = it->path().filename();
    if (it->is_symlink() || name == ".git" || name == "out" || name.starts_with("bazel-")) {
      it.disable_recursion_pending();
      continue;
    }
    if (it->is_regular_file() && is_text(it->path())) out.push_back(it->path());
  }
  return out;
}

std::vector<string> lines_of(const fs::path& p) {
  std::ifstream in(p);
  std::vector<string> lines;
  for (string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

string shown(const fs::path& p) { return fs::relative(p, root()).string(); }

size_t indent_of(const string& line) {
  size_t n = line.find_first_not_of(' ');
  return n == string::npos ? 999 : n;
}

bool opens_a_type(const string& line) {
  for (const char* word : {"namespace", "struct", "class", "enum", "union", "extern", "template <", "};", "}", "#"})
    if (line.compare(indent_of(line), std::char_traits<char>::length(word), word) == 0) return true;
  return false;
}

// Formatted code: a body is indented more than the line that its function begins on and the brace that ends it.
std::vector<std::pair<size_t, size_t>> long_functions(const std::vector<string>& lines) {
  std::vector<std::pair<size_t, size_t>> out;
  for (size_t depth : {size_t{0}, size_t{2}}) {
    size_t begin = 0;
    for (size_t i = 0; i < lines.size(); ++i) {
      size_t indent = indent_of(lines[i]);
      if (indent < depth) begin = i;
      if (indent != depth) continue;
      bool ends = lines[i] == string(depth, ' ') + "}";
      if (ends && lines[begin].size() > depth && !opens_a_type(lines[begin]) && i - begin + 1 > kFunctionLines)
        out.emplace_back(begin + 1, i - begin + 1);
      if (lines[i][depth] != '/' && lines[i][depth] != '#') begin = i;
    }
  }
  return out;
}

TEST(Style, files_are_at_most_600_lines) {
  for (const fs::path& p : files()) EXPECT_LE(lines_of(p).size(), kFileLines) << shown(p);
}

TEST(Style, functions_are_at_most_80_lines) {
  for (const fs::path& p : files())
    if (is_source(p))
      for (auto [line, length] : long_functions(lines_of(p)))
        ADD_FAILURE() << shown(p) << ":" << line << " is " << length << " lines long";
}

TEST(Style, the_measure_finds_a_long_function) {
  std::vector<string> lines = {"int f(int a,", "      int b) {"};
  lines.insert(lines.end(), 80, "  g();");
  lines.push_back("}");
  EXPECT_EQ(long_functions(lines), (std::vector<std::pair<size_t, size_t>>{{1, 83}}));
}

TEST(Style, every_folder_of_sources_is_a_package) {
  for (const fs::path& p : files()) {
    if (!is_source(p)) continue;
    // A folder with the name of its binary cannot hold a package beside that binary.
    bool in_parent = shown(p.parent_path()) == "cli/nablac";
    EXPECT_TRUE(fs::exists((in_parent ? p.parent_path().parent_path() : p.parent_path()) / "BUILD")) << shown(p);
  }
}

TEST(Style, nothing_names_the_machine_or_unfinished_work) {
  // Spelled in halves, so that this file does not hold them.
  const std::vector<string> forbidden = {string("/wo") + "rk/", string("/ho") + "me/", string("/ro") + "ot/",
                                         string("../sha") + "red", string("TO") + "DO", string("FIX") + "ME"};
  for (const fs::path& p : files()) {
    std::vector<string> lines = lines_of(p);
    for (size_t i = 0; i < lines.size(); ++i)
      for (const string& word : forbidden)
        EXPECT_EQ(lines[i].find(word), string::npos) << shown(p) << ":" << i + 1 << ": " << word;
  }
}

}  // namespace
}  // namespace nabla
