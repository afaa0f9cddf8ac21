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
    for (const char* name :
         {"kinds", "tf32", "library", "launches", "speed", "speed_library", "layer", "layer_library", "gpt2",
                             "train_dp_2", "train_zero3_4"}) {
      Status ready = emulator::use_fake_gpu(contents(folder + "/" + name + ".nbundle"), driver, {.beside = true});
      EXPECT_TRUE(ready.ok()) << to_string(ready.errors());
    }
    std::filesystem::copy_file("bench/gpu_check/gpu_check", folder + "/gpu_check");
    std::filesystem::copy_file("tools/gpu_check", folder + "/run");
    std::filesystem::copy_file("cli/nabla-run", folder + "/nabla-run");
    std::filesystem::copy_file("tests/cuda/nccl_conformance", folder + "/nccl_conformance");
    return folder;
  }();
  return kFolder;
}

// The lines of the one file of a folder.
std::vector<json> lines_of(const string& folder) {
  string path;
  for (const auto& file : std::filesystem::directory_iterator(folder))
    if (file.path().extension() == ".jsonl") path = file.path();
  std::ifstream in(path);
  std::vector<json> out;
  for (string line; std::getline(in, line);) out.push_back(json::parse(line));
  return out;
}

std::vector<json> rows_of(const std::vector<json>& lines, const string& part) {
  std::vector<json> out;
  for (const json& line : lines)
    if (line["part"] == part) out.push_back(line);
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

// A process whose GPU fails ends; the next one goes on with the next task.
TEST(GpuCheck, GoesOnAfterATaskThatFails) {
  auto out = run("NABLA_FAKE_CUDA_FAIL=cuLaunchKernel:30 " + packed() + "/run " + scratch("cut") +
                 " --seconds 0 --seed 4 --values-only");
  EXPECT_EQ(out.code, 1) << out.text;
  std::vector<json> lines = lines_of(scratch("cut")), values = rows_of(lines, "values"), more = rows_of(lines, "libraries");
  values.insert(values.end(), more.begin(), more.end());
  more = rows_of(lines, "ranks");
  values.insert(values.end(), more.begin(), more.end());
  EXPECT_EQ(lines.front()["part"], "machine");
  EXPECT_EQ(lines.back()["part"], "end");
  EXPECT_GE(values.size(), 40u);
  int failed = 0, right = 0;
  for (const json& v : values) {
    bool broke = v.contains("failed");
    failed += broke, right += v["ok"].get<bool>();
    if (broke) { EXPECT_NE(v["failed"].get<string>().find("launching"), string::npos) << v; }
  }
  EXPECT_GE(failed, 2);
  EXPECT_GE(right, 20);
  EXPECT_EQ(lines.back()["failures"], failed);
  // A second run stands beside the first.
  EXPECT_EQ(run(packed() + "/run " + scratch("cut") + " --only values/softmax").code, 0);
  auto files = std::filesystem::directory_iterator(scratch("cut"));
  EXPECT_EQ(std::distance(begin(files), end(files)), 2);
}

TEST(GpuCheck, ATaskThatHangsOrDiesIsSaid) {
  string late = packed() + "/gpu_check " + packed() + " --only values/softmax --within 0";
  auto none = run(late);
  EXPECT_EQ(none.code, 1);
  EXPECT_NE(none.text.find("softmax"), string::npos) << none.text;
  EXPECT_NE(none.text.find("FAILED: not run: 0 s had passed"), string::npos) << none.text;
  auto full = run(late + " --results /dev/full");
  EXPECT_EQ(full.code, 1);
  EXPECT_NE(full.text.find("error[E0803]: cannot write `/dev/full`: No space left on device"), string::npos) << full.text;
  EXPECT_NE(run(packed() + "/gpu_check " + packed() + " --only values/nothing").text.find("no task is named so"),
            string::npos);
}

TEST(GpuCheck, HasEveryLine) {
  string table = must(packed() + "/run " + scratch("results") + " --seconds 0 --seed 4");
  std::vector<json> lines = lines_of(scratch("results")), values = rows_of(lines, "values");
  EXPECT_EQ(lines.back()["failures"], 0);
  EXPECT_EQ(lines.front()["seed"], 4);
  EXPECT_GE(lines.front()["driver_cuda"], 12000);
  EXPECT_EQ(table.find("run as generated kernels"), string::npos) << table;  // the libraries are there
  EXPECT_NE(table.find("library_convolution_f32"), string::npos);
  ASSERT_GE(values.size(), 45u);
  std::vector<json> libraries = rows_of(lines, "libraries");
  ASSERT_GE(libraries.size(), 12u);
  values.insert(values.end(), libraries.begin(), libraries.end());
  for (const json& v : values) {
    EXPECT_TRUE(v["ok"].get<bool>()) << v;
    EXPECT_NE(table.find(v["name"].get<string>()), string::npos);
  }
  std::vector<json> ranks = rows_of(lines, "ranks");
  ASSERT_EQ(ranks.size(), 5u);
  for (const json& r : ranks) {
    EXPECT_TRUE(r["ok"].get<bool>()) << r;
    EXPECT_FALSE(r.contains("note")) << r;
    EXPECT_NE(table.find(r["name"].get<string>()), string::npos);
  }
  EXPECT_EQ(lines.front()["nccl"], "2.28.9");
  std::vector<json> launches = rows_of(lines, "launches"), ceilings = rows_of(lines, "ceilings");
  ASSERT_EQ(launches.size(), 1u);
  EXPECT_GE(launches[0]["kernels"], 6);
  EXPECT_NE(table.find("kernel_in_a_graph_us"), string::npos);
  ASSERT_GE(ceilings.size(), 15u);
  int by_library = 0;
  for (const json& c : ceilings) {
    EXPECT_GT(c["value"].get<double>(), 0);
    // Each run launches the work several times, and the row says by which code.
    EXPECT_EQ(c["launches"], 2) << c;
    ASSERT_FALSE(c["algorithms"].empty()) << c;
    const bool library = c["name"].get<string>().starts_with("library_product");
    if (library && c["algorithms"][0].get<string>().starts_with("2 x gemm ")) {
      EXPECT_NE(c["algorithms"][0].get<string>().find(" | record Fake GPU | "), string::npos) << c;
      ++by_library;
    }
    if (c["name"] == "generated_product_bf16_4096") {
      EXPECT_NE(c["algorithms"][0].get<string>().find(": product tensor_cores tile "), string::npos) << c;
      EXPECT_TRUE(c["algorithms"][0].get<string>().starts_with("2 x ")) << c;
    }
    EXPECT_NE(table.find(c["name"].get<string>()), string::npos);
  }
  EXPECT_GT(by_library, 0);
  std::vector<json> training = rows_of(lines, "training"), kernels = rows_of(lines, "kernels");
  ASSERT_EQ(training.size(), 1u);
  EXPECT_EQ(training[0]["name"], "gpt2");
  EXPECT_GT(training[0]["tokens_per_second"].get<double>(), 0);
  EXPECT_LT(training[0]["loss"][1].get<double>(), training[0]["loss"][0].get<double>());
  EXPECT_LT(training[0]["error"].get<double>(), 2e-2);  // of the losses that the CPU had
  ASSERT_EQ(kernels.size(), 1u);
  double share = 0;
  for (const json& k : kernels[0]["kernels"]) share += k["share"].get<double>();
  EXPECT_GE(kernels[0]["kernels"].size(), 10u);
  EXPECT_NEAR(share, 1, 1e-6);
  EXPECT_NE(table.find("all is right"), string::npos) << table;
  EXPECT_NE(table.find("MFU"), string::npos);
}

// A job whose losses are NaN, which its lines have as null.
TEST(GpuCheck, ALossThatIsNoNumberIsAFailure) {
  const string folder = scratch("no_number");
  std::filesystem::create_directories(folder);
  std::ifstream in(packed() + "/plan.json");
  std::ofstream(folder + "/plan.json") << in.rdbuf();
  std::ofstream(folder + "/nabla-run") << "#!/bin/sh\nwhile [ \"$1\" != --metrics ]; do shift; done\necho '{\"loss\": null}' > \"$2\"\n";
  std::filesystem::permissions(folder + "/nabla-run", std::filesystem::perms::owner_all);
  auto outcome = run(packed() + "/gpu_check " + folder + " --only ranks/train_dp_2");
  EXPECT_EQ(outcome.code, 1);
  EXPECT_NE(outcome.text.find("  train_dp_2                     not a number      0.02  FAILED\n"), string::npos) << outcome.text;
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
  size_t line = outcome.text.rfind("  user_kernel");
  ASSERT_NE(line, string::npos);
  EXPECT_NE(outcome.text.substr(line, outcome.text.find('\n', line) - line).find("FAILED"), string::npos);
}

}  // namespace
}  // namespace nabla
