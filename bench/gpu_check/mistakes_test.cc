// What gpu_check and gpu_check_pack say of lines and folders that are wrong, and of a machine without a GPU.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "tests/e2e/commands.h"

namespace nabla {
namespace {

using e2e::run;
using e2e::scratch;
using std::string;

constexpr const char* kCheck = "bench/gpu_check/gpu_check ";
constexpr const char* kPack = "bench/gpu_check/gpu_check_pack ";

string check_of(const string& plan) {
  std::filesystem::create_directories(scratch("pack"));
  std::ofstream(scratch("pack") + "/plan.json") << plan;
  e2e::Output out = run(kCheck + scratch("pack"));
  EXPECT_EQ(out.code, 1) << out.text;
  return out.text;
}

TEST(GpuCheckMistakes, ADamagedPlanIsNamedWithWhatIsWrong) {
  auto said = [](const string& problem) {
    return fmt::format("error[E0104]: {}/plan.json is not what gpu_check_pack writes: {}\n"
                       "   = help: make all of the folder again with gpu_check_pack, of the same version as gpu_check\n",
                       scratch("pack"), problem);
  };
  EXPECT_EQ(check_of(""), said("it is empty"));
  EXPECT_EQ(check_of("no plan"), said("it is no JSON from byte 2 of 7 on"));
  EXPECT_EQ(check_of("[]"), said("it is []; expected an object"));
  EXPECT_EQ(check_of("null"), said("it is null; expected an object"));
  EXPECT_EQ(check_of("{}"), said("it has no `target`"));
  EXPECT_EQ(check_of(R"({"target": 90})"), said("target is 90; expected a text"));
  EXPECT_EQ(check_of(R"({"target": 1e999})"), said("a number in it is too large"));
}

TEST(GpuCheckMistakes, AFolderWithoutAPlan) {
  auto none = run(kCheck + scratch("nothing"));
  EXPECT_EQ(none.code, 1);
  EXPECT_EQ(none.text, fmt::format("error[E0801]: cannot open `{}/plan.json`: No such file or directory\n"
                                   "   = help: name a folder that gpu_check_pack has made: it writes plan.json last\n",
                                   scratch("nothing")));
  EXPECT_EQ(run("tools/gpu_check").code, 2);
}

// A line that is wrong is found before anything of the folder is looked at.
TEST(GpuCheckMistakes, AWrongLineEndsWith2) {
  auto refused = [](const string& line, const string& what) {
    auto out = run(line);
    EXPECT_EQ(out.code, 2) << line;
    string name = line.starts_with(kCheck) ? "gpu_check" : "gpu_check_pack";
    EXPECT_EQ(out.text, fmt::format("error[E0901]: {}\n   = help: `{} --help` lists what it takes\n", what, name)) << line;
  };
  const string check = kCheck + scratch("pack") + " ";
  for (const char* value : {"nan", "inf", "-5", "86401", "x", "5s"})
    refused(check + "--within=" + value, fmt::format("--within: `{}` is not a number of seconds from 0 to 86400", value));
  for (const char* value : {"nan", "inf", "-inf", "-1", "60.5"})
    refused(check + "--seconds=" + value, fmt::format("--seconds: `{}` is not a number of seconds from 0 to 60", value));
  for (const char* value : {"-1", "nan", "18446744073709551616"})
    refused(check + "--seed=" + value, fmt::format("--seed: `{}` is not a whole number below 2^64", value));
  refused(check + "--values-only=7", "--values-only: `7` is not true, false, yes, no, on, off, 1 or 0; the flag needs no value");
  refused(check + "--secnds 1", "there is no option `--secnds`; did you mean `--seconds`?");
  refused(kCheck, "DIR is required");
  refused(check + "--results ''", "--results: the file name is empty");
  refused(kPack, "DIR is required");
  refused(kPack + scratch("p") + " --tiny", "there is no option `--tiny`");
  auto help = run(string(kCheck) + "--help");
  EXPECT_EQ(help.code, 0);
  EXPECT_NE(help.text.find("--within"), string::npos) << help.text;
  EXPECT_EQ(help.text.find("--child"), string::npos) << help.text;
}

TEST(GpuCheckMistakes, PackSaysWhichTargetsAndFoldersItTakes) {
  const string pack = kPack + scratch("unmade") + " --target ";
  const string help = "   = help: the GPUs are sm_80, sm_86, sm_89, sm_90, sm_90a, sm_100, sm_100a, sm_120\n";
  for (const auto& [target, more] : std::vector<std::pair<string, string>>{
           {"nonsense", ""}, {"cpu", ""}, {"compute_80", ""}, {"sm_80,sm_90a", ""}, {"sm_90b", "; did you mean `sm_90`?"}}) {
    auto out = run(pack + target);
    EXPECT_EQ(out.code, 2) << target;
    EXPECT_EQ(out.text, fmt::format("error[E0901]: --target: `{}` is none, or more than one, of the GPUs{}\n{}", target, more, help));
  }
  EXPECT_FALSE(std::filesystem::exists(scratch("unmade")));
  auto nowhere = run(string(kPack) + "/proc/nope");
  EXPECT_EQ(nowhere.code, 1);
  EXPECT_EQ(nowhere.text, "error[E0803]: the folder `/proc/nope` cannot be made: No such file or directory\n"
                          "   = help: see the reason in the message; check the path and its permissions\n");
}

constexpr const char* kPlan = R"({"target": "sm_90a", "tensor_tflops": 989, "values": [], "ranks": [], "ceilings": [], "training": []})";

TEST(GpuCheckMistakes, WithoutAGpuItSaysWhereItCanRun) {
  setenv("NABLA_CUDA_DRIVER", "/not/there/libcuda.so.1", 1);
  string text = check_of(kPlan);
  const string folder = scratch("pack");
  EXPECT_EQ(text.substr(0, 89), "error[E0605]: this machine's GPU cannot be checked: NVIDIA's driver is not there: /not/th") << text;
  EXPECT_NE(text.find(fmt::format("   = help: a check needs an NVIDIA GPU and its driver, and else only what {} holds: "
                                  "copy that folder to a machine that has them, and start {}/run there\n", folder, folder)),
            string::npos) << text;
  // The script says nothing of results that nobody wrote.
  for (const char* name : {"gpu_check", "run"})
    std::filesystem::copy_file(name == string("run") ? "tools/gpu_check" : "bench/gpu_check/gpu_check", folder + "/" + name);
  auto script = run(folder + "/run " + scratch("results"));
  EXPECT_EQ(script.code, 1);
  EXPECT_EQ(script.text, text);
}

TEST(GpuCheckMistakes, NoTaskOfThatName) {
  std::filesystem::create_directories(scratch("pack"));
  std::ofstream(scratch("pack") + "/plan.json") << kPlan;
  auto out = run(kCheck + scratch("pack") + " --only launches --values-only");
  EXPECT_EQ(out.code, 2);
  EXPECT_EQ(out.text, "error[E0901]: --only launches: no task of --values-only is named so\n"
                      "   = help: tasks are PART/NAME; parts are values, libraries, ranks, launches, ceilings, training, kernels\n");
}

}  // namespace
}  // namespace nabla
