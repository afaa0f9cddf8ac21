// What tests of broken ranks share: nabla-run with faults (nabla_run_faults.cc) trains on the digits.
#pragma once

#include <gtest/gtest.h>

#include <climits>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "runtime/base/diagnostic.h"
#include "tests/ranks/digits.h"
#include "tests/ranks/expect.h"
#include "tests/ranks/job.h"

namespace nabla::tests {

inline constexpr const char* kProgram = "tests/ranks/nabla-run-faults";

class Faults : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    write_digits();
    compile_digits("dp=2,tp=2", "m");
    compile_digits("dp=4", "other");
    Outcome clean = Job(kProgram, training(44, {"--save-state", path("clean.safetensors")}, false)).wait();
    ASSERT_EQ(clean.code, 0) << clean.err;
  }
  /// Signs of life every 0.2 s: a rank is lost after a second.
  static std::vector<std::string> training(int steps, const std::vector<std::string>& more = {}, bool mpi = true) {
    std::vector<std::string> words;
    if (mpi) words = {"--engine", "mpi", "--heartbeat", "0.2", "--reports", path("reports")};
    words.insert(words.end(), more.begin(), more.end());
    return train_digits("m", steps, words);
  }
  static Outcome run(const std::string& fault, int steps = 60, const std::vector<std::string>& more = {}) {
    Job job(kProgram, training(steps, more), {.fault = fault});
    return job.wait();
  }
  /// The arguments of mpirun with which it starts `n` processes of another command, too.
  static std::vector<std::string> beside(std::vector<std::string> args, int n, const std::vector<std::string>& command) {
    args.insert(args.end(), {":", "-np", std::to_string(n)});
    args.insert(args.end(), command.begin(), command.end());
    return args;
  }
  /// The same, where the others are nabla-run with other arguments.
  static std::vector<std::string> beside_own(std::vector<std::string> args, int n, std::vector<std::string> others) {
    others.insert(others.begin(), kProgram);
    return beside(std::move(args), n, others);
  }
  /// The process that nabla-run has started: mpirun.
  static pid_t child_of(pid_t parent) {
    std::ifstream children(fmt::format("/proc/{0}/task/{0}/children", parent));
    if (pid_t child = 0; children >> child) return child;
    ADD_FAILURE() << "process " << parent << " has none";
    return INT_MAX;  // which none has
  }
  /// What a process has in its environment.
  static std::string variable_of(pid_t pid, const std::string& name) {
    std::ifstream environment(fmt::format("/proc/{}/environ", pid));
    for (std::string entry; std::getline(environment, entry, '\0');)
      if (entry.starts_with(name + "=")) return entry.substr(name.size() + 1);
    return "";
  }
  /// A file below the folder that has the text in its path; empty: none has.
  static std::string left_in(const std::string& folder, const std::string& text) {
    for (const auto& entry : std::filesystem::recursive_directory_iterator(folder))
      if (entry.path().string().find(text) != std::string::npos) return entry.path();
    return "";
  }
  static void same_state(const std::string& name) { expect_same_file("clean.safetensors", name); }
};

}  // namespace nabla::tests
