// A user's kernel and pretrained weights, by the programs that users start.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <fstream>
#include <string>

#include "runtime/format/npy.h"
#include "runtime/format/safetensors.h"
#include "tests/e2e/commands.h"

namespace nabla {
namespace {

using e2e::must;
using e2e::run;
using e2e::scratch;
using std::string;

void write_inputs() {
  Literal x(DType::kF32, {16, 4, 32}), weight(DType::kF32, {32});
  for (int64_t i = 0; i < x.size(); ++i) x.set(i, std::sin(static_cast<double>(i)));
  for (int64_t i = 0; i < 32; ++i) weight.set(i, 1 + 0.01 * static_cast<double>(i));
  ASSERT_TRUE(format::write_npy(scratch("x.npy"), x).ok());
  ASSERT_TRUE(format::write_npy(scratch("weight.npy"), weight).ok());
}

TEST(UserKernel, TheExampleCompilesRunsAndAgreesWithItsReference) {
  setenv("NABLA_CACHE", scratch("cache").c_str(), 1);
  write_inputs();
  must("examples/user_kernel/user_kernel " + scratch("k.nir"));
  must("cli/nablac convert " + scratch("k.nir") + " " + scratch("k.nbl"));
  must("cli/nablac convert " + scratch("k.nbl") + " " + scratch("k.nir.json"));
  must("cli/nablac compile " + scratch("k.nir.json") + " -o " + scratch("k.nbundle"));
  string inputs = " --input x=" + scratch("x.npy") + " --input weight=" + scratch("weight.npy");
  must("cli/nabla-run " + scratch("k.nbundle") + " --check-nan --entry forward" + inputs +
       " --output y=" + scratch("y.npy"));
  // The first token is not turned: its rows are normalized alone.
  Literal y = format::read_npy(scratch("y.npy")).value();
  double square = 0;
  for (int64_t i = 0; i < 32; ++i) square += std::sin(static_cast<double>(i)) * std::sin(static_cast<double>(i));
  double scale = 1 / std::sqrt(square / 32 + 1e-6);
  for (int64_t i = 0; i < 32; ++i)
    EXPECT_NEAR(y.get(i), std::sin(static_cast<double>(i)) * scale * (1 + 0.01 * static_cast<double>(i)), 1e-5);
  string same = must("cli/nablac diff " + scratch("k.nbl") + " " + scratch("k.nir"));
  EXPECT_EQ(run("cli/nablac inspect " + scratch("k.nbundle")).text.find("norm_rotary") == string::npos, false);
  EXPECT_NE(must("cli/nablac inspect --source " + scratch("k.nbundle")).find("static void one_head("), string::npos);

  must("cli/nablac compile " + scratch("k.nir") + " --target cpu:x86-64-v3 --emit=exe --no-library -o " + scratch("k"));
  must(scratch("k") + " --entry backward" + inputs + " --output dx=" + scratch("dx.npy"));
  EXPECT_EQ(format::read_npy(scratch("dx.npy")).value().shape(), (std::vector<int64_t>{16, 4, 32}));
}

TEST(UserKernel, CodeThatDoesNotCompileIsTheUsersMistake) {
  setenv("NABLA_CACHE", scratch("cache").c_str(), 1);
  std::ofstream(scratch("bad.nbl"))
      << "nabla 1 traced\nentry main calls @main {\n  inputs x\n  outputs y\n}\n"
         "func @main(%x: f32[3]) {\n  %y = custom_call(%x) {name=\"twice\", "
         "cpp=\"\\nvoid twice(const T* x, T* y, int64_t n) {\\n  y[0] = x[0] +;\\n}\\n\", "
         "file=\"model.cc\", line=40, signature=\"T[n] -> T[n]\"}\n  return %y\n}\n";
  auto r = run("cli/nablac compile " + scratch("bad.nbl") + " -o " + scratch("bad.nbundle"));
  EXPECT_EQ(r.code, 1);
  EXPECT_NE(r.text.find("error[E0504]: kernel `twice` does not compile: "), string::npos) << r.text;
  EXPECT_NE(r.text.find("  --> model.cc:42:"), string::npos) << r.text;
  EXPECT_NE(r.text.find("   |   y[0] = x[0] +;\n"), string::npos) << r.text;
  EXPECT_NE(r.text.find("help: the source must define void twice(const float* x0, float* y0, int64_t n)"), string::npos)
      << r.text;
  EXPECT_EQ(r.text.find("reproducer"), string::npos) << r.text;
}

}  // namespace
}  // namespace nabla
