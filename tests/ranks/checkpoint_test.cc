// Runs that are interrupted and go on from their checkpoints, on one rank, on threads and on MPI processes: the bits are those of
// a run that was not interrupted. docs/checkpoints.md.
#include <dirent.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <cstdlib>
#include <random>
#include <regex>

#include "runtime/checkpoint/folder.h"
#include "runtime/checkpoint/reader.h"
#include "runtime/format/file.h"
#include "tests/nightly.h"
#include "tests/ranks/digits.h"
#include "tests/ranks/expect.h"
#include "tests/ranks/job.h"

namespace nabla::tests {
namespace {

const char* const kProgram = "tests/ranks/nabla-run-faults";
constexpr int kSteps = 44;

using Words = std::vector<std::string>;

class Checkpoints : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    write_digits();
    compile_digits("dp=2,tp=2", "m");
    compile_digits("dp=2,tp=1", "dp2");
    compile_digits("dp=1,tp=2", "tp2");
    compile_digits("dp=4,tp=1", "dp4");
    compile_digits("dp=1,tp=1", "one");
    Outcome clean = train("m", kSteps, {"--save-state", path("clean.safetensors")});
    ASSERT_EQ(clean.code, 0) << clean.err;
  }
  void SetUp() override {
    static int number = 0;
    dir_ = path("checkpoints-" + std::to_string(number++));
  }
  static Outcome train(const std::string& bundle, int64_t steps, const Words& more, const Job::Options& options = {}) {
    return Job(kProgram, train_digits(bundle, steps, more), options).wait();
  }
  Words kept(const Words& more = {}) const {
    Words out{"--checkpoint-dir", dir_};
    out.insert(out.end(), more.begin(), more.end());
    return out;
  }
  Words on_mpi(const Words& more = {}) const {
    Words out = kept(more);
    out.insert(out.end(), {"--engine", "mpi", "--heartbeat", "0.2", "--reports", path("reports")});
    return out;
  }
  /// Position and all: the metadata is part of it.
  static void same_state(const std::string& a, const std::string& b) { expect_same_file(a, b); }
  std::vector<int64_t> steps() const { return *checkpoint::steps_in(dir_); }
  int unfinished() const {
    int out = 0;
    DIR* entries = ::opendir(dir_.c_str());
    while (const dirent* e = entries == nullptr ? nullptr : ::readdir(entries)) out += std::string_view(e->d_name).ends_with(".tmp");
    if (entries != nullptr) ::closedir(entries);
    return out;
  }

  std::string dir_;
};

TEST_F(Checkpoints, AResumedRunIsAnUninterruptedOne) {
  for (bool mpi : {false, true}) {
    SCOPED_TRACE(mpi ? "mpi" : "local");
    SetUp();
    auto line = [&](Words more) { return mpi ? on_mpi(more) : kept(more); };
    // The epoch has 23 steps: it is stopped in the second one.
    Outcome first = train("m", 30, line({"--checkpoint-every", "4", "--resume", "latest"}));
    ASSERT_EQ(first.code, 0) << first.err;
    EXPECT_HAS(first.err, "note: `" + dir_ + "` has no checkpoint yet: the run begins anew\n");
    EXPECT_TRUE(std::regex_search(first.err, std::regex("checkpoints: 8 written, the last .*/step-00000030 with "
                                                        "\\d+\\.\\d KB; the run stood "
                                                        "\\d+\\.\\d ms to copy and \\d+\\.\\d ms to wait, writing took \\d+\\.\\d ms\n")))
        << first.err;
    EXPECT_EQ(steps(), (std::vector<int64_t>{24, 28, 30}));
    Outcome rest = train("m", kSteps, line({"--resume", "latest", "--save-state", path("resumed.safetensors")}));
    ASSERT_EQ(rest.code, 0) << rest.err;
    EXPECT_HAS(rest.err, "resumed from " + dir_ + "/step-00000030\n");
    same_state("clean.safetensors", "resumed.safetensors");
    Outcome again = train("m", kSteps, line({"--resume", "latest", "--save-state", path("again.safetensors")}));
    ASSERT_EQ(again.code, 0) << again.err;
    EXPECT_HAS(again.out + again.err, "note: entry `step` has done its 44 steps already\n");
    same_state("clean.safetensors", "again.safetensors");
  }
}

// F20. The plain file that a run saves shows what it has loaded.
TEST_F(Checkpoints, AnyMeshLoadsThoseOfAnyOther) {
  const char* const meshes[] = {"one", "dp2", "tp2", "dp4", "m"};
  for (const std::string from : meshes) {
    SetUp();
    bool by_mpi = from == "m" || from == "tp2";
    Words writing{"--save-state", path("from.safetensors")};
    ASSERT_EQ(train(from, 7, by_mpi ? on_mpi(writing) : kept(writing)).code, 0);
    std::string folder = dir_ + "/step-00000007";
    for (const std::string to : meshes) {
      SCOPED_TRACE(from + " to " + to);
      SetUp();
      Words reading{"--resume", folder, "--save-state", path("to.safetensors")};
      Outcome o = train(to, 7, to == "dp4" ? on_mpi(reading) : kept(reading));
      ASSERT_EQ(o.code, 0) << o.err;
      same_state("from.safetensors", "to.safetensors");
    }
  }
}

// The optimizer's state is cut in another way than the parameters, parts are padded, and ranks are up to eight.
TEST_F(Checkpoints, SoDoZeroStrategies) {
  ASSERT_EQ(std::system(("examples/digits/mlp " + path("plain.nir") + " > /dev/null").c_str()), 0);
  const std::vector<std::string> spreads{"", "--mesh dp=4 --data-axes dp --zero 3", "--mesh dp=2 --data-axes dp --zero 1",
                                         "--mesh dp=8 --data-axes dp --zero 3", "--mesh dp=2,tp=2 --data-axes dp --layout fc1.w=,tp"};
  std::string folder;
  for (size_t i = 0; i <= spreads.size(); ++i) {
    const std::string& spread = spreads[i % spreads.size()];
    SCOPED_TRACE(spread);
    ASSERT_EQ(std::system(("cli/nablac compile " + path("plain.nir") + " --no-library " + spread + " -o " + path("plain.nbundle") +
                           " > /dev/null 2>&1").c_str()), 0);
    if (!folder.empty()) {
      SetUp();
      Outcome o = train("plain", 3, kept({"--resume", folder, "--save-state", path("to.safetensors")}));
      ASSERT_EQ(o.code, 0) << o.err;
      same_state("from.safetensors", "to.safetensors");
    }
    SetUp();
    ASSERT_EQ(train("plain", 3, kept({"--save-state", path("from.safetensors")})).code, 0);
    folder = dir_ + "/step-00000003";
  }
}

// Where one is killed nothing is damaged and no step is lost that was there before.
TEST_F(Checkpoints, KilledAtAnyMomentItGoesOn) {
  std::mt19937 random(11);
  int64_t newest = 0;
  std::vector<checkpoint::Leaf> leaves;
  int after = 0;
  const int kills = is_nightly() ? 100 : 40;
  for (int i = 0; i < kills; ++i) {
    Words keeping = kept({"--resume", "latest", "--checkpoint-every", "1", "--checkpoint-keep", "2"});
    Job job(kProgram, train_digits("one", 1'000'000'000, keeping));
    ::usleep(30'000 + random() % 120'000);
    ::kill(job.pid(), SIGKILL);
    EXPECT_EQ(job.wait().code, 128 + SIGKILL);
    std::vector<int64_t> there = steps();
    if (there.empty()) continue;
    auto opened = checkpoint::Checkpoint::open(dir_ + "/" + checkpoint::name_of(there.back()));
    ASSERT_TRUE(opened.ok()) << to_string(opened.errors());
    leaves = opened->manifest().leaves;
    checkpoint::LocalMeeting meeting;
    auto warn = [](const std::string& w) { ADD_FAILURE() << w; };
    auto found = checkpoint::find({dir_, "latest", warn}, leaves, {&meeting, 0, 1, 0});
    ASSERT_TRUE(found.ok()) << to_string(found.errors());
    EXPECT_GE((**found).manifest().step, newest);
    after += (**found).manifest().step > newest;
    newest = (**found).manifest().step;
  }
  EXPECT_GT(after, kills / 5) << "runs were killed before they had written anything";
  Outcome end = train("one", newest + 3, kept({"--resume", "latest", "--save-state", path("killed.safetensors")}));
  ASSERT_EQ(end.code, 0) << end.err;
  EXPECT_EQ(unfinished(), 0);
  ASSERT_EQ(train("one", newest + 3, {"--save-state", path("whole.safetensors")}).code, 0);
  same_state("whole.safetensors", "killed.safetensors");
}

TEST_F(Checkpoints, ASignalLeavesOne) {
  for (bool mpi : {false, true}) {
    SCOPED_TRACE(mpi ? "mpi" : "local");
    SetUp();
    Job job(kProgram, train_digits("m", 100'000'000, mpi ? on_mpi() : kept()));
    ASSERT_TRUE(job.said("init: done"));
    ::usleep(300'000);
    ::kill(job.pid(), SIGTERM);
    Outcome o = job.wait();
    EXPECT_EQ(o.code, 50) << o.err;
    ASSERT_EQ(steps().size(), 1u) << o.err;
    EXPECT_HAS(o.err, "error[E0805]: stopped by a signal before the work was done\n   = note: the checkpoint is " + dir_ + "/" +
                          checkpoint::name_of(steps()[0]) + "\n");
    EXPECT_EQ(o.survivors, 0);
    Outcome rest = train("m", steps()[0] + 2, kept({"--resume", "latest", "--save-state", path("rest.safetensors")}));
    ASSERT_EQ(rest.code, 0) << rest.err;
    ASSERT_EQ(train("m", steps().back(), {"--save-state", path("straight.safetensors")}).code, 0);
    same_state("straight.safetensors", "rest.safetensors");
  }
}

// F23
TEST_F(Checkpoints, RanksAreStartedAgainFromTheLastOne) {
  Words line = on_mpi({"--checkpoint-every", "2", "--max-restarts", "2", "--save-state", path("restarted.safetensors")});
  std::string twice = "rank=1 run=3 do=kill;rank=1 run=7 epoch=1 do=kill";
  Outcome o = train("m", kSteps, line, {.fault = twice});
  EXPECT_EQ(o.code, 0) << o.err;
  EXPECT_HAS(o.err, "note: start 2 of at most 3\n");
  EXPECT_HAS(o.err, "note: start 3 of at most 3\n");
  EXPECT_EQ(o.survivors, 0);
  EXPECT_EQ(unfinished(), 0);
  same_state("clean.safetensors", "restarted.safetensors");
  SetUp();
  line[1] = dir_;
  Outcome three = train("m", kSteps, line, {.fault = twice + ";rank=0 run=2 epoch=2 do=kill"});
  EXPECT_EQ(three.code, 10) << three.err;
  EXPECT_HAS(three.err, "note: all 2 restarts are used up\n");
  EXPECT_EQ(three.survivors, 0);
  Outcome later = train("m", kSteps, on_mpi({"--resume", "latest", "--save-state", path("later.safetensors")}));
  EXPECT_EQ(later.code, 0) << later.err;
  same_state("clean.safetensors", "later.safetensors");
}

// A restart goes on with what the line asks for, whatever the first start began with.
TEST_F(Checkpoints, ARestartEndsWhereTheFirstStartWouldHave) {
  ASSERT_EQ(train("m", 20, {"--save-state", path("twenty.safetensors")}).code, 0);
  Outcome o = train("m", kSteps - 20, on_mpi({"--state", path("twenty.safetensors"), "--checkpoint-every", "2", "--max-restarts", "1",
                                              "--save-state", path("restarted.safetensors")}),
                    {.fault = "rank=2 run=9 do=kill"});
  EXPECT_EQ(o.code, 0) << o.err;
  EXPECT_HAS(o.err, "resumed from " + dir_ + "/step-0000002");
  same_state("clean.safetensors", "restarted.safetensors");
}

// F17, F19
TEST_F(Checkpoints, WhatCannotBeWrittenIsSaid) {
  // A limit on the size of files stands for a full disk: the first ones fit, then none does.
  Words full{"bash", "-c", "ulimit -f 100; exec \"$@\"", "full"};
  Outcome goes_on = train("one", 9, kept({"--checkpoint-every", "2", "--save-state", "/dev/null"}), {.before = full});
  EXPECT_EQ(goes_on.code, 30) << goes_on.err;
  std::string said = "cannot write `" + dir_ + "/step-000000";
  EXPECT_HAS(goes_on.err, "warning: a checkpoint is not written: " + said + "02.tmp/rank-0.safetensors`: File too large\n");
  EXPECT_HAS(goes_on.err, "step-00000008.tmp");
  EXPECT_HAS(goes_on.err, "error[E0803]: " + said + "09.tmp/rank-0.safetensors`: File too large\n"
                          "   = note: no checkpoint has been written\n");
  EXPECT_HAS(goes_on.err, "checkpoints: 0 written, 5 failed; the run stood ");
  EXPECT_TRUE(steps().empty());
  ASSERT_EQ(train("one", 5, kept()).code, 0);
  Outcome required = train("one", 900, kept({"--resume", "latest", "--checkpoint-every", "2", "--checkpoint-required"}), {.before = full});
  EXPECT_EQ(required.code, 30) << required.err;
  EXPECT_HAS(required.err, "error[E0803]: cannot write `");
  EXPECT_HAS(required.err, "   = note: the last checkpoint is " + dir_ + "/step-00000005\n");
  EXPECT_EQ(steps(), (std::vector<int64_t>{5}));
  EXPECT_EQ(unfinished(), 0);
  Outcome nowhere = train("one", 5, {"--checkpoint-dir", "/proc/none"});
  EXPECT_EQ(nowhere.code, 30);
  EXPECT_HAS(nowhere.err, "error[E0803]: cannot write `/proc/none`: ");
}

TEST_F(Checkpoints, OnProcessesAFullDiskIsThatOfAll) {
  std::string said = "rank 1: cannot write `" + dir_ + "/step-000000";
  Outcome goes_on = train("m", 9, on_mpi({"--checkpoint-every", "2"}), {.fault = "rank=1 run=1 do=full"});
  EXPECT_EQ(goes_on.code, 30) << goes_on.err;
  EXPECT_HAS(goes_on.err, "warning: a checkpoint is not written: " + said + "02.tmp/rank-1.safetensors`: File too large\n");
  EXPECT_HAS(goes_on.err, "error[E0803]: " + said + "09.tmp/rank-1.safetensors`: File too large");
  EXPECT_TRUE(steps().empty());
  EXPECT_EQ(unfinished(), 0);
  ASSERT_EQ(train("m", 4, on_mpi({"--checkpoint-every", "2"})).code, 0);
  Outcome required = train("m", 2000, on_mpi({"--resume", "latest", "--checkpoint-every", "2", "--checkpoint-required"}),
                           {.fault = "rank=1 run=1 do=full"});
  EXPECT_EQ(required.code, 30) << required.err;
  EXPECT_HAS(required.err, "error[E0803]: " + said + "06.tmp/rank-1.safetensors`: File too large");
  EXPECT_EQ(required.survivors, 0);
  EXPECT_EQ(steps(), (std::vector<int64_t>{2, 4}));
  Outcome mixed = train("m", 9, on_mpi());
  EXPECT_EQ(mixed.code, 2) << mixed.err;
  EXPECT_HAS(mixed.err, "error[E0901]: --checkpoint-dir `" + dir_ + "` has checkpoints, up to step 4\n");
  EXPECT_EQ(mixed.survivors, 0);
}

TEST_F(Checkpoints, DamagedOnesAreLeftOutAndNoneIsAnError) {
  ASSERT_EQ(train("m", 6, on_mpi({"--checkpoint-every", "2"})).code, 0);
  EXPECT_EQ(steps(), (std::vector<int64_t>{2, 4, 6}));
  std::string file = dir_ + "/step-00000006/rank-2.safetensors";
  auto bytes = format::FileBytes::map(file);
  ASSERT_TRUE(bytes.ok());
  std::string broken(format::as_text((*bytes)->bytes()));
  broken[broken.size() / 2] ^= 16;
  ASSERT_TRUE(format::write_file(file, broken).ok());
  Outcome o = train("m", kSteps, on_mpi({"--resume", "latest", "--save-state", path("around.safetensors")}));
  EXPECT_EQ(o.code, 0) << o.err;
  EXPECT_HAS(o.err, "warning: checkpoint `" + dir_ + "/step-00000006` is left out: " + file + ": damaged: its checksum is ");
  EXPECT_HAS(o.err, "resumed from " + dir_ + "/step-00000004\n");
  same_state("clean.safetensors", "around.safetensors");
  for (int64_t step : steps()) ::truncate((dir_ + "/" + checkpoint::name_of(step) + "/manifest.json").c_str(), 40);
  for (bool mpi : {false, true}) {
    Outcome none = train("m", kSteps, mpi ? on_mpi({"--resume", "latest"}) : kept({"--resume", "latest"}));
    EXPECT_EQ(none.code, 31) << none.err;
    EXPECT_HAS(none.err, "error[E0616]: no valid checkpoint: ");
    EXPECT_HAS(none.err, "/step-00000004/manifest.json: damaged: not a JSON object");
  }
}

TEST_F(Checkpoints, LinesThatMeanNothingAreRefused) {
  auto refusal = [&](const Words& more) {
    Outcome o = train("one", 3, more);
    EXPECT_EQ(o.code, 2) << o.err;
    return o.err;
  };
  for (const char* option : {"--checkpoint-every", "--checkpoint-keep", "--checkpoint-keep-every", "--resume", "--max-restarts"})
    EXPECT_HAS(refusal({option, "1"}), std::string("error[E0901]: ") + option + " needs --checkpoint-dir\n");
  EXPECT_HAS(refusal({"--checkpoint-required"}), "--checkpoint-required needs --checkpoint-dir");
  EXPECT_HAS(refusal(kept({"--resume", "latest", "--state", "x"})), "--resume and --state exclude each other");
  EXPECT_HAS(refusal(kept({"--resume", "latest", "--skip", "3"})), "--resume excludes --skip: the checkpoint says where to go on");
  EXPECT_HAS(refusal(kept({"--checkpoint-keep", "0"})), "`0` is not a whole number of at least 1");
  ASSERT_EQ(train("one", 3, kept()).code, 0);
  EXPECT_HAS(refusal(kept()), "--checkpoint-dir `" + dir_ + "` has checkpoints, up to step 3\n"
                              "   = help: go on from there with --resume latest, or begin anew in another folder\n");
  Outcome other = train("one", 3, kept({"--resume", "9"}));
  EXPECT_EQ(other.code, 31);
  EXPECT_HAS(other.err, "has no checkpoint of step 9; it has those of 3");
}

}  // namespace
}  // namespace nabla::tests
