// The main job, by the programs that users start: trace, compile ahead of time, train on real digits, test.
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
using std::string;

constexpr const char* kData = "examples/digits/digits.npz";

string contents(const string& path) {
  std::ifstream in(path);
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

// The number after `key` in the last line that begins with "eval:".
double in_eval(const string& text, const string& key) {
  size_t at = text.find(key, text.rfind("eval:"));
  if (at == string::npos) {
    ADD_FAILURE() << "no " << key << " in\n" << text;
    return 0;
  }
  return std::strtod(text.c_str() + text.find_first_of("0123456789", at), nullptr);
}

void compile(const string& model, const string& options, const string& out) {
  setenv("NABLA_CACHE", scratch("cache").c_str(), 1);
  must("examples/digits/" + model + " " + scratch(model + ".nir"));
  must("cli/nablac compile " + scratch(model + ".nir") + " " + options + " -o " + out);
}

string train(const string& program, const string& model, int epochs, int seed) {
  return program + " --seed " + std::to_string(seed) + " --loss-curve " + scratch("loss.svg") + " --save-state " +
         scratch(model + ".safetensors") + " --entry step --data " + kData +
         " --map x=x_train --map y=y_train --epochs " + std::to_string(epochs) + " --entry eval --data " + kData +
         " --map x=x_test --map y=y_test";
}

TEST(Digits, the_mlp_reaches_96_5_percent_over_three_seeds) {
  compile("mlp", "", scratch("mlp.nbundle"));
  double sum = 0;
  for (int seed = 0; seed < 3; ++seed)
    sum += in_eval(must(train("cli/nabla-run " + scratch("mlp.nbundle"), "mlp", 40, seed)), "accuracy");
  EXPECT_GE(sum / 3, 0.965);
  EXPECT_NE(contents(scratch("loss.svg")).find("<svg"), string::npos);
}

TEST(Digits, a_saved_state_predicts_and_the_misread_page_agrees_with_the_accuracy) {
  compile("mlp", "", scratch("mlp.nbundle"));
  must(train("cli/nabla-run " + scratch("mlp.nbundle"), "mlp", 5, 0));
  string text =
      must("cli/nabla-run " + scratch("mlp.nbundle") + " --state " + scratch("mlp.safetensors") +
           " --entry eval --data " + kData + " --map x=x_test --map y=y_test --entry predict --data " + kData +
           " --map x=x_test --output class=" + scratch("class.npy") + " --output probability=" + scratch("p.npy"));
  string drawn = must(string("examples/digits/misread ") + kData + " " + scratch("class.npy") + " " + scratch("p.npy") +
                      " " + scratch("misread.html"));
  double wrong = std::strtod(drawn.c_str(), nullptr);
  EXPECT_GT(wrong, 0);
  EXPECT_NEAR(1 - wrong / 360, in_eval(text, "accuracy"), 1e-3);
  string page = contents(scratch("misread.html"));
  size_t figures = 0;
  for (size_t at = 0; (at = page.find("<figure>", at)) != string::npos; ++at) ++figures;
  EXPECT_EQ(static_cast<double>(figures), wrong);
}

TEST(Digits, training_in_two_processes_leaves_the_bits_of_one) {
  compile("mlp", "", scratch("mlp.nbundle"));
  string start =
      "cli/nabla-run " + scratch("mlp.nbundle") + " --entry step --data " + kData + " --map x=x_train --map y=y_train ";
  string whole = scratch("whole.safetensors"), half = scratch("half.safetensors"), rest = scratch("rest.safetensors");
  for (const char* amounts : {"--steps 200 --steps 100", "--epochs 4 --epochs 2"}) {
    string text = amounts;
    size_t at = text.rfind("--");
    must(start + "--seed 3 " + text.substr(0, at) + " --save-state " + whole);
    must(start + "--seed 3 " + text.substr(at) + " --save-state " + half);
    must(start + text.substr(at) + " --state " + half + " --save-state " + rest);
    EXPECT_EQ(contents(rest), contents(whole)) << amounts;
    EXPECT_NE(contents(half), contents(whole));
  }
}

TEST(Digits, the_cnn_learns) {
  compile("cnn", "", scratch("cnn.nbundle"));
  string text = must(train("cli/nabla-run " + scratch("cnn.nbundle"), "cnn", 8, 0));
  EXPECT_GE(in_eval(text, "accuracy"), 0.95);
}

TEST(Digits, the_executable_needs_nothing_but_libc) {
  compile("mlp", "--emit=exe --no-library", scratch("mlp"));
  string text = must(train(scratch("mlp"), "mlp", 40, 0));
  EXPECT_GE(in_eval(text, "accuracy"), 0.955);
  std::istringstream needed(must("readelf -d " + scratch("mlp") + " | grep NEEDED"));
  for (string line; std::getline(needed, line);) {
    bool libc = false;
    for (const char* name : {"[libc.so", "[libm.so", "[ld-linux", "[libdl.so", "[libpthread.so"})
      libc = libc || line.find(name) != string::npos;
    EXPECT_TRUE(libc) << line;
  }
}

}  // namespace
}  // namespace nabla
