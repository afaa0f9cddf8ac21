// Random programs of mixed dtypes, compiled, against the interpreter. Few bundles of many programs each: what is slow
// is the host compiler. Those named Nightly run by the target mixed_programs_nightly.
#include <gtest/gtest.h>

#include "ir/reference/interpreter.h"
#include "ir/text.h"
#include "tests/conformance/cpu_run.h"
#include "tests/conformance/mixed_program.h"

namespace nabla {
namespace {

constexpr int kPrograms = 60, kRuns = 4;

class MixedPrograms : public testing::TestWithParam<int> {};

TEST_P(MixedPrograms, CompiledCodeGivesWhatTheInterpreterGives) {
  ir::Module module;
  module.stage = ir::Stage::kFlat;
  std::vector<conformance::MixedProgram> programs;
  for (int i = 0; i < kPrograms; ++i) {
    std::string name = "p" + std::to_string(i);
    programs.push_back(conformance::draw_mixed_program(name, GetParam() * 1000 + i, 6 + i % 20));
    const ir::Function& f = programs.back().function;
    ir::Entry entry{name, name, {}, {}, {}, {}};
    for (size_t k = 0; k < f.params.size(); ++k) entry.inputs.push_back("x" + std::to_string(k));
    for (size_t k = 0; k < f.results.size(); ++k) entry.outputs.push_back("y" + std::to_string(k));
    module.functions.push_back(std::make_shared<ir::Function>(f));
    module.entries.push_back(std::move(entry));
  }
  conformance::Compiled compiled = conformance::compile_for_cpu(module).value();
  for (int i = 0; i < kPrograms; ++i) {
    const ir::Function& f = programs[i].function;
    std::string wrong;
    for (int run = 0; run < kRuns && wrong.empty(); ++run) {
      std::vector<Literal> inputs = conformance::draw_mixed_inputs(f, GetParam() * 100 + run);
      std::vector<Literal> want = ir::interpret(module, f.name, inputs).value();
      std::vector<Literal> got = compiled.session->call(i, inputs).value();
      for (size_t k = 0; k < want.size() && wrong.empty(); ++k) {
        wrong = conformance::mixed_difference(want[k], got[k], programs[i].slack[k]);
        if (!wrong.empty()) wrong = "result " + std::to_string(k) + ", " + wrong;
      }
    }
    EXPECT_EQ(wrong, "") << "of seed " << GetParam() << "\n" << ir::print(f);
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, MixedPrograms, testing::Range(1, 4));
INSTANTIATE_TEST_SUITE_P(Nightly, MixedPrograms, testing::Range(4, 106));

}  // namespace
}  // namespace nabla
