// The budgets and the layout rules of the tree. A budget is raised here, with a reason, or not at all.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <sstream>

#include "tests/style/functions.h"

namespace nabla::style {
namespace {

namespace fs = std::filesystem;

constexpr int kFileLines = 600, kFunctionLines = 80, kColumns = 140, kPythonColumns = 120;

fs::path root() { return fs::canonical("WORKSPACE").parent_path(); }

std::string read(const fs::path& path) {
  std::ifstream in(path);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

// What git ignores or keeps for itself, at the top of the tree.
bool is_foreign(const std::string& name) {
  return name.starts_with("bazel-") || name == "out" || name == ".git" || name == ".cache" || name == "user.bazelrc" ||
         name == "compile_commands.json";
}

struct File {
  std::string name;  // from the root
  std::string text;
  bool has(std::initializer_list<const char*> suffixes) const {
    return std::any_of(suffixes.begin(), suffixes.end(), [&](const char* s) { return name.ends_with(s); });
  }
  bool is_cpp() const { return has({".cc", ".h", ".c", ".cuh"}); }
  bool is_python() const { return has({".py", ".pyi"}); }
  // The declarations of one compiled module stand in one file.
  bool is_declarations() const { return has({".pyi"}); }
  bool is_generated() const { return name.starts_with("tests/golden/"); }
  std::vector<std::string> lines() const {
    std::vector<std::string> out;
    std::istringstream in(text);
    for (std::string line; std::getline(in, line);) out.push_back(line);
    return out;
  }
};

void collect(const fs::path& folder, const fs::path& top, std::vector<File>& out) {
  for (const auto& entry : fs::directory_iterator(folder)) {
    std::string name = entry.path().filename().string();
    if (folder == top && is_foreign(name)) continue;
    if (entry.is_symlink()) continue;
    if (entry.is_directory()) {
      collect(entry.path(), top, out);
      continue;
    }
    File f{entry.path().lexically_relative(top).string(), read(entry.path())};
    bool prose = f.name == "examples/charlm/jargon.txt";  // data, in words of its own
    if (!prose && f.text.find('\0') == std::string::npos) out.push_back(std::move(f));
  }
}

const std::vector<File>& files() {
  static const std::vector<File> all = [] {
    std::vector<File> out;
    collect(root(), root(), out);
    std::sort(out.begin(), out.end(), [](const File& a, const File& b) { return a.name < b.name; });
    return out;
  }();
  return all;
}

// The texts between quotes of a line of C++. A comment at its end is left out.
std::vector<std::string> literals_of(const std::string& line) {
  std::vector<std::string> out;
  for (size_t at = 0; at < line.size(); ++at) {
    if (line.compare(at, 2, "//") == 0) break;
    if (line.compare(at, 3, "'\"'") == 0) at += 2;
    if (line[at] != '"') continue;
    size_t end = at + 1;
    while (end < line.size() && line[end] != '"') end += line[end] == '\\' ? 2 : 1;
    out.push_back(line.substr(at + 1, end - at - 1));
    at = end;
  }
  return out;
}

// Calls `f(line, number)`; a message names each line that f rejects.
template <class F>
void expect_lines(const File& file, const std::string& what, const F& accepts) {
  int number = 0;
  for (const std::string& line : file.lines())
    if (++number; !accepts(line))
      ADD_FAILURE() << file.name << ":" << number << ": " << what << ": " << line.substr(0, 160);
}

TEST(Style, TheTreeIsThere) {
  EXPECT_GT(files().size(), 150u);
  EXPECT_TRUE(
      std::any_of(files().begin(), files().end(), [](const File& f) { return f.name == "tests/style/style_test.cc"; }));
}

TEST(Style, FilesAreShort) {
  for (const File& f : files())
    if ((f.is_cpp() || f.is_python() || f.has({".sh", ".bzl", "BUILD"})) && !f.is_generated() && !f.is_declarations()) {
      EXPECT_LE(f.lines().size(), kFileLines) << f.name;
    }
}

TEST(Style, FunctionsAreShort) {
  // Tables whose rows are code: a named case per rewrite rule.
  const std::set<std::string> kTables = {"arithmetic_cases", "movement_cases", "guard_cases"};
  auto is_table = [&](const std::string& head) {
    return std::any_of(kTables.begin(), kTables.end(),
                       [&](const std::string& t) { return head.find(" " + t + "()") != std::string::npos; });
  };
  int found = 0;
  for (const File& f : files()) {
    if (!f.is_cpp() || f.is_generated()) continue;
    for (const FunctionLines& function : find_functions(f.text)) {
      ++found;
      if (is_table(function.head)) continue;
      EXPECT_LE(function.last - function.first + 1, kFunctionLines)
          << f.name << ":" << function.first << ": " << function.head;
    }
  }
  EXPECT_GT(found, 1000);
}

TEST(Style, FunctionsAreFoundAsTheyStand) {
  auto found = find_functions(
      "#define M(x) {\n"
      "namespace a {\n"
      "constexpr int kTable[] = {f(1), 2};\n"
      "struct S {\n"
      "  S() : x_{1}, y_(2) {}\n"
      "  bool operator==(const S& o) const {\n"
      "    return \"}\"[0] == '{' || R\"(})\" == x_;\n"
      "  }\n"
      "};\n"
      "template <class T = int>\n"
      "int g(T x, int b = f({})) {\n"
      "  auto l = [](int y) { return y; };\n"
      "  if (x) { return 1; }  // }\n"
      "}\n"
      "}\n");
  std::vector<std::pair<int, int>> lines;
  for (const FunctionLines& f : found) lines.push_back({f.first, f.last});
  EXPECT_EQ(lines, (std::vector<std::pair<int, int>>{{5, 5}, {6, 8}, {10, 14}}));
}

TEST(Style, LinesAreNotWide) {
  for (const File& f : files()) {
    if (f.is_generated() || (!f.is_cpp() && !f.is_python())) continue;
    const size_t columns = f.is_python() ? kPythonColumns : kColumns;
    expect_lines(f, "too wide", [&](const std::string& line) { return line.size() <= columns; });
  }
}

TEST(Style, PythonIsIndentedBySpacesAndEndsWithoutThem) {
  for (const File& f : files()) {
    if (!f.is_python()) continue;
    expect_lines(f, "a tab", [](const std::string& line) { return line.find('\t') == std::string::npos; });
    expect_lines(f, "space at the end", [](const std::string& line) { return !line.ends_with(' '); });
  }
}

TEST(Style, EveryFolderWithSourcesHasOneBuildFile) {
  // Their targets stand one folder above: `nablac` is a binary's name, the extension module lies in `nabla`.
  const std::set<std::string> kAbove = {"cli/nablac", "frontend/python/native"};
  std::map<std::string, bool> folders;
  for (const File& f : files())
    if (f.is_cpp() && !f.is_generated()) folders[fs::path(f.name).parent_path().string()] = false;
  for (const File& f : files()) {
    fs::path path = f.name;
    EXPECT_NE(path.filename(), "BUILD.bazel") << f.name << ": the name here is BUILD";
    if (path.filename() == "BUILD") folders[path.parent_path().string()] = true;
  }
  for (const auto& [folder, has] : folders)
    if (!kAbove.count(folder)) {
      EXPECT_TRUE(has) << folder << " has sources and no BUILD";
    }
}

TEST(Style, NothingIsLeftToDo) {
  // Put together here, so that this file may stand in the tree that it reads.
  const std::regex mark(std::string(R"(\b(TO)") + "DO|FIX" + "ME|X" + R"(XX)\b)");
  for (const File& f : files())
    expect_lines(f, "unfinished", [&](const std::string& line) { return !std::regex_search(line, mark); });
}

// Python spells options in another way (runtime/base/option_name.h). Command lines in messages are what people type in a shell.
TEST(Style, TheCompilerNamesOptionsByTheirIdentity) {
  const std::regex option(R"(--[a-z]+)"), command(R"(nablac|nabla-run)");
  for (const File& f : files()) {
    const bool compiler = f.name.starts_with("passes/") || f.name.starts_with("ir/") || f.name.starts_with("cli/driver/");
    // The registry's texts are pages of `nablac doc`.
    if (!compiler || !f.has({".cc", ".h"}) || f.has({"_test.cc"}) || f.name == "passes/registry.cc") continue;
    expect_lines(f, "an option is spelled in a text: OptionName{...} is spelled as the front end does", [&](const std::string& line) {
      const std::vector<std::string> texts = literals_of(line);
      return std::none_of(texts.begin(), texts.end(), [&](const std::string& text) {
        return std::regex_search(text, option) && !std::regex_search(text, command);
      });
    });
  }
}

TEST(Style, NoMachineIsNamed) {
  const std::string root_home = std::string("/ro") + "ot/", mount = std::string("/wo") + "rk",
                    shared = std::string("../sh") + "ared";
  const std::regex place("(" + root_home + "|" + mount + R"(\b(?!sp|er|ing)|)" + shared + "|/home/[a-z]+/)");
  const std::regex registry(std::string("(artifact") + "ory|pypi" + R"(\.org|registry\.np)" + "m|jf" + "rog)");
  for (const File& f : files()) {
    if (f.has({".nbundle", ".npz", ".npy"})) continue;
    expect_lines(f, "a path of one machine", [&](const std::string& line) { return !std::regex_search(line, place); });
    expect_lines(f, "a package registry", [&](const std::string& line) { return !std::regex_search(line, registry); });
  }
}

TEST(Style, HeadersAreGuarded) {
  // Texts that are pasted into generated code, never included.
  const std::set<std::string> kTexts = {"codegen/cpu/linalg_procedures.h", "codegen/cpu/loops.h", "codegen/cpu/prelude.h",
                                        "codegen/cpu/procedures.h", "codegen/cpu/special.h"};
  for (const File& f : files()) {
    if (!f.has({".h"}) || f.is_generated() || kTexts.count(f.name)) continue;
    bool guarded = f.text.find("#pragma once") != std::string::npos || f.text.find("#ifndef") != std::string::npos;
    EXPECT_TRUE(guarded) << f.name;
  }
}

TEST(Style, SourcesBeginWithTheirPurposeOrTheirHeader) {
  for (const File& f : files()) {
    if (!f.is_cpp() || f.is_generated()) continue;
    EXPECT_TRUE(f.text.starts_with("//") || f.text.starts_with("/*") || f.text.starts_with("#include \"")) << f.name;
  }
}

TEST(Style, PythonBeginsWithItsPurpose) {
  int found = 0;
  for (const File& f : files()) {
    if (!f.is_python()) continue;
    ++found;
    EXPECT_TRUE(f.text.starts_with("\"\"\"") || f.text.starts_with("#")) << f.name;
  }
  EXPECT_GT(found, 0);
}

TEST(Style, TargetsAreClosedUnlessTheyNameTheirClients) {
  for (const File& f : files()) {
    if (!f.name.ends_with("BUILD") || f.text.find("cc_library") == std::string::npos ||
        f.name.starts_with("third_party/") || f.name == "runtime/base/BUILD")  // below everything
      continue;
    EXPECT_NE(f.text.find("package(default_visibility = "), std::string::npos) << f.name;
    EXPECT_EQ(f.text.find("default_visibility = [\"//visibility:public\"]"), std::string::npos) << f.name;
  }
}

}  // namespace
}  // namespace nabla::style
