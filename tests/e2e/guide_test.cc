// docs/frontend.md: what it quotes stands in examples/guide word for word, and those programs do what it says.
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "runtime/base/literal.h"
#include "runtime/format/npy.h"
#include "tests/e2e/commands.h"

namespace nabla {
namespace {

using e2e::must;
using e2e::scratch;
using std::string;

const std::vector<string> kPrograms = {"classifier", "derivatives", "linear", "loops", "prints", "rules", "sizes"};

string read(const string& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

TEST(Guide, QuotesItsProgramsWordForWord) {
  std::map<string, string> sources{{"BUILD", read("examples/guide/BUILD")}};
  for (const string& name : kPrograms) sources[name] = read("examples/guide/" + name + ".cc");
  string page = read("docs/frontend.md");
  std::set<string> quoted;
  int quotes = 0;
  for (const string& fence : {string("```cpp\n"), string("```python\n")})
    for (size_t at = page.find(fence); at != string::npos; at = page.find(fence, at)) {
      size_t begin = at + fence.size();
      at = page.find("```", begin);
      string quote = page.substr(begin, at - begin);
      bool found = false;
      for (const auto& [name, text] : sources)
        if (text.find("\n" + quote) != string::npos) found = true, quoted.insert(name);
      EXPECT_TRUE(found) << "no program of examples/guide has these lines:\n" << quote;
      ++quotes;
    }
  EXPECT_GE(quotes, 8);
  EXPECT_EQ(quoted.size(), sources.size()) << "the page quotes every program";
}

TEST(Guide, EveryProgramIsAProgram) {
  for (const string& name : kPrograms) {
    SCOPED_TRACE(name);
    must("examples/guide/" + name + " " + scratch(name + ".nir"));
    must("cli/nablac opt " + scratch(name + ".nir") + " --pipeline-to=planned");
  }
  EXPECT_EQ(e2e::run("examples/guide/linear").code, 2);
  auto failed = e2e::run("examples/guide/linear " + scratch("no/folder/x.nir"));
  EXPECT_EQ(failed.code, 1);
  EXPECT_NE(failed.text.find("error[E0803]"), string::npos) << failed.text;
}

TEST(Guide, TheLinearModelIsTrainedAsThePageSays) {
  setenv("NABLA_CACHE", scratch("cache").c_str(), 1);
  string module = scratch("linear.nir"), bundle = scratch("linear.nbundle"), data = scratch("train.npz");
  Literal x(DType::kF32, {16, 3}), y(DType::kF32, {16});
  for (int64_t i = 0; i < 48; ++i) x.set(i, static_cast<double>(i * 7 % 11) / 11);
  for (int64_t i = 0; i < 16; ++i) y.set(i, x.get(3 * i) - 2 * x.get(3 * i + 2));
  ASSERT_TRUE(format::write_npz(data, {{"x", x}, {"y", y}}).ok());
  must("examples/guide/linear " + module);
  must("cli/nablac compile " + module + " -o " + bundle);
  string log = must("cli/nabla-run " + bundle + " --entry step --data " + data + " --epochs 10 --save-state " +
                    scratch("linear.safetensors"));
  EXPECT_NE(log.find("steps 20"), string::npos) << log;
}

TEST(Guide, PrintsComeInOrderAndCanBeLeftOut) {
  setenv("NABLA_CACHE", scratch("cache").c_str(), 1);
  string module = scratch("prints.nir"), bundle = scratch("prints.nbundle"), data = scratch("x.npz");
  Literal x(DType::kF32, {8, 2});
  for (int64_t i = 0; i < x.size(); ++i) x.set(i, 1);
  ASSERT_TRUE(format::write_npz(data, {{"x", x}}).ok());
  ASSERT_TRUE(format::write_npy(scratch("n.npy"), Literal::scalar_int(DType::kI32, 7)).ok());
  must("examples/guide/prints " + module);
  must("cli/nablac compile " + module + " -o " + bundle);
  string log = must("cli/nabla-run " + bundle + " --entry step --data " + data + " --epochs 1");
  // The way back of the derivative prints nothing; the second step knows that it is the second.
  for (const char* part : {"step 1: y [2.0, 2.0, 2.0, 2.0]\nstep 1: loss 4.0000, gradient [4.00, 4.00]\n",
                           "step 2: y [1.2, 1.2, 1.2, 1.2]\nstep 2: loss 1.4400, gradient [2.40, 2.40]\n"})
    EXPECT_NE(log.find(part), string::npos) << part << log;
  EXPECT_EQ(log.find("y [2.0"), log.rfind("y [2.0")) << "once: " << log;
  log = must("cli/nabla-run " + bundle + " --entry count --input n=" + scratch("n.npy"));
  EXPECT_NE(log.find("count 1: trip 0 begins with 7\ncount 1: trip 1 begins with 7\ncount 1: trip 2 begins with 8\n"),
            string::npos) << log;
  must("cli/nablac compile " + module + " --no-debug -o " + bundle);
  log = must("cli/nabla-run " + bundle + " --entry step --data " + data + " --epochs 1");
  EXPECT_EQ(log.find("step 1: y"), string::npos) << log;
  EXPECT_NE(log.find("loss 1.44"), string::npos) << log;
  string program = must("cli/nablac opt " + module + " --program");
  EXPECT_NE(program.find("debug \"loss {:.4f}, gradient {:.2f}\" (f32[] "), string::npos) << program;
}

}  // namespace
}  // namespace nabla
