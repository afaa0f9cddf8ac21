// What goes wrong with a rank of several processes, and what all others say and do about it: the fault matrix of
// docs/ranks.md. Every test asserts the text, the exit code, the time, and that no process is left.
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <climits>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "runtime/base/text.h"
#include "runtime/format/file.h"
#include "tests/ranks/digits.h"
#include "tests/ranks/expect.h"
#include "tests/ranks/job.h"

namespace nabla::tests {
namespace {

const char* const kProgram = "tests/ranks/nabla-run-faults";

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

TEST_F(Faults, WithoutFaultsTheBitsAreThoseOfThreads) {
  Outcome o = run("", 44, {"--save-state", path("mpi.safetensors")});
  EXPECT_EQ(o.code, 0) << o.err;
  EXPECT_HAS(o.err, "4 ranks of mesh pod (dp=2, tp=2) in several processes, 1 thread each\n");
  EXPECT_HAS(o.err, "waited for others: ");
  same_state("mpi.safetensors");
  Job direct(kProgram, training(44, {"--save-state", path("direct.safetensors")}, false), {.before = mpirun(4)});
  Outcome d = direct.wait();
  EXPECT_EQ(d.code, 0) << d.err;
  same_state("direct.safetensors");
}

// What ranks exchange does not depend on the engine, in calls and bytes.
TEST_F(Faults, ProcessesExchangeWhatThreadsDo) {
  auto exchanges = [](bool mpi) {
    std::vector<std::string> args = training(1, {"--profile", "--json"}, mpi);
    args.back() = "5", *(args.end() - 2) = "--bench";
    Outcome o = Job(kProgram, args).wait();
    EXPECT_EQ(o.code, 0) << o.err;
    size_t at = o.out.find("\"exchanges\": ");
    return at == std::string::npos ? "none: " + o.out : o.out.substr(at);
  };
  std::string threads = exchanges(false);
  EXPECT_HAS(threads, "all_reduce");
  EXPECT_EQ(exchanges(true), threads);
}

// F21
TEST_F(Faults, RanksThatNeedMoreMemoryThanThereIsDoNotStart) {
  Outcome o = Job(kProgram, training(3, {}, false), {.before = mpirun(4), .address_space = 1 << 30}).wait();
  EXPECT_EQ(o.code, 0) << o.err;  // the MLP is small
  std::string big = path("big.nbl");
  const char* text =
      "nabla 1 traced\nmesh pod = {dp=4}\nstate w: f32[2147483648@{dp}]\nentry init calls @init {\n  writes w\n}\n"
      "func @init() {\n  %w = iota() {shape=[2147483648], axis=0, dtype=f32}\n  return %w\n}\n";
  ASSERT_TRUE(format::write_file(big, text).ok());
  ASSERT_EQ(std::system(("cli/nablac compile " + big + " --no-library -o " + path("big.nbundle") + " > /dev/null").c_str()), 0);
  Outcome b = Job(kProgram, {path("big.nbundle"), "--entry", "init"}, {.before = mpirun(4), .address_space = 1 << 30}).wait();
  EXPECT_EQ(b.code, 40) << b.err;
  EXPECT_MATCHES(b.err, "error\\[E0804\\]: rank \\d needs \\d+\\.\\d MiB of memory, and this process may have 1024\\.0 MiB: the "
                        "limit of its address space");
}

// F1: wherever a rank is killed, all others name it.
TEST_F(Faults, ARankThatIsKilledIsNamed) {
  for (const char* fault : {"rank=2 run=0 do=kill", "rank=1 run=1 do=kill", "rank=0 run=2 do=kill", "rank=2 run=30 do=kill",
                            "rank=3 run=60 do=kill", "rank=1 run=61 do=kill"}) {
    Outcome o = run(fault);
    EXPECT_EQ(o.code, 10) << fault << "\n" << o.err;
    std::string rank(1, fault[5]);
    EXPECT_HAS(o.err, "error[E0610]: rank " + rank + " ");
    EXPECT_HAS(o.err, "was killed by signal 9 (Killed)");
    EXPECT_LT(o.seconds, 8) << fault;
    EXPECT_EQ(o.survivors, 0) << fault;
    if (std::string_view(fault).find("run=0") != std::string_view::npos) continue;  // nobody has met anybody
    for (const std::string other : {"0", "1", "2", "3"}) {
      if (other == rank) continue;
      EXPECT_HAS(o.err, "rank " + other + ": error[E0610]: rank " + rank + " (process ");
    }
  }
}

TEST_F(Faults, ARankThatIsKilledInAnExchangeIsNamed) {
  for (int send = 1; send <= 20; ++send) {
    Outcome o = run("rank=2 run=12 do=kill send=" + std::to_string(send), 300);
    EXPECT_EQ(o.code, 10) << send << "\n" << o.err;
    EXPECT_MATCHES(o.err,
                 "rank 2 \\(process \\d+ on [^)]+\\) was killed by signal 9 \\(Killed\\) in run 1\\d, at exchange "
                 "\\d+: all_reduce over (dp|tp)");
    EXPECT_EQ(o.survivors, 0) << send;
  }
}

// F2: who started the job under mpirun is coordinated by the keeper of rank 0.
TEST_F(Faults, RanksWithoutTheirCoordinatorEnd) {
  Job job(kProgram, training(1000000, {"--heartbeat", "0.2"}, false), {.before = mpirun(4)});
  ASSERT_TRUE(job.said("init: done"));
  pid_t keeper = job.keeper(0);
  ASSERT_GT(keeper, 0);
  job.mark();
  ::kill(keeper, SIGKILL);
  Outcome o = job.wait();
  EXPECT_NE(o.code, 0);
  EXPECT_LT(o.seconds, 6);
  EXPECT_EQ(o.survivors, 0);
}

// Nothing that ranks did is lost when one of them is killed on its way out.
TEST_F(Faults, ARankThatIsKilledAfterAllWorkIsAWarning) {
  std::string warning = "warning: rank 2 was killed by signal 9 (Killed) after all ranks had done their work\n";
  for (bool mpi : {true, false}) {
    std::vector<std::string> args = training(44, {"--save-state", path("last.safetensors")}, mpi);
    Outcome o = Job(kProgram, args, {.fault = "rank=2 do=last", .before = mpi ? std::vector<std::string>() : mpirun(4)}).wait();
    EXPECT_EQ(o.code, mpi ? 0 : 1) << o.err;  // mpirun does not know what was done
    EXPECT_HAS(o.err, warning);
    std::string told = "warning: mpirun ended with exit code 1 after all ranks had done their work\n";
    EXPECT_EQ(o.err.find(told) != std::string::npos, mpi) << o.err;
    EXPECT_EQ(o.survivors, 0);
    same_state("last.safetensors");
  }
}

// Before it has met the others only its keeper knows of it.
TEST_F(Faults, ARankThatIsKilledBeforeItMeetsTheOthersIsNamed) {
  std::vector<std::string> args = training(3, {"--join-timeout", "5"}, false);
  args.insert(args.end(), {":", "-np", "1", "sleep", "100"});
  Job job(kProgram, args, {.before = mpirun(3)});
  pid_t rank = job.rank(2);
  ASSERT_GT(rank, 0);
  ::kill(rank, SIGKILL);
  Outcome o = job.wait();
  EXPECT_EQ(o.code, 10) << o.err;
  EXPECT_MATCHES(o.err, "rank 2: error\\[E0610\\]: its process \\(\\d+ on [^)]+\\) was killed by signal 9 \\(Killed\\) before it had met "
                        "the others\n");
  EXPECT_EQ(o.survivors, 0);
  // What is wrong with its bundle it says itself, with what to do.
  std::vector<std::string> here = training(3, {}, false), none = here;
  none[0] = path("nix.nbundle");
  here.insert(here.end(), {":", "-np", "1", kProgram});
  here.insert(here.end(), none.begin(), none.end());
  Outcome nix = Job(kProgram, here, {.before = mpirun(3)}).wait();
  EXPECT_EQ(nix.code, 30) << nix.err;
  EXPECT_HAS(nix.err, "rank 3: error[E0801]: ");
  EXPECT_HAS(nix.err, "\n   = help: ");
}

// Its ranks lose it, and end; nobody waits for what cannot hear.
TEST_F(Faults, ACoordinatorThatStandsStillIsLost) {
  Job job(kProgram, training(1000000, {"--heartbeat", "0.2"}, false), {.before = mpirun(4)});
  ASSERT_TRUE(job.said("init: done"));
  pid_t keeper = job.keeper(0);
  ASSERT_GT(keeper, 0);
  job.mark();
  ::kill(keeper, SIGSTOP);
  Outcome o = job.wait();
  EXPECT_NE(o.code, 0);
  EXPECT_LT(o.seconds, 8);
  EXPECT_MATCHES(o.err, "E0612");
  EXPECT_EQ(o.survivors, 0);
}

// Before MPI_Init comes back no rank can say or hear a word: keepers look at the time.
TEST_F(Faults, ARankThatNeverComesToMpiIsNotWaitedForForEver) {
  std::vector<std::string> args = training(3, {"--join-timeout", "3"}, false);
  args.insert(args.end(), {":", "-np", "1", "sleep", "100"});
  Outcome missing = Job(kProgram, args, {.before = mpirun(3)}).wait();
  EXPECT_EQ(missing.code, 22) << missing.err;
  EXPECT_MATCHES(missing.err, "error\\[E0614\\]: rank [012] has waited in MPI_Init for 3 s: not all of the 4 processes have come to it\n"
                              "   = help: Open MPI \\(OMPI_COMM_WORLD_RANK\\) starts 4 processes, each of which has to be nabla-run, and "
                              "none may stand still; --join-timeout S lets them wait longer\n");
  EXPECT_LT(missing.seconds, 8);
  EXPECT_EQ(missing.survivors, 0);
  Job stands(kProgram, args, {.before = mpirun(3)});
  pid_t rank = stands.rank(1);
  ASSERT_GT(rank, 0);
  ::kill(rank, SIGSTOP);
  Outcome o = stands.wait();
  EXPECT_EQ(o.code, 22) << o.err;
  EXPECT_HAS(o.err, "error[E0614]: rank 1 stands still since it was stopped (SIGSTOP), before MPI_Init, and the other ranks wait for it "
                    "there\n   = help: let it go on (kill -CONT), or start the job again\n");
  EXPECT_EQ(o.survivors, 0);
}

// F3
TEST_F(Faults, ARankThatEndsIsNamedWithWhatItSaidLast) {
  Outcome gives_up = run("rank=1 run=9 do=exit");
  EXPECT_EQ(gives_up.code, 10) << gives_up.err;
  EXPECT_HAS(gives_up.err, "ended with exit code 3 in run 8");
  EXPECT_HAS(gives_up.err, "   = note: it wrote last:\n");
  EXPECT_HAS(gives_up.err, "   = note:   this rank gives up\n");
  Outcome crashes = run("rank=3 run=9 do=segv");
  EXPECT_EQ(crashes.code, 10) << crashes.err;
  EXPECT_HAS(crashes.err, "was killed by signal 11 (Segmentation fault) in run 8");
  Outcome throws = run("rank=0 run=9 do=throw");
  EXPECT_EQ(throws.code, 10) << throws.err;
  EXPECT_HAS(throws.err, "was killed by signal 6 (Aborted) in run 8");
  EXPECT_HAS(throws.err, "a fault of this rank");
  Outcome silent = run("rank=1 run=9 do=leave");
  EXPECT_HAS(silent.err, "ended with exit code 3 in run 8");
  EXPECT_EQ(silent.err.find("it wrote last"), std::string::npos) << silent.err;
  for (const Outcome* o : {&gives_up, &crashes, &throws, &silent}) EXPECT_EQ(o->survivors, 0);
}

// F4
TEST_F(Faults, ARankThatIsStoppedIsUnresponsive) {
  for (const char* fault : {"rank=1 run=3000 do=stop", "rank=0 run=3500 do=stop", "rank=3 run=4000 do=stop"}) {
    Outcome o = run(fault, 9000);
    std::string rank = std::string("rank ") + fault[5];
    EXPECT_EQ(o.code, 10) << o.err;
    EXPECT_MATCHES(o.err, rank + " \\(process \\d+ on [^)]+\\) is unresponsive: nothing was heard of it for 1\\.\\d s in run "
                                 "\\d+, at exchange \\d+: all_reduce");
    EXPECT_LT(o.seconds, 10);
    EXPECT_EQ(o.survivors, 0);
    // It does not hear that it is to end, and leaves its report nonetheless.
    Outcome told = Job(kProgram, {"--postmortem", path("reports")}).wait();
    for (int r : {0, 1, 2, 3}) EXPECT_HAS(told.out, "\n  rank " + std::to_string(r) + " ") << fault;
  }
}

// F5, F8
TEST_F(Faults, ARankThatIsSlowOrPausesIsWaitedFor) {
  Outcome pauses = run("rank=1 run=20 do=pause", 44, {"--save-state", path("pause.safetensors"), "--comm-timeout", "1"});
  EXPECT_EQ(pauses.code, 0) << pauses.err;
  EXPECT_MATCHES(pauses.err,
                 "warning: rank \\d waits since 0\\.\\d s in run \\d+ for exchange \\d+: all_reduce");
  same_state("pause.safetensors");
  Outcome slow = run("rank=2 do=slow run=0", 44, {"--save-state", path("slow.safetensors")});
  EXPECT_EQ(slow.code, 0) << slow.err;
  same_state("slow.safetensors");
}

// F7
TEST_F(Faults, ARankThatComputesForeverIsNamedByWhoWaitsForIt) {
  Outcome o = run("rank=2 run=25 do=spin", 60, {"--comm-timeout", "2"});
  EXPECT_EQ(o.code, 11) << o.err;
  EXPECT_HAS(o.err, "warning: rank ");
  EXPECT_MATCHES(o.err,
                 "error\\[E0611\\]: rank \\d waits since \\d\\.\\d s in run \\d+ for exchange \\d+: all_reduce over "
                 "(dp|tp) of `[^`]*`.* \\(\\d+ bytes\\); rank 2 has not come: it computes in run \\d+, after exchange "
                 "\\d+");
  EXPECT_LT(o.seconds, 12);
  EXPECT_EQ(o.survivors, 0);
  Outcome told = Job(kProgram, {"--postmortem", path("reports")}).wait();
  EXPECT_EQ(told.code, 0);
  EXPECT_HAS(told.out, "rank 2 has not come: it computes in run ");
  for (int r : {0, 1, 2, 3}) EXPECT_HAS(told.out, "\n  rank " + std::to_string(r) + " ");
  EXPECT_MATCHES(told.out,
                 "rank 2 computed in run \\d+, after it began exchange \\d+: all_reduce");
}

// F12
TEST_F(Faults, AMessageThatComesDamagedIsNoResult) {
  Outcome o = run("rank=1 run=10 do=flip send=2", 60, {"--check-messages"});
  EXPECT_EQ(o.code, 13) << o.err;
  EXPECT_MATCHES(o.err,
                 "error\\[E0613\\]: a message of \\d+ bytes from rank 1 came to rank \\d damaged: its checksum is "
                 "[0-9a-f]{8}, not [0-9a-f]{8}");
  EXPECT_EQ(o.survivors, 0);
  Outcome fine = run("", 44, {"--check-messages", "--save-state", path("checked.safetensors")});
  EXPECT_EQ(fine.code, 0) << fine.err;
  same_state("checked.safetensors");
}

// F13
TEST_F(Faults, AWorldOfAnotherSizeIsRefused) {
  Outcome np = Job(kProgram, training(3, {"--np", "3"})).wait();
  EXPECT_EQ(np.code, 22);
  EXPECT_HAS(np.err, "m.nbundle is for 4 ranks, and --np says 3\n   = help: say --np 4, or leave it out\n");
  std::ofstream(path("two_slots")) << "localhost:2\n";
  Outcome slots = Job(kProgram, training(3, {"--hosts", path("two_slots")})).wait();
  EXPECT_EQ(slots.code, 22);
  EXPECT_HAS(slots.err, "two_slots has 2 slots for 4 ranks\n   = help: add hosts, or give them 2 more slots (HOST:SLOTS)\n");
  Outcome direct = Job(kProgram, training(3, {}, false), {.before = mpirun(3)}).wait();
  EXPECT_EQ(direct.code, 22) << direct.err;
  EXPECT_HAS(direct.err, "error[E0614]: the bundle is for 4 ranks, and Open MPI (OMPI_COMM_WORLD_RANK) has started 3\n");
  EXPECT_HAS(direct.err, "   = help: let it start 4, or take a bundle that is compiled for 3 ranks\n");
  EXPECT_EQ(direct.survivors, 0);
}

TEST_F(Faults, AHostThatIsNotKnownIsNamed) {
  std::ofstream(path("unknown_hosts")) << "localhost:2\nno-such-host.invalid:2\n";
  Outcome o = Job(kProgram, training(3, {"--hosts", path("unknown_hosts")})).wait();
  EXPECT_EQ(o.code, 10) << o.err;
  EXPECT_HAS(o.err, "error[E0610]: mpirun has ended with exit code ");
  EXPECT_HAS(o.err, "   = note: they were to run on localhost, no-such-host.invalid: `ssh HOST true` must come back, and nabla-run "
                    "be there\n");
  EXPECT_EQ(o.survivors, 0);
}

// One of them alone has a bundle for other ranks: all say whose is another, and end for the same reason.
TEST_F(Faults, ARankWithABundleOfAnotherSizeIsRefused) {
  compile_digits("dp=2", "of_two");
  std::vector<std::string> args = training(3, {}, false), other = args;
  other[0] = path("of_two.nbundle");
  for (bool first : {false, true}) {
    std::vector<std::string> all = first ? other : args;
    all.insert(all.end(), {":", "-np", first ? "3" : "1", kProgram});
    const std::vector<std::string>& rest = first ? args : other;
    all.insert(all.end(), rest.begin(), rest.end());
    Outcome o = Job(kProgram, all, {.before = mpirun(first ? 1 : 3)}).wait();
    EXPECT_EQ(o.code, 22) << o.err;
    EXPECT_MATCHES(o.err, "rank \\d has bundle [0-9a-f]{16} \\([24] ranks of mesh pod \\(dp=2, tp=\\d\\)\\), "
                          "rank \\d has bundle [0-9a-f]{16} \\([24] ranks of mesh pod \\(dp=2, tp=\\d\\)\\)");
    EXPECT_EQ(o.err.find("E0610"), std::string::npos) << o.err;
    EXPECT_EQ(o.survivors, 0);
  }
}

// F14
TEST_F(Faults, ARankWithAnotherBundleIsRefused) {
  std::vector<std::string> args = training(3, {}, false), other = args;
  other[0] = path("other.nbundle");
  args.insert(args.end(), {":", "-np", "2", kProgram});
  args.insert(args.end(), other.begin(), other.end());
  Outcome o = Job(kProgram, args, {.before = mpirun(2)}).wait();
  EXPECT_EQ(o.code, 22) << o.err;
  EXPECT_MATCHES(o.err,
                 "error\\[E0614\\]: rank \\d has bundle [0-9a-f]{16} \\(4 ranks of mesh pod \\(dp=\\d, tp=\\d\\)\\), "
                 "rank \\d has bundle [0-9a-f]{16} \\(4 ranks of mesh pod \\(dp=\\d, tp=\\d\\)\\)");
  EXPECT_EQ(o.survivors, 0);
}

TEST_F(Faults, ARankThatIsAskedForSomethingElseIsRefused) {
  for (const std::vector<std::string>& more :
       {std::vector<std::string>{"--seed", "7"}, {"--check-messages"}, {"--checkpoint-dir", path("of_one")}, {"--heartbeat", "0.2"},
        {"--trace", path("of_one.json")}, {"--weights", path("clean.safetensors")}}) {
    std::vector<std::string> args = training(3, {}, false), other = training(3, more, false);
    args.insert(args.end(), {":", "-np", "2", kProgram});
    args.insert(args.end(), other.begin(), other.end());
    Outcome o = Job(kProgram, args, {.before = mpirun(2)}).wait();
    EXPECT_EQ(o.code, 22) << o.err;
    EXPECT_MATCHES(o.err, "error\\[E0614\\]: rank \\d was started with " + more[0] + ".*, rank \\d with");
    EXPECT_EQ(o.survivors, 0);
  }
}

// Same names and sizes, one other number: what the ranks would compute together is of no model.
TEST_F(Faults, ARankWithAnotherFileIsRefused) {
  auto whole = format::FileBytes::map(path("clean.safetensors"));
  ASSERT_TRUE(whole.ok());
  std::string bytes(format::as_text((*whole)->bytes()));
  ASSERT_TRUE(format::write_file(path("same.safetensors"), bytes).ok());
  bytes.back() = static_cast<char>(bytes.back() ^ 1);
  ASSERT_TRUE(format::write_file(path("changed.safetensors"), bytes).ok());
  for (const std::string option : {"--weights", "--state"}) {
    auto with = [&](const char* name) {
      std::vector<std::string> args = training(3, {option, path("clean.safetensors")}, false), other = args;
      *(std::find(other.begin(), other.end(), option) + 1) = path(name);
      args.insert(args.end(), {":", "-np", "2", kProgram});
      args.insert(args.end(), other.begin(), other.end());
      return Job(kProgram, args, {.before = mpirun(2)}).wait();
    };
    EXPECT_EQ(with("same.safetensors").code, 0);
    Outcome o = with("changed.safetensors");
    EXPECT_EQ(o.code, 22) << o.err;
    std::string file = option + " of " + std::to_string(bytes.size()) + " bytes \\(content [0-9a-f]{8}\\)";
    EXPECT_MATCHES(o.err, "error\\[E0614\\]: rank \\d was started with " + file + ", rank \\d with " + file +
                              ": every rank needs the same file");
    EXPECT_HAS(o.err, "   = help: start every rank with the same options and the same files\n");
    EXPECT_EQ(o.survivors, 0);
  }
}

// F15
TEST_F(Faults, ADamagedBundleIsRefusedBeforeAnythingStarts) {
  auto whole = format::FileBytes::map(path("m.nbundle"));
  ASSERT_TRUE(whole.ok());
  std::string_view bytes = format::as_text((*whole)->bytes());
  ASSERT_TRUE(format::write_file(path("cut.nbundle"), bytes.substr(0, bytes.size() / 2)).ok());
  std::vector<std::string> args = training(3);
  args[0] = path("cut.nbundle");
  Outcome o = Job(kProgram, args).wait();
  EXPECT_EQ(o.code, 20) << o.err;
  args[0] = path("none.nbundle");
  EXPECT_EQ(Job(kProgram, args).wait().code, 30);
}

// F22
TEST_F(Faults, ASignalStopsAllAfterTheSameRun) {
  Job job(kProgram, training(100000000, {"--save-state", path("stopped.safetensors")}));
  ASSERT_TRUE(job.said("init: done"));
  ::usleep(300'000);
  job.mark();
  ::kill(job.pid(), SIGTERM);
  Outcome o = job.wait();
  EXPECT_EQ(o.code, 50) << o.err;
  EXPECT_HAS(o.err, "error[E0805]: stopped by a signal before the work was done\n   = note: the state is in ");
  EXPECT_LT(o.seconds, 8);
  EXPECT_EQ(o.survivors, 0);
  EXPECT_TRUE(format::FileBytes::map(path("stopped.safetensors")).ok());
  // A rank that computes on comes to no end of a step, and a second signal ends it; one that comes at once is the same request.
  Job twice(kProgram, training(100000000), {.fault = "rank=1 run=25 do=spin"});
  ASSERT_TRUE(twice.said("warning: rank "));
  twice.mark();
  for (int wait_ms : {1, 2500, 0}) ::kill(twice.pid(), SIGTERM), ::usleep(wait_ms * 1000);
  Outcome t = twice.wait();
  EXPECT_EQ(t.code, 50) << t.err;
  EXPECT_HAS(t.err, "error[E0805]: stopped by a second signal, at once\n");
  EXPECT_GT(t.seconds, 2.4);
  EXPECT_LT(t.seconds, 8);
  EXPECT_EQ(t.survivors, 0);
}

// Starter, mpirun, keepers and ranks get it all together, and ranks once more from their keepers.
TEST_F(Faults, ASignalToAllProcessesIsOneRequest) {
  for (int i = 0; i < 8; ++i) {
    std::string dir = "all" + std::to_string(i);
    Job job(kProgram, training(100000000, {"--checkpoint-dir", path(dir)}));
    ASSERT_TRUE(job.said("init: done"));
    ::usleep(100'000 + 30'000 * i);
    job.mark();
    job.signal_all(i % 2 == 0 ? SIGTERM : SIGINT);
    Outcome o = job.wait();
    EXPECT_EQ(o.code, 50) << o.err;
    EXPECT_MATCHES(o.err, "   = note: the checkpoint is [^\n]*/" + dir + "/step-\\d+\n");
    EXPECT_LT(o.seconds, 8);
    EXPECT_EQ(o.survivors, 0);
  }
}

// F24
TEST_F(Faults, RanksEndWithWhoStartedThem) {
  char folder[] = "/tmp/nabla-left-XXXXXX";
  ASSERT_NE(::mkdtemp(folder), nullptr);
  Job job(kProgram, training(100000000), {.environment = {std::string("TMPDIR=") + folder}});
  ASSERT_TRUE(job.said("init: done"));
  std::string variable = variable_of(job.rank(1), "PMIX_NAMESPACE");
  ASSERT_FALSE(variable.empty());
  const std::string segment = fmt::format(".{:x}.", std::strtoul(variable.c_str(), nullptr, 10));
  EXPECT_NE(left_in("/dev/shm", segment), "");
  EXPECT_NE(left_in(folder, "/pid."), "");
  job.mark();
  ::kill(job.pid(), SIGKILL);
  Outcome o = job.wait();
  EXPECT_EQ(o.code, 128 + SIGKILL);
  EXPECT_EQ(o.survivors, 0);
  // Open MPI's own files go, too.
  EXPECT_EQ(left_in("/dev/shm", segment), "");
  EXPECT_EQ(left_in(folder, "/pid."), "");
  std::filesystem::remove_all(folder);
}

// What started the ranks is lost, and they with it: that is no request to stop.
TEST_F(Faults, AnMpirunThatIsKilledIsStartedAgain) {
  Job job(kProgram, training(400000, {"--checkpoint-dir", path("again"), "--max-restarts", "1"}));
  ASSERT_TRUE(job.said("init: done"));
  ::kill(child_of(job.pid()), SIGKILL);
  ASSERT_TRUE(job.said("note: start 2 of at most 2"));
  ASSERT_TRUE(job.said("resumed from "));
  ::kill(job.pid(), SIGTERM);
  Outcome o = job.wait();
  EXPECT_EQ(o.code, 50) << o.err;
  EXPECT_HAS(o.err, "error[E0610]: mpirun ");
  EXPECT_EQ(o.survivors, 0);
}

// mpirun itself would end the ranks where they stand.
TEST_F(Faults, AnMpirunThatIsToldToStopStopsAllInOrder) {
  for (int signal : {SIGTERM, SIGINT}) {
    Job job(kProgram, training(100000000, {"--save-state", path("told.safetensors")}));
    ASSERT_TRUE(job.said("init: done"));
    job.mark();
    ::kill(child_of(job.pid()), signal);
    Outcome o = job.wait();
    EXPECT_EQ(o.code, 50) << o.err;
    EXPECT_HAS(o.err, "note: stopping: mpirun was asked to\n");
    EXPECT_HAS(o.err, "error[E0805]: stopped by a signal before the work was done\n   = note: the state is in ");
    EXPECT_LT(o.seconds, 8);
    EXPECT_EQ(o.survivors, 0);
  }
}

// mpirun drops what it cannot write, and does not say so.
TEST_F(Faults, OutputThatCannotBeWrittenIsAnError) {
  std::vector<std::string> full{"sh", "-c", "exec \"$@\" > /dev/full", "sh"};
  Outcome o = Job(kProgram, training(44, {"--save-state", path("mute.safetensors")}), {.before = full}).wait();
  EXPECT_EQ(o.code, 30) << o.err;
  EXPECT_HAS(o.err, "error[E0803]: cannot write `standard output`: No space left on device\n   = help: free space there");
  same_state("mute.safetensors");
}

/// Two ranks, of which the first prints 1.7 MB.
std::string printing_bundle() {
  const char* text =
      "nabla 1 traced\nmesh pod = {dp=2}\nstate w: f32[20000]\nentry init calls @init {\n  writes w\n}\n"
      "func @body(%h: f32[], %x: f32[]) {\n  debug(%h, %x) {text=\"the sum was {} before {} was added, a line like any other\"}\n"
      "  %y = add(%h, %x)\n  return %y, %h\n}\n"
      "func @init() {\n  %xs = iota() {shape=[20000], axis=0, dtype=f32}\n  %z = reduce_max(%xs) {axes=[0]}\n"
      "  %last, %sums = scan(%z, %xs) {body=@body, consts=0, carries=1, length=[20000]}\n  return %sums\n}\n";
  std::string source = path("printing.nbl"), bundle = path("printing.nbundle");
  EXPECT_TRUE(format::write_file(source, text).ok());
  EXPECT_EQ(std::system(("cli/nablac compile " + source + " --no-library -o " + bundle + " > /dev/null 2> /dev/null").c_str()), 0);
  return bundle;
}

// mpirun ends when its output is taken, which may be long after the ranks have.
TEST_F(Faults, NothingOfTheOutputIsLostToASlowReader) {
  const std::vector<std::string> line{printing_bundle(), "--entry", "init"};
  std::vector<std::string> mpi = line;
  mpi.insert(mpi.end(), {"--engine", "mpi"});
  auto counted = [&](const std::vector<std::string>& args, const std::string& reader) {
    return Job(kProgram, args, {.before = {"bash", "-c", "\"$@\" | (" + reader + " | md5sum); exit ${PIPESTATUS[0]}", "bash"}}).wait();
  };
  Outcome local = counted(line, "cat"), slow = counted(mpi, "(sleep 7; cat)");
  EXPECT_EQ(local.code, 0) << local.err;
  EXPECT_EQ(slow.code, 0) << slow.err;
  EXPECT_EQ(slow.out, local.out);
  EXPECT_EQ(slow.err.find("warning"), std::string::npos) << slow.err;
}

// Nobody reads, and a second signal ends the wait.
TEST_F(Faults, AReaderThatStandsStillKeepsNobodyFromStopping) {
  std::string reader = "mkfifo " + path("ff") + "; sleep 30 < " + path("ff") + " & exec \"$@\" > " + path("ff");
  Job job(kProgram, {printing_bundle(), "--entry", "init", "--engine", "mpi"}, {.before = {"bash", "-c", reader, "bash"}});
  ASSERT_GT(job.rank(1), 0);
  ::sleep(2);
  job.mark();
  for (int wait_ms : {2500, 0}) ::kill(job.pid(), SIGTERM), ::usleep(wait_ms * 1000);
  Outcome o = job.wait();
  // Rank 0 may have been done by then, or may have been waiting for mpirun to take more.
  bool done = o.code == 30;
  EXPECT_TRUE(done || o.code == 50) << o.code << "\n" << o.err;
  EXPECT_HAS(o.err, done ? "error[E0803]: the output of rank 0 was given up: nobody read it before the second signal\n"
                         : "error[E0805]: stopped by a second signal, at once\n");
  EXPECT_LT(o.seconds, 8);
}

TEST_F(Faults, AnErrorOfOneRankIsThatOfAll) {
  Outcome o = Job(kProgram, training(44, {"--state", path("none.safetensors")})).wait();
  EXPECT_EQ(o.code, 30) << o.err;
  EXPECT_HAS(o.err, "error[E0801]: cannot open `");
  EXPECT_HAS(o.err, "   = note: on rank ");
}

TEST_F(Faults, WhatIsNotInstalledIsNamed) {
  Outcome mpirun = Job(kProgram, training(3), {.environment = {"PATH=/nowhere"}}).wait();
  EXPECT_EQ(mpirun.code, 21) << mpirun.err;
  EXPECT_HAS(mpirun.err, "error[E0602]: mpirun cannot be started: No such file or directory\n   = help: install Open MPI 4.1");
  Outcome plugin = Job(kProgram, training(3), {.environment = {"NABLA_PLUGINS=/nowhere"}}).wait();
  EXPECT_NE(plugin.code, 0);
  EXPECT_HAS(plugin.err, "error[E0602]");
  EXPECT_HAS(plugin.err, "libnabla_mpi.so");
  EXPECT_EQ(plugin.survivors, 0);
}

TEST_F(Faults, ReportsThatCannotBeWrittenAreRefusedAtTheStart) {
  for (const char* folder : {"/proc/none", "/dev/null"}) {
    Outcome o = Job(kProgram, train_digits("m", 3, {"--engine", "mpi", "--reports", folder})).wait();
    EXPECT_EQ(o.code, 30) << o.err;
    EXPECT_HAS(o.err, std::string("error[E0803]: --reports: nothing can be written into ") + folder + ": ");
    EXPECT_EQ(o.out.find("init: done"), std::string::npos);
  }
}

// A launcher that starts one process gets what the bundle does without one, and is told.
TEST_F(Faults, OneProcessOfALauncherRunsAllRanksAsThreads) {
  Outcome o = Job(kProgram, training(44, {"--save-state", path("one.safetensors")}, false), {.before = mpirun(1)}).wait();
  EXPECT_EQ(o.code, 0) << o.err;
  EXPECT_HAS(o.err, "note: Open MPI (OMPI_COMM_WORLD_RANK) has started one process, which runs all 4 ranks as threads\n");
  same_state("one.safetensors");
}

TEST_F(Faults, WhatTheRanksOfOneProcessDoNotHaveIsRefused) {
  for (const char* option : {"--np", "--max-restarts", "--heartbeat", "--join-timeout"}) {
    Outcome o = Job(kProgram, training(3, {option, "4", "--checkpoint-dir", path("unused")}, false)).wait();
    EXPECT_EQ(o.code, 2);
    EXPECT_HAS(o.err, std::string("error[E0901]: ") + option +
                          ": this process runs all ranks by itself; several processes need --engine mpi or nccl\n");
  }
  Outcome local = Job(kProgram, training(3, {"--engine", "local"}, false), {.before = mpirun(2)}).wait();
  EXPECT_EQ(local.code, 2) << local.err;
  EXPECT_HAS(local.err, "--engine local runs all ranks in one process, and Open MPI (OMPI_COMM_WORLD_RANK) has started 2\n");
  Outcome torch = Job(kProgram, training(3, {}, false), {.environment = {"RANK=1", "WORLD_SIZE=4", "LOCAL_RANK=1"}}).wait();
  EXPECT_EQ(torch.code, 2) << torch.err;
  EXPECT_HAS(torch.err, "torchrun (RANK) has started 4 processes, which find each other by MPI alone");
}

}  // namespace
}  // namespace nabla::tests
