// One bundle for every size, by the programs that users start.
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <string>

#include "runtime/format/npy.h"
#include "tests/e2e/commands.h"

namespace nabla {
namespace {

using e2e::run;
using e2e::scratch;
using std::string;

string counting(const string& name, std::vector<int64_t> shape) {
  Literal x(DType::kF32, std::move(shape));
  for (int64_t i = 0; i < x.size(); ++i) x.set(i, static_cast<double>(i));
  EXPECT_TRUE(format::write_npy(scratch(name), x).ok());
  return scratch(name);
}

TEST(Sizes, OneBundleRunsEverySizeAndRefusesOthers) {
  setenv("NABLA_CACHE", scratch("cache").c_str(), 1);
  std::ofstream(scratch("sizes.nbl")) << "nabla 1 traced\n"
                                         "symbol batch in [1, 64]\nsymbol len in [1, 128]\n"
                                         "entry rows calls @rows {\n  inputs x\n  outputs sum, twice\n}\n"
                                         "func @rows(%x: f32[batch,len]) {\n"
                                         "  %s = reduce_sum(%x) {axes=[1]}\n  %t = add(%x, %x)\n  return %s, %t\n}\n";
  auto compiled =
      run("cli/nablac compile " + scratch("sizes.nbl") + " --specialize batch=1 -o " + scratch("s.nbundle"));
  ASSERT_EQ(compiled.code, 0) << compiled.text;
  for (auto [batch, len] : {std::pair<int64_t, int64_t>{3, 5}, {64, 128}, {1, 1}}) {
    string x = counting("x.npy", {batch, len});
    auto r = run("cli/nabla-run " + scratch("s.nbundle") + " --input x=" + x + " --output sum=" + scratch("sum.npy"));
    ASSERT_EQ(r.code, 0) << r.text;
    Literal sum = format::read_npy(scratch("sum.npy")).value();
    ASSERT_EQ(sum.shape(), std::vector<int64_t>{batch});
    double last = static_cast<double>(len * (batch - 1) * len + len * (len - 1) / 2);
    EXPECT_EQ(sum.get(batch - 1), last);
  }
  auto embedded = run("examples/embed/embed " + scratch("s.nbundle") + " rows");
  EXPECT_NE(embedded.text.find("sum: 128 128"), string::npos) << embedded.text;
  auto wrong = run("cli/nabla-run " + scratch("s.nbundle") + " --input x=" + counting("x.npy", {65, 2}));
  EXPECT_NE(wrong.code, 0);
  EXPECT_NE(wrong.text.find("error[E0703]: entry `rows`: dimension 0 of input `x` gives batch = 65, which is not in "
                            "[1, 64]"),
            string::npos)
      << wrong.text;
  auto inspected = run("cli/nablac inspect " + scratch("s.nbundle") + " --at batch=8,len=16");
  EXPECT_NE(inspected.text.find("at batch=8,len=16:"), string::npos) << inspected.text;
}

}  // namespace
}  // namespace nabla
