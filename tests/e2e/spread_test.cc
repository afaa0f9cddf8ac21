// The language model, which says nothing of ranks, spread over them by the options of nablac: ZeRO-3 with microbatches, and
// Megatron's layouts by the names of its weights. Losses and norms of gradients are those of one rank.
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "tests/e2e/commands.h"

namespace nabla {
namespace {

using e2e::must;
using e2e::scratch;
using std::string;

// The last line of five steps: "loss 5.122  gradient_norm 3.1757".
string trained(const string& spread) {
  must("cli/nablac compile " + scratch("charlm.nir") + " --no-library " + spread + " -o " + scratch("charlm.nbundle"));
  string text = must("cli/nabla-run " + scratch("charlm.nbundle") + " --seed 0 --threads 1 --entry step --steps 5 --data " +
                     scratch("train.safetensors"));
  size_t begin = text.rfind("step: loss "), end = text.find("  5 steps", begin);
  EXPECT_NE(end, string::npos) << text;
  return text.substr(begin, end - begin);
}

double number_after(const string& text, const string& word) { return std::strtod(text.c_str() + text.find(word) + word.size(), nullptr); }

TEST(SpreadCharlm, TrainsAsOnOneRank) {
  setenv("NABLA_CACHE", scratch("cache").c_str(), 1);
  must("examples/charlm/charlm " + scratch("charlm.nir") + " --steps 250");
  must("examples/charlm/corpus examples/charlm/jargon.txt " + scratch("train.safetensors") + " " + scratch("validation.safetensors") +
       " --samples 160");
  string expected = trained("");
  EXPECT_NEAR(number_after(expected, "loss "), 5.1155, 1e-3) << expected;
  EXPECT_NEAR(number_after(expected, "gradient_norm "), 3.1473, 5e-3) << expected;
  EXPECT_EQ(trained("--mesh dp=2 --data-axes dp --zero 3"), expected);  // examples/charlm/run TEXT STEPS and these options
  EXPECT_EQ(trained("--mesh dp=2 --data-axes dp --zero 3 --microbatches 2"), expected);
  EXPECT_EQ(trained("--mesh dp=2,tp=2 --data-axes dp --zero 1 --layout 'block.*\\.(qkv|up)=,tp' --layout 'block.*\\.(out|down)=tp,'"),
            expected);
}

}  // namespace
}  // namespace nabla
