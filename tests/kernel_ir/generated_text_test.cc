// The C++ and the CUDA text of the nine kernels, whole: tests/golden/codegen/{cpu,cuda}. The prelude is not repeated.
// `bazel run //tests/kernel_ir:generated_text_test -- --update_goldens` writes what is printed now.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include "codegen/cpu/kernel_printer.h"
#include "codegen/cuda/printer.h"
#include "tests/kernel_ir/nine_kernels.h"

namespace nabla::kernel_ir {

bool update_goldens = false;

namespace {

namespace fs = std::filesystem;

fs::path root() {
  const char* workspace = std::getenv("BUILD_WORKSPACE_DIRECTORY");
  return fs::path(update_goldens && workspace ? workspace : ".") / "tests/golden/codegen";
}

std::string read(const fs::path& path) {
  std::ifstream in(path);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

void check(const fs::path& path, const std::string& got) {
  if (!update_goldens) {
    EXPECT_EQ(read(path), got) << path << "; if the change is meant, run with --update_goldens";
    return;
  }
  fs::create_directories(path.parent_path());
  std::ofstream(path) << got;
}

TEST(GeneratedText, IsWhatTheFilesShow) {
  ir::Target target = ir::find_target("cpu:x86-64-v3").value(), gpu = ir::find_target("sm_90a").value();
  for (const std::string& name : nine_kernels()) {
    Kernel k = read_kernel(name);
    check(root() / "cpu" / (name + ".cc"), codegen::print_cpp(k, "nk_" + name, target));
    check(root() / "cuda" / (name + ".cu"), print_for_gpu(k, "nk_" + name, gpu).value().text);
  }
}

TEST(GeneratedText, HasNoFileWithoutAKernel) {
  std::set<std::string> want, got;
  for (const std::string& name : nine_kernels()) want.insert(name + ".cc"), want.insert(name + ".cu");
  for (const auto& entry : fs::recursive_directory_iterator(root()))
    if (!entry.is_directory()) got.insert(entry.path().filename().string());
  EXPECT_EQ(got, want);
}

}  // namespace
}  // namespace nabla::kernel_ir

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  for (int i = 1; i < argc; ++i)
    if (std::string_view(argv[i]) == "--update_goldens") nabla::kernel_ir::update_goldens = true;
  return RUN_ALL_TESTS();
}
