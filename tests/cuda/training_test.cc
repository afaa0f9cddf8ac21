// Examples for a GPU, by the programs that users start, on the fake driver: a kernel of the user's, and training;
// kernels that NVRTC has compiled stand in the bundle, their text runs on the emulator, matrix products by the fake
// cuBLASLt or by kernels in its place, and the loss falls as on the CPU.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "runtime/format/npy.h"
#include "tests/cuda/fake_gpu.h"
#include "tests/e2e/commands.h"

namespace nabla {
namespace {

using e2e::must;
using e2e::scratch;
using std::string;

string contents(const string& path) {
  std::ifstream in(path, std::ios::binary);
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

// A bundle for both machines, whose GPU is ready.
void compile(const string& trace, const string& name) {
  setenv("NABLA_CACHE", scratch("cache").c_str(), 1);
  must(trace);
  std::ofstream(scratch("gpu.tuning")) << "nabla-tuning 2\ntarget sm_90a\ngemm = cublaslt\n";
  must("cli/nablac compile " + scratch(name + ".nir") + " --target cpu,sm_90a --tuning " + scratch("gpu.tuning") +
       " -o " + scratch(name + ".nbundle"));
  string driver = std::filesystem::absolute("tests/cuda/fake_driver/libfake_cuda.so");
  Status ready = emulator::use_fake_gpu(contents(scratch(name + ".nbundle")), driver);
  ASSERT_TRUE(ready.ok()) << to_string(ready.errors());
}

std::vector<double> losses(const string& name, const string& target, const string& options) {
  string metrics = scratch(name + target + ".jsonl");
  must("cli/nabla-run " + scratch(name + ".nbundle") + " --target " + target + " --metrics " + metrics + " " + options);
  std::vector<double> out;
  std::istringstream lines(contents(metrics));
  for (string line; std::getline(lines, line);) {
    nlohmann::json row = nlohmann::json::parse(line);
    if (row.contains("loss") && row["loss"].is_number()) out.push_back(row["loss"].get<double>());
  }
  return out;
}

void expect_same_curve(const string& name, const string& options, size_t steps, double tolerance) {
  std::vector<double> cpu = losses(name, "cpu:x86-64-v3", options);
  ASSERT_GE(cpu.size(), steps);
  for (const string& library : {string(getenv("NABLA_CUBLASLT")), string("/not/there.so")}) {
    setenv("NABLA_CUBLASLT", library.c_str(), 1);
    std::vector<double> gpu = losses(name, "sm_90a", options);
    ASSERT_EQ(cpu.size(), gpu.size());
    for (size_t i = 0; i < cpu.size(); ++i)
      EXPECT_NEAR(cpu[i], gpu[i], tolerance * (1 + std::abs(cpu[i]))) << "step " << i << " by " << library;
    EXPECT_LT(gpu.back(), gpu.front());
  }
}

const char* const kDigits =
    " --entry step --data examples/digits/digits.npz --map x=x_train --map y=y_train --epochs 1 --seed 3";

TEST(TrainingOnAGpu, MlpFollowsTheCpu) {
  compile("examples/digits/mlp " + scratch("mlp.nir"), "mlp");
  expect_same_curve("mlp", kDigits, 20, 1e-3);
}

// Products of halves are summed in another order, on the model of tensor cores.
TEST(TrainingOnAGpu, MlpInHalvesFollowsTheCpu) {
  compile("tests/cuda/half_mlp " + scratch("half.nir"), "half");
  expect_same_curve("half", kDigits, 20, 2e-2);
}

TEST(UserKernelOnAGpu, TheExampleGivesWhatItGivesOnTheCpu) {
  compile("examples/user_kernel/user_kernel " + scratch("kernel.nir"), "kernel");
  Literal x(DType::kF32, {16, 4, 32}), weight(DType::kF32, {32});
  for (int64_t i = 0; i < x.size(); ++i) x.set(i, std::sin(static_cast<double>(i)));
  for (int64_t i = 0; i < 32; ++i) weight.set(i, 1 + 0.01 * static_cast<double>(i));
  ASSERT_TRUE(format::write_npy(scratch("x.npy"), x).ok());
  ASSERT_TRUE(format::write_npy(scratch("weight.npy"), weight).ok());
  std::vector<Literal> results;
  for (const char* target : {"cpu:x86-64-v3", "sm_90a"}) {
    must("cli/nabla-run " + scratch("kernel.nbundle") + " --target " + target + " --entry forward --input x=" +
         scratch("x.npy") + " --input weight=" + scratch("weight.npy") + " --output y=" + scratch("y.npy"));
    results.push_back(format::read_npy(scratch("y.npy")).value());
  }
  for (int64_t i = 0; i < x.size(); ++i) EXPECT_NEAR(results[1].get(i), results[0].get(i), 2e-5) << i;
}

TEST(TrainingOnAGpu, LanguageModelFollowsTheCpu) {
  compile("examples/charlm/charlm " + scratch("charlm.nir") + " --steps 60", "charlm");
  must("examples/charlm/corpus examples/charlm/jargon.txt " + scratch("train.safetensors") + " " +
       scratch("validation.safetensors") + " --samples 48");
  expect_same_curve("charlm", " --entry step --data " + scratch("train.safetensors") + " --epochs 1 --seed 1", 3, 2e-3);
}

}  // namespace
}  // namespace nabla
