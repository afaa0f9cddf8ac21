// What GPT-2's training step is predicted to take on one H100 (docs/gpu.md); no GPU takes part.
#include <map>
#include <nlohmann/json.hpp>

#include "bench/bench.h"
#include "cli/driver/compile.h"
#include "examples/gpt2/gpt2.h"

namespace nabla::bench {
namespace {

constexpr double kTokensByLibrary = 350e3, kTokensGenerated = 250e3;  // in a second: what is asked for

// `predicted` of the entry `step` (docs/bundle-format.md), compiled once for all figures.
Result<nlohmann::json> step_of_gpt2(bool library) {
  static std::map<bool, nlohmann::json> done;
  if (auto known = done.find(library); known != done.end()) return known->second;
  driver::CompiledBundle bundle = NABLA_TRY(driver::compile(gpt2::make_program({}).module(), {.target = "sm_90a", .library = library}));
  nlohmann::json report = nlohmann::json::parse(bundle.report);
  for (const nlohmann::json& e : report.at("entries"))
    if (e.at("name") == "step") return done[library] = e.at("predicted");
  return error(Code::kInvalidModule, "GPT-2 has no entry `step`");
}

Result<Measurement> tokens(bool library, double required) {
  const gpt2::Options sizes;
  nlohmann::json step = NABLA_TRY(step_of_gpt2(library));
  return against_requirement(static_cast<double>(sizes.batch * sizes.context) / step.at("us").get<double>() * 1e6, "tok/s", required);
}

Bench figure(const std::string& name, const std::string& what, const std::string& key) {
  return {name, what, [key](const Paths&) -> Result<Measurement> {
            nlohmann::json step = NABLA_TRY(step_of_gpt2(true));
            return plain(step.at(key).get<double>(), "");
          }};
}

}  // namespace

std::vector<Bench> predicted_benches() {
  return {
      {"gpt2_predicted_tok_s", "GPT-2 124M's training, batch 8, on one H100 with cuBLASLt, as predicted",
       [](const Paths&) { return tokens(true, kTokensByLibrary); }},
      {"gpt2_predicted_tok_s_generated", "the same by generated kernels alone",
       [](const Paths&) { return tokens(false, kTokensGenerated); }},
      figure("gpu_step_instructions_gpt2", "instructions that warps issue in that step, beside cuBLASLt", "warp_instructions"),
      figure("gpu_step_sectors_gpt2", "sectors of 32 bytes that they ask for, and the arrays of cuBLASLt's calls", "sectors"),
      figure("gpu_launches_gpt2", "grids and library calls of that step", "launches"),
  };
}

}  // namespace nabla::bench
