// nablac tune: what the file says of how it was measured.
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>

#include "tests/e2e/commands.h"

namespace nabla {
namespace {

using e2e::must;
using e2e::scratch;

TEST(Tune, TheFileSaysTheRealNumberOfThreads) {
  setenv("NABLA_CACHE", scratch("cache").c_str(), 1);
  std::ofstream(scratch("f.nbl")) << "nabla 1 flat\nfunc @f(%x: f32[8,8]) {\n"
                                     "  %0 = dot_general(%x, %x) {lhs_contract=[1], rhs_contract=[0]}\n  return %0\n}\n"
                                     "entry f calls @f {\n  inputs x\n  outputs y\n}\n";
  auto comment = [](const std::string& options) {
    must("cli/nablac tune " + scratch("f.nbl") + options + " -o " + scratch("f.tuning"));
    std::ifstream file(scratch("f.tuning"));
    std::string line;
    std::getline(file, line), std::getline(file, line);
    EXPECT_EQ(line, "target cpu:x86-64-v3");  // what nablac compile takes by default
    std::getline(file, line);
    return line;
  };
  EXPECT_NE(comment(" --threads 1").find(": on 1 thread; "), std::string::npos);
  std::string all = comment("");
  EXPECT_NE(all.find(": on "), std::string::npos) << all;
  EXPECT_EQ(all.find(": on 0 "), std::string::npos) << all;
}

TEST(Tune, RecordsOfAGpuGoIntoTheFileBesideItsChoices) {
  std::ofstream(scratch("gpu.tuning")) << "nabla-tuning 1\ngemm f32 1x8x8x8 nn = generated\n"
                                          "record G | 13.1.0 | gemm bf16 1x2x2x2 nn align 16 = 00\n";
  std::ofstream(scratch("gemm.records")) << "record G | 13.1.0 | gemm bf16 1x2x2x2 nn align 16 = 0a\n"
                                            "record G | 13.1.0 | gemm bf16 1x4x2x2 nn align 16 = 0b\n";
  must("cli/nablac tune --gpu-records " + scratch("gemm.records") + " -o " + scratch("gpu.tuning"));
  std::ifstream file(scratch("gpu.tuning"));
  std::stringstream text;
  text << file.rdbuf();
  EXPECT_EQ(text.str(),
            "nabla-tuning 3\ngemm f32 1x8x8x8 nn = generated\n"
            "record G | 13.1.0 | gemm bf16 1x2x2x2 nn align 16 = 0a\n"
            "record G | 13.1.0 | gemm bf16 1x4x2x2 nn align 16 = 0b\n");
}

// A module in the place of the records is one line of any length, of any bytes.
TEST(Tune, AFileOfNoGpuRecordsIsQuotedInShort) {
  std::ofstream(scratch("binary.nir")) << std::string(1 << 20, '\x01');
  auto wrong = e2e::run("cli/nablac tune --gpu-records " + scratch("binary.nir") + " -o " + scratch("binary.tuning"));
  EXPECT_EQ(wrong.code, 1);
  EXPECT_NE(wrong.text.find("binary.nir holds no GPU records: `\\x01"), std::string::npos) << wrong.text.substr(0, 500);
  EXPECT_NE(wrong.text.find("... (1048576 bytes)`"), std::string::npos) << wrong.text.substr(0, 500);
  EXPECT_LT(wrong.text.size(), 1000u);
}

}  // namespace
}  // namespace nabla
