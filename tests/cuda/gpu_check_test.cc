// tools/gpu_check from end to end, on the fake GPU with tiny sizes: every line is there, and a wrong kernel is found.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "runtime/format/bundle_reader.h"
#include "runtime/format/program_generated.h"
#include "runtime/format/sha256.h"
#include "tests/cuda/emulator/object.h"
#include "tests/cuda/fake_gpu.h"
#include "tests/e2e/commands.h"

namespace nabla {
namespace {

using e2e::must;
using e2e::run;
using e2e::scratch;
using nlohmann::json;
using std::string;

string contents(const string& path) {
  std::ifstream in(path, std::ios::binary);
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

// Packed once, with the fake GPU ready for all of it.
const string& packed() {
  static const string kFolder = [] {
    setenv("NABLA_CACHE", scratch("cache").c_str(), 1);
    setenv("NABLA_FAKE_CUDA_CAPABILITY", "9.0", 1);
    string folder = scratch("packed");
    must("bench/gpu_check/gpu_check_pack " + folder + " --small");
    string driver = std::filesystem::absolute("tests/cuda/fake_driver/libfake_cuda.so");
    for (const char* name : {"kinds", "library", "speed", "gpt2"}) {
      Status ready = emulator::use_fake_gpu(contents(folder + "/" + name + ".nbundle"), driver, {.beside = true});
      EXPECT_TRUE(ready.ok()) << to_string(ready.errors());
    }
    std::filesystem::copy_file("bench/gpu_check/gpu_check", folder + "/gpu_check");
    std::filesystem::copy_file("tools/gpu_check", folder + "/run");
    return folder;
  }();
  return kFolder;
}

string only_file(const string& folder) {
  string out;
  for (const auto& file : std::filesystem::directory_iterator(folder))
    if (file.path().extension() == ".json") out = file.path();
  return out;
}

TEST(GpuCheck, NeedsNoLibraryOnTheCpu) {
  for (const char* name : {"kinds_cpu", "library_cpu"}) {
    auto bundle = format::Bundle::open(packed() + "/" + name + ".nbundle");
    ASSERT_TRUE(bundle.ok()) << to_string(bundle.errors());
    const auto* libraries = bundle->classes()[0].programs[0]->libraries();
    EXPECT_EQ(libraries == nullptr ? 0u : libraries->size(), 0u) << name;
  }
}

// A GPU that fails in the middle takes with it nothing that was found before.
TEST(GpuCheck, KeepsWhatItHasFound) {
  auto out =
      run("NABLA_FAKE_CUDA_FAIL=cuLaunchKernel:30 " + packed() + "/run " + scratch("cut") + " --seconds 0 --seed 4");
  EXPECT_EQ(out.code, 1) << out.text;
  json r = json::parse(contents(only_file(scratch("cut"))));
  EXPECT_EQ(r["complete"], false);
  EXPECT_GE(r["values"].size(), 3u);
  EXPECT_LT(r["values"].size(), 25u);
}

TEST(GpuCheck, HasEveryLine) {
  string table = must(packed() + "/run " + scratch("results") + " --seconds 0 --seed 4");
  json r = json::parse(contents(only_file(scratch("results"))));
  EXPECT_EQ(r["failures"], 0);
  EXPECT_EQ(r["complete"], true);
  EXPECT_EQ(r["seed"], 4);
  EXPECT_EQ(table.find("run as generated kernels"), string::npos) << table;  // the libraries are there
  EXPECT_NE(table.find("library_convolution_f32"), string::npos);
  ASSERT_GE(r["values"].size(), 25u);
  for (const json& v : r["values"]) {
    EXPECT_TRUE(v["ok"].get<bool>()) << v;
    EXPECT_NE(table.find(v["entry"].get<string>()), string::npos);
  }
  EXPECT_GE(r["launches"]["kernels"], 6);
  for (const auto& [what, value] : r["launches"].items()) EXPECT_NE(table.find(what), string::npos);
  ASSERT_EQ(r["ceilings"].size(), 3u);
  for (const json& c : r["ceilings"]) {
    EXPECT_GT(c["value"].get<double>(), 0);
    EXPECT_NE(table.find(c["what"].get<string>()), string::npos);
  }
  ASSERT_EQ(r["training"].size(), 1u);
  const json& gpt2 = r["training"][0];
  EXPECT_EQ(gpt2["model"], "gpt2");
  EXPECT_GT(gpt2["tokens_per_second"].get<double>(), 0);
  EXPECT_LT(gpt2["loss"][1].get<double>(), gpt2["loss"][0].get<double>());
  double share = 0;
  for (const json& k : r["kernels"]) share += k["share"].get<double>();
  EXPECT_GE(r["kernels"].size(), 10u);
  EXPECT_NEAR(share, 1, 1e-6);
  EXPECT_NE(table.find("all values are right"), string::npos) << table;
  EXPECT_NE(table.find("MFU"), string::npos);
}

// What the GPU runs in the place of one kernel is another one: its text with a sum in the place of a difference.
TEST(GpuCheck, AWrongKernelIsAFailure) {
  format::Bundle bundle = format::Bundle::open(packed() + "/kinds.nbundle").value();
  string object, source;
  for (const format::Program* program : bundle.classes()[0].programs)
    if (program->compute() != 0 && !program->ptx())
      for (const format::Kernel* kernel : *program->kernels()) {
        string text(format::as_text(
            bundle.member("source/" + std::filesystem::path(kernel->object()->str()).stem().string() + ".cu")));
        if (text.find("row_sums") != string::npos) object = kernel->object()->str(), source = text;
      }
  ASSERT_FALSE(object.empty());
  string right = "sum += x[row * d + j];";
  ASSERT_NE(source.find(right), string::npos) << source;
  source.replace(source.find(right), right.size(), "sum -= x[row * d + j];");
  string file =
      std::filesystem::path(std::getenv("NABLA_FAKE_CUDA")) / (format::sha256_hex(bundle.member(object)) + ".so");
  string good = contents(file);
  std::ofstream(file, std::ios::binary) << emulator::compile_object(source, false).value();
  auto outcome = run(packed() + "/gpu_check " + packed() + " --values-only");
  std::ofstream(file, std::ios::binary) << good;
  EXPECT_EQ(outcome.code, 1);
  EXPECT_NE(outcome.text.find("1 FAILED"), string::npos) << outcome.text;
  size_t line = outcome.text.find("user_kernel");
  ASSERT_NE(line, string::npos);
  EXPECT_NE(outcome.text.substr(line, outcome.text.find('\n', line) - line).find("FAILED"), string::npos);
}

TEST(GpuCheck, SaysWhatIsMissing) {
  auto outcome = run("bench/gpu_check/gpu_check " + scratch("nothing"));
  EXPECT_EQ(outcome.code, 1);
  EXPECT_NE(outcome.text.find("gpu_check_pack DIR makes it"), string::npos) << outcome.text;
  EXPECT_EQ(run("tools/gpu_check").code, 2);
}

}  // namespace
}  // namespace nabla
