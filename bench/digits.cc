// The digits models: time of a step, and the accuracy that training reaches through nabla-run.
#include <cstdlib>

#include "bench/bench.h"
#include "examples/digits/cnn.h"
#include "examples/digits/mlp.h"
#include "runtime/format/npy.h"

namespace nabla::bench {
namespace {

constexpr const char* kData = "examples/digits/digits.npz";

Result<Measurement> mlp_step() {
  auto session = NABLA_TRY(open_program(digits::make_program<digits::Mlp>(digits::kMlpLearningRate).module(), 0));
  uint32_t seed[2] = {0, 0};
  const void* inputs[] = {seed};
  NABLA_TRY(session->run(session->find_entry("init"), inputs, {}));
  double seconds = NABLA_TRY(seconds_per_run(*session, "step"));
  return against_budget(seconds * 1e6, "us", 250);
}

// The number after "accuracy" in the line of the entry `eval`.
Result<double> accuracy_in(const std::string& text) {
  size_t line = text.rfind("eval:");
  size_t at = line == text.npos ? text.npos : text.find("accuracy", line);
  if (at == text.npos) return unexpected_output("nabla-run printed no accuracy", text);
  at = text.find_first_of("0123456789", at);
  return std::strtod(text.c_str() + at, nullptr);
}

Result<Measurement> accuracy(const Paths& paths, const std::string& model, int epochs, double required) {
  std::string base = paths.scratch + "/" + model;
  NABLA_TRY(
      output_of(fmt::format("'{0}/examples/digits/{1}' '{2}.nir' && '{0}/cli/nablac' compile '{2}.nir' -o "
                            "'{2}.nbundle' --target cpu:native",
                            paths.bin, model, base)));
  double sum = 0;
  for (int seed = 0; seed < 3; ++seed) {
    std::string text = NABLA_TRY(output_of(
        fmt::format("'{}/cli/nabla-run' '{}.nbundle' --seed {} --entry step --data {} --map x=x_train --map y=y_train "
                    "--epochs {} --entry eval --data {} --map x=x_test --map y=y_test",
                    paths.bin, base, seed, kData, epochs, kData)));
    sum += NABLA_TRY(accuracy_in(text));
  }
  return against_requirement(100 * sum / 3, "%", required);
}

}  // namespace

std::vector<Bench> digits_benches() {
  return {
      {"digits_mlp_step_us", "one training step of the MLP, batch 64", [](const Paths&) { return mlp_step(); }},
      {"digits_mlp_accuracy", "test accuracy of the MLP after 40 epochs, mean of seeds 0, 1, 2",
       [](const Paths& p) { return accuracy(p, "mlp", 40, 96.5); }},
      {"digits_cnn_accuracy", "test accuracy of the CNN after 25 epochs, mean of seeds 0, 1, 2",
       [](const Paths& p) { return accuracy(p, "cnn", 25, 97.5); }},
  };
}

}  // namespace nabla::bench
