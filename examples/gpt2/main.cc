// Writes GPT-2's program: gpt2 FILE.nir [--layers N] [--width N] ...
#include <CLI/CLI.hpp>
#include <cstdio>

#include "examples/gpt2/gpt2.h"

int main(int argc, char** argv) {
  nabla::gpt2::Options o;
  std::string out;
  CLI::App app("Writes GPT-2 as a program for nablac: 124 million parameters by default.", "gpt2");
  app.add_option("FILE", out, "the module to write: .nir, .nir.json or .nbl")->required();
  auto size = [&](const char* name, int64_t& to, const char* what, int64_t most) {
    app.add_option(name, to, what)->check(CLI::Range(int64_t{1}, most))->capture_default_str();
  };
  size("--layers", o.layers, "blocks", 1000);
  size("--width", o.width, "features; the heads share them", 1 << 16);
  size("--heads", o.heads, "of attention", 1 << 10);
  size("--vocab", o.vocabulary, "tokens; 50257 for pretrained weights", 1 << 24);
  size("--context", o.context, "positions of a sequence", 1 << 20);
  size("--batch", o.batch, "sequences of a step", 1 << 16);
  size("--steps", o.steps, "for which the learning rate is planned", 100'000'000);
  app.add_option("--learning-rate", o.learning_rate, "at its peak")->check(CLI::PositiveNumber)->capture_default_str();
  app.add_flag("!--f32", o.autocast, "matrix products in f32, not in bf16");
  CLI11_PARSE(app, argc, argv);
  try {
    nabla::gpt2::make_program(o).save(out);
  } catch (const nabla::Error& e) {
    std::fputs(e.what(), stderr);
    return 1;
  }
  return 0;
}
