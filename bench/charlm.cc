// The language model: time of a step, of a token, at short texts; what it learns; and how compile time grows with
// depth.
#include "examples/charlm/charlm.h"

#include <cmath>

#include "bench/bench.h"
#include "bench/deep_module.h"
#include "cli/driver/compile.h"

namespace nabla::bench {
namespace {

Result<std::unique_ptr<exec::Session>> open_charlm() {
  auto session = NABLA_TRY(open_program(charlm::make_program({}).module(), 0));
  uint32_t seed[2] = {0, 0};
  const void* inputs[] = {seed};
  NABLA_TRY(session->run(session->find_entry("init"), inputs, {}));
  return session;
}

Result<Measurement> step_ms() {
  auto session = NABLA_TRY(open_charlm());
  return plain(NABLA_TRY(seconds_per_run(*session, "step")) * 1e3, "ms");
}

Literal some_tokens(std::vector<int64_t> shape) {
  Literal out(DType::kU8, std::move(shape));
  for (int64_t i = 0; i < out.size(); ++i) out.set_i(i, 97 + i % 26);
  return out;
}

// Seconds of one call of `entry`.
Result<double> seconds_of(exec::Session& session, const std::string& entry, const Literal& tokens) {
  int index = NABLA_TRY(session.need_entry(entry));
  Status status = Ok{};
  double seconds = best_seconds([&] {
    auto out = session.call(index, {tokens});
    if (!out.ok()) status = out.errors();
  });
  if (!status.ok()) return status.errors();
  return seconds;
}

// A text of half the context, then one token after the other; the position stays below the capacity.
Result<Measurement> decode_rate() {
  auto session = NABLA_TRY(open_charlm());
  int prefill = NABLA_TRY(session->need_entry("prefill")), decode = NABLA_TRY(session->need_entry("decode"));
  double best = 1e9;
  for (int round = 0; round < 9; ++round) {
    NABLA_TRY(session->call(prefill, {some_tokens({64})}));
    double begin = now();
    for (int i = 0; i < 64; ++i) NABLA_TRY(session->call(decode, {some_tokens({})}));
    best = std::min(best, now() - begin);
  }
  return plain(64 / best, "tokens/s");
}

Result<Measurement> short_against_long() {
  auto session = NABLA_TRY(open_charlm());
  double brief = NABLA_TRY(seconds_of(*session, "forward", some_tokens({16, 16})));
  double whole = NABLA_TRY(seconds_of(*session, "forward", some_tokens({16, 128})));
  return against_budget(brief / whole, "", 0.25);
}

Result<Measurement> validation_loss(const Paths& paths) {
  std::string base = paths.scratch + "/charlm";
  std::string text = NABLA_TRY(output_of(fmt::format(
      "'{0}/examples/charlm/charlm' '{1}.nir' && '{0}/cli/nablac' compile '{1}.nir' -o '{1}.nbundle' --target "
      "cpu:native && '{0}/examples/charlm/corpus' examples/charlm/jargon.txt '{1}_t.safetensors' '{1}_v.safetensors' "
      "&& '{0}/cli/nabla-run' '{1}.nbundle' --entry step --data '{1}_t.safetensors' --entry eval --data "
      "'{1}_v.safetensors'",
      paths.bin, base)));
  size_t line = text.rfind("eval:"), at = line == text.npos ? line : text.find("loss ", line);
  if (at == text.npos) return unexpected_output("nabla-run printed no loss", text);
  return against_budget(std::strtod(text.c_str() + at + 5, nullptr), "nats", 1.85);
}

// The best of several rounds, each over all depths: a slow moment of the machine does not hit one depth alone.
Result<std::vector<double>> pass_seconds(const std::vector<int>& depths) {
  std::vector<ir::Module> modules;
  for (int layers : depths) modules.push_back(deep_module(layers));
  std::vector<double> best(depths.size(), 1e9);
  for (int round = 0; round < 7; ++round)
    for (size_t i = 0; i < depths.size(); ++i) {
      double begin = now();
      NABLA_TRY(driver::lower_module(modules[i], {}));
      best[i] = std::min(best[i], now() - begin);
    }
  return best;
}

Result<Measurement> passes_48() { return against_budget(NABLA_TRY(pass_seconds({48}))[0], "s", 2); }

Result<Measurement> scaling() {
  std::vector<int> depths{6, 12, 24, 48, 96};
  return against_budget(growth(depths, NABLA_TRY(pass_seconds(depths))), "exponent", 1.15);
}

}  // namespace

std::vector<Bench> charlm_benches() {
  return {
      {"charlm_step_ms", "one training step of the language model, 16 texts of 128",
       [](const Paths&) { return step_ms(); }},
      {"charlm_decode_tok_s", "characters generated through the cache", [](const Paths&) { return decode_rate(); }},
      {"dynamic_len_16_vs_128", "time of the forward pass at length 16 over that at 128, one bundle",
       [](const Paths&) { return short_against_long(); }},
      {"charlm_val_loss", "nats per character after 1500 steps", validation_loss},
      {"passes_48_layers_s", "every pass over 48 blocks and their gradient", [](const Paths&) { return passes_48(); }},
      {"compile_scaling", "growth of that with 6 to 96 blocks", [](const Paths&) { return scaling(); }},
  };
}

}  // namespace nabla::bench
