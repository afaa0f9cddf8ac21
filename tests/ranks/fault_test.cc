// What goes wrong with a rank of several processes, and what all others say and do about it: the fault matrix of
// docs/ranks.md. Every test asserts the text, the exit code, the time, and that no process is left.
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>

#include "runtime/base/text.h"
#include "runtime/format/file.h"
#include "tests/nightly.h"
#include "tests/ranks/faults.h"

namespace nabla::tests {
namespace {

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

// One descriptor is free, with which the program is loaded: those that the test's own process left open are closed.
TEST_F(Faults, ALimitOfDescriptorsIsNamed) {
  const std::string limited = "exec 3>&- 4>&- 5>&- 6>&- 7>&- 8>&- 9>&-; ulimit -n 4; exec \"$0\" \"$@\"";
  std::vector<std::string> args{"-c", limited, "cli/nabla-run"};
  for (const std::string& arg : training(3)) args.push_back(arg);
  Outcome starter = Job("/bin/sh", args).wait();
  EXPECT_EQ(starter.code, 40) << starter.err;
  EXPECT_HAS(starter.err, "cannot be had: Too many open files: the limit is 4 for a process (ulimit -n)\n");
  args.resize(3);
  for (const std::string& arg : training(3, {}, false)) args.push_back(arg);
  Outcome ranks = Job("/bin/sh", args, {.before = mpirun(4)}).wait();
  EXPECT_NE(ranks.code, 0);
  EXPECT_HAS(ranks.err, "error[E0804]: a pipe to the rank cannot be had: Too many open files: the limit is 4 for a process (ulimit -n)\n");
  for (const Outcome* o : {&starter, &ranks}) {
    EXPECT_EQ(o->err.find("internal check"), std::string::npos) << o->err;
    EXPECT_EQ(o->survivors, 0);
  }
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
  for (int send = 1; send <= 20; send += is_nightly() ? 1 : 4) {
    Outcome o = run("rank=2 run=12 do=kill send=" + std::to_string(send), 300);
    EXPECT_EQ(o.code, 10) << send << "\n" << o.err;
    EXPECT_MATCHES(o.err,
                 "rank 2 \\(process \\d+ on [^)]+\\) was killed by signal 9 \\(Killed\\) in run 1\\d, at exchange "
                 "\\d+: all_reduce over (dp|tp)");
    EXPECT_EQ(o.survivors, 0) << send;
  }
}

// F2: who started the job under mpirun is coordinated by the keeper of rank 0. Nobody waits for one that cannot hear.
TEST_F(Faults, RanksWithoutTheirCoordinatorEnd) {
  for (int signal : {SIGKILL, SIGSTOP}) {
    Job job(kProgram, training(1000000, {"--heartbeat", "0.2"}, false), {.before = mpirun(4)});
    ASSERT_TRUE(job.said("init: done"));
    pid_t keeper = job.keeper(0);
    ASSERT_GT(keeper, 0);
    job.mark();
    ::kill(keeper, signal);
    Outcome o = job.wait();
    EXPECT_NE(o.code, 0);
    EXPECT_LT(o.seconds, 8);
    // mpirun ends all of them at once where one is killed, maybe before another can say a word.
    EXPECT_TRUE(signal == SIGKILL || o.err.find("error[E0612]: ") != std::string::npos) << o.err;
    EXPECT_EQ(o.survivors, 0);
  }
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
                 "warning: rank \\d waits since 0\\.\\d s in run \\d+ for exchange \\d+: all_reduce.*; ranks? [0-9, ]*1[0-9, ]* "
                 "ha(s|ve) not come");
  same_state("pause.safetensors");
  Outcome slow = run("rank=2 do=slow run=0", 44, {"--save-state", path("slow.safetensors")});
  EXPECT_EQ(slow.code, 0) << slow.err;
  EXPECT_MATCHES(slow.err, "warning: rank 2 on [^ ]+ is slow: in 2\\.0 s it waited for others \\d+ % of the time, and every other rank "
                           "\\d+ % or more\n");
  EXPECT_HAS(slow.err, "; rank 2 was slowest\n");
  same_state("slow.safetensors");
}

// F6
TEST_F(Faults, ARankThatGoesOnAfterARestartHasNoPartInIt) {
  Job job(kProgram, training(44, {"--save-state", path("restarted.safetensors"), "--max-restarts", "1", "--checkpoint-dir", path("stale"),
                                  "--checkpoint-every", "10"}), {.fault = "rank=1 run=20 do=stop"});
  Outcome o = job.wait();
  EXPECT_EQ(o.code, 0) << o.err;
  EXPECT_HAS(o.err, "error[E0610]: rank 1 ");
  EXPECT_HAS(o.err, "note: start 2 of at most 2\n");
  EXPECT_EQ(o.survivors, 0);
  same_state("restarted.safetensors");
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

// One of them alone has a bundle for other ranks: all say whose is another, and end for the same reason.
TEST_F(Faults, ARankWithABundleOfAnotherSizeIsRefused) {
  compile_digits("dp=2", "of_two");
  std::vector<std::string> args = training(3, {}, false), other = args;
  other[0] = path("of_two.nbundle");
  for (bool first : {false, true}) {
    std::vector<std::string> all = first ? beside_own(other, 3, args) : beside_own(args, 1, other);
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
  Outcome o = Job(kProgram, beside_own(args, 2, other), {.before = mpirun(2)}).wait();
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
    Outcome o = Job(kProgram, beside_own(training(3, {}, false), 2, training(3, more, false)), {.before = mpirun(2)}).wait();
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
      return Job(kProgram, beside_own(args, 2, other), {.before = mpirun(2)}).wait();
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
  for (int i = 0; i < 8; i += is_nightly() ? 1 : 3) {
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

TEST_F(Faults, AnErrorOfOneRankIsThatOfAll) {
  Outcome o = Job(kProgram, training(44, {"--state", path("none.safetensors")})).wait();
  EXPECT_EQ(o.code, 30) << o.err;
  EXPECT_HAS(o.err, "error[E0801]: cannot open `");
  EXPECT_HAS(o.err, "   = note: on rank ");
}

TEST_F(Faults, ReportsThatCannotBeWrittenAreRefusedAtTheStart) {
  for (const char* folder : {"/proc/none", "/dev/null"}) {
    Outcome o = Job(kProgram, train_digits("m", 3, {"--engine", "mpi", "--reports", folder})).wait();
    EXPECT_EQ(o.code, 30) << o.err;
    EXPECT_HAS(o.err, std::string("error[E0803]: --reports: nothing can be written into ") + folder + ": ");
    EXPECT_EQ(o.out.find("init: done"), std::string::npos);
  }
}

}  // namespace
}  // namespace nabla::tests
