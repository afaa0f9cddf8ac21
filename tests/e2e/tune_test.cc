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
  auto second_line = [](const std::string& options) {
    must("cli/nablac tune " + scratch("f.nbl") + options + " -o " + scratch("f.tuning"));
    std::ifstream file(scratch("f.tuning"));
    std::string line;
    std::getline(file, line), std::getline(file, line);
    return line;
  };
  EXPECT_NE(second_line(" --threads 1").find(": on 1 thread; "), std::string::npos);
  std::string all = second_line("");
  EXPECT_NE(all.find(": on "), std::string::npos) << all;
  EXPECT_EQ(all.find(": on 0 "), std::string::npos) << all;
}

}  // namespace
}  // namespace nabla
