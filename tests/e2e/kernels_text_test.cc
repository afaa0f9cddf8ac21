// The kernels of whole programs, as text: they read back, stay within their tensors, and a wrong one is named.
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>
#include <string>

#include "tests/e2e/commands.h"

namespace nabla {
namespace {

using e2e::must;
using e2e::run;
using e2e::scratch;
using std::string;

class KernelsText : public testing::TestWithParam<const char*> {};

TEST_P(KernelsText, ReadsBackAndVerifies) {
  string traced = scratch("traced.nir"), kernels = scratch("kernels.nbl"), planned = scratch("planned.nbl");
  must(string("examples/") + GetParam() + " " + traced);
  must("cli/nablac opt " + traced + " --pipeline-to=kernels -o " + kernels);
  EXPECT_NE(must("cli/nablac verify " + kernels).find("stage kernels"), string::npos);
  must("cli/nablac convert " + kernels + " " + scratch("again.nbl"));
  EXPECT_EQ(must("cli/nablac diff " + kernels + " " + scratch("again.nbl")), "");
  must("cli/nablac opt " + kernels + " --pipeline-to=planned -o " + planned);
}

INSTANTIATE_TEST_SUITE_P(Examples, KernelsText, testing::Values("digits/mlp", "digits/cnn", "charlm/charlm"),
                         [](const auto& info) { return string(info.param).substr(string(info.param).find('/') + 1); });

TEST(Verify, AKernelThatLeavesItsTensorIsNamed) {
  std::ofstream(scratch("f.nbl")) << "nabla 1 flat\nfunc @f(%x: f32[4,5]) {\n  %0 = exp(%x)\n  return %0\n}\n"
                                     "entry f calls @f {\n  inputs x\n  outputs y\n}\n";
  must("cli/nablac opt " + scratch("f.nbl") + " --pipeline-to=kernels -o " + scratch("k.nbl"));
  std::stringstream text;
  text << std::ifstream(scratch("k.nbl")).rdbuf();
  string wrong = text.str();
  size_t at = wrong.find("axes ");
  ASSERT_NE(at, string::npos) << wrong;
  size_t number = wrong.find("= ", at) + 2;
  wrong.replace(number, wrong.find_first_of(",\n", number) - number, "21");
  std::ofstream(scratch("wrong.nbl")) << wrong;
  auto out = run("cli/nablac verify " + scratch("wrong.nbl"));
  EXPECT_EQ(out.code, 1);
  EXPECT_NE(out.text.find("error[E0208]: kernel @exp: load of x: index "), string::npos) << out.text << wrong;
  EXPECT_NE(out.text.find(" runs from 0 to 20, its extent is "), string::npos) << out.text << wrong;
}

}  // namespace
}  // namespace nabla
