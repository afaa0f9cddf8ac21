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

const std::vector<string> kPrograms = {"classifier", "debugging", "derivatives", "linear", "loops", "rules", "sizes"};

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

}  // namespace
}  // namespace nabla
