// Writes the language model's program: charlm FILE.nir [--steps N] [--dropout P]
#include <CLI/CLI.hpp>
#include <cstdio>

#include "examples/charlm/charlm.h"

int main(int argc, char** argv) {
  nabla::charlm::Options options;
  std::string out;
  CLI::App app("Writes a character-level language model as a program for nablac.", "charlm");
  app.add_option("FILE", out, "the module to write: .nir, .nir.json or .nbl")->required();
  app.add_option("--steps", options.steps, "training steps for which the learning rate is planned [1500]")
      ->check(CLI::Range(51, 1000000));
  app.add_option("--dropout", options.dropout, "share of activations dropped while training [0]")
      ->check(CLI::Range(0.0, 0.9));
  CLI11_PARSE(app, argc, argv);
  try {
    nabla::charlm::make_program(options).save(out);
  } catch (const nabla::Error& e) {
    std::fputs(e.what(), stderr);
    return 1;
  }
  return 0;
}
