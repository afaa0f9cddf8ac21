// What kernels may cost in machine code: tests/cuda/budgets.txt, held within a tenth.
// `bazel run //tests/cuda:budgets_test -- --update_goldens` writes what NVRTC makes of them now.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <map>
#include <sstream>

#include "cli/driver/compile.h"
#include "codegen/cuda/backend.h"
#include "codegen/cuda/model.h"
#include "codegen/cuda/nvrtc.h"
#include "codegen/cuda/nvrtc_library.h"
#include "tests/cuda/budget_programs.h"

namespace nabla::codegen {

bool update_goldens = false;

namespace {

constexpr const char* kFile = "tests/cuda/budgets.txt";
constexpr const char* kHow = "; if that is meant: bazel run //tests/cuda:budgets_test -- --update_goldens";
constexpr double kWithin = 0.1;

// Instructions as they stand in the code, in no loop and in loops; and as they run, those of a thread for each element of the largest
// array, by the model.
constexpr std::array<const char*, 7> kColumns = {"straight",        "in loops",  "instructions of an element", "loads in flight",
                                                 "bytes in flight", "registers", "local bytes"};
using Numbers = std::array<double, kColumns.size()>;
using Budgets = std::map<std::string, Numbers>;  // by "kernel target"

struct Golden {
  std::string nvrtc;
  Budgets budgets;
};

Golden read_golden() {
  std::ifstream in(kFile);
  Golden out;
  for (std::string line; std::getline(in, line);) {
    std::istringstream words(line);
    std::string kernel, target;
    if (line.empty() || line[0] == '#' || !(words >> kernel >> target)) continue;
    if (kernel == "nvrtc") {
      out.nvrtc = target;
      continue;
    }
    Numbers& n = out.budgets[kernel + " " + target];
    for (double& number : n) words >> number;
    EXPECT_FALSE(words.fail()) << kFile << ": " << line;
  }
  return out;
}

Numbers numbers_of(const kernel_ir::Kernel& k, size_t grid, const ir::Target& target, const CudaKernelFacts& facts) {
  double elements = 1, straight = 0, in_loops = 0;
  for (const kernel_ir::Buffer& b : k.buffers)
    elements = std::max(elements, static_cast<double>(ir::Type(b.dtype, b.shape).count().value()));
  for (const CodeLoop& l : facts.code.loops) (l.depth > 0 ? in_loops : straight) += l.own.all;
  double run = 32 * predict_grid(k, grid, target, &facts).instructions / elements;
  auto number = [](int n) { return static_cast<double>(n); };
  return {straight, in_loops, run, number(facts.code.loads_in_flight), number(facts.code.bytes_in_flight),
          number(facts.registers), number(facts.frame_bytes)};
}

// By the kernel's name, and where a program has several the number of the grid.
Budgets budgets_of(const BudgetProgram& p, const std::string& target) {
  Program program;
  program.entry(p.name, p.inputs, [&](const std::vector<Tensor>& x) -> Outputs {
    Outputs out;
    for (const Tensor& t : p.run(x)) out.push_back({"y" + std::to_string(out.size()), t});
    return out;
  });
  Budgets out;
  Result<driver::CompiledModule> lowered = driver::lower_module(program.module(), {.target = target, .library = false});
  if (!lowered.ok()) return ADD_FAILURE() << p.name << ": " << to_string(lowered.errors()), out;
  Result<CudaCode> code = print_cuda(lowered->planned, lowered->target);
  if (!code.ok()) return ADD_FAILURE() << p.name << ": " << to_string(code.errors()), out;
  Result<CudaBinary> binary = compile_cuda(code->sources, lowered->target, {1, ""});
  if (!binary.ok()) return ADD_FAILURE() << p.name << ": " << to_string(binary.errors()), out;
  size_t grids = 0, number = 0;
  for (const CudaCode::Kernel& k : code->kernels) grids += k.grids.size();
  for (size_t n = 0; n < code->kernels.size(); ++n) {
    const CudaCode::Kernel& k = code->kernels[n];
    for (size_t i = 0; i < k.grids.size(); ++i)
      for (const CudaKernelFacts& facts : binary->objects[k.source].kernels)
        if (facts.name == k.grids[i].symbol) {
          for (const std::string& text : facts.advice) ADD_FAILURE() << p.name << " " << target << ": " << text;
          out[p.name + (grids > 1 ? fmt::format(".{}", number++) : "") + " " + target] =
              numbers_of(*lowered->planned.kernels[n], i, lowered->target, facts);
        }
  }
  EXPECT_EQ(out.size(), grids) << p.name;
  return out;
}

void write_golden(const std::string& nvrtc, const Budgets& budgets) {
  const char* workspace = std::getenv("BUILD_WORKSPACE_DIRECTORY");
  std::ofstream out(fmt::format("{}/{}", workspace ? workspace : ".", kFile));
  out << "# The machine code of kernels (tests/cuda/budget_programs.cc), a line for each: instructions that stand in no loop, and in\n"
         "# loops; those that threads run for an element of the largest array, by the model; loads of global memory in flight, and their\n"
         "# bytes per thread; registers; bytes of local memory.\n"
         "nvrtc "
      << nvrtc << "\n";
  for (const auto& [name, n] : budgets) {
    out << fmt::format("{:<40}", name);
    for (double number : n) out << fmt::format(" {:>8.4g}", number);
    out << "\n";
  }
}

void expect_within(const std::string& name, const Numbers& got, const Numbers& want) {
  for (size_t i = 0; i < kColumns.size(); ++i)
    EXPECT_LE(std::abs(got[i] - want[i]), kWithin * want[i])
        << name << ": " << kColumns[i] << " " << got[i] << ", the budget is " << want[i]
        << (want[i] > 0 ? fmt::format(" ({:+.0f} %)", 100.0 * (got[i] - want[i]) / want[i]) : "") << kHow;
}

TEST(Budgets, HoldWithinATenth) {
  Result<NvrtcLibrary> nvrtc = open_nvrtc(nvrtc_candidates());
  if (!nvrtc.ok()) GTEST_SKIP() << "no budget is checked without NVRTC: " << to_string(nvrtc.errors());
  Golden golden = update_goldens ? Golden{} : read_golden();
  if (!update_goldens && golden.nvrtc != nvrtc->version())
    GTEST_SKIP() << kFile << " is for NVRTC " << golden.nvrtc << "; this is " << nvrtc->version() << ", which makes other code";
  Budgets got;
  for (const BudgetProgram& p : budget_programs())
    for (const std::string& target : p.targets) got.merge(budgets_of(p, target));
  if (update_goldens) return write_golden(nvrtc->version(), got);
  for (const auto& [name, numbers] : got) {
    auto want = golden.budgets.find(name);
    if (want == golden.budgets.end())
      ADD_FAILURE() << name << " has no budget in " << kFile << kHow;
    else
      expect_within(name, numbers, want->second);
  }
  for (const auto& [name, numbers] : golden.budgets) EXPECT_TRUE(got.contains(name)) << name << " is no kernel any more" << kHow;
}

}  // namespace
}  // namespace nabla::codegen

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  for (int i = 1; i < argc; ++i)
    if (std::string_view(argv[i]) == "--update_goldens") nabla::codegen::update_goldens = true;
  return RUN_ALL_TESTS();
}
