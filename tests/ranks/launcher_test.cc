// What goes wrong around the ranks: with mpirun, before they have met, with what reads their output, and what is left of them.
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>

#include "runtime/base/text.h"
#include "runtime/format/file.h"
#include "tests/ranks/faults.h"

namespace nabla::tests {
namespace {

// Before it has met the others only its keeper knows of it.
TEST_F(Faults, ARankThatIsKilledBeforeItMeetsTheOthersIsNamed) {
  std::vector<std::string> args = beside(training(3, {"--join-timeout", "5"}, false), 1, {"sleep", "100"});
  Job job(kProgram, args, {.before = mpirun(3)});
  pid_t rank = job.connected_rank(2);
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
  Outcome nix = Job(kProgram, beside_own(here, 1, none), {.before = mpirun(3)}).wait();
  EXPECT_EQ(nix.code, 30) << nix.err;
  EXPECT_HAS(nix.err, "rank 3: error[E0801]: ");
  EXPECT_HAS(nix.err, "\n   = help: ");
}

// Before MPI_Init comes back no rank can say or hear a word: keepers look at the time.
TEST_F(Faults, ARankThatNeverComesToMpiIsNotWaitedForForEver) {
  std::vector<std::string> args = beside(training(3, {"--join-timeout", "3"}, false), 1, {"sleep", "100"});
  Outcome missing = Job(kProgram, args, {.before = mpirun(3)}).wait();
  EXPECT_EQ(missing.code, 22) << missing.err;
  EXPECT_MATCHES(missing.err, "error\\[E0614\\]: rank [012] has waited in MPI_Init for 3 s: not all of the 4 processes have come to it\n"
                              "   = help: Open MPI \\(OMPI_COMM_WORLD_RANK\\) starts 4 processes, each of which has to be nabla-run, and "
                              "none may stand still; --join-timeout S lets them wait longer\n");
  EXPECT_LT(missing.seconds, 8);
  EXPECT_EQ(missing.survivors, 0);
  Job stands(kProgram, args, {.before = mpirun(3)});
  pid_t rank = stands.connected_rank(1);
  ASSERT_GT(rank, 0);
  ::kill(rank, SIGSTOP);
  Outcome o = stands.wait();
  EXPECT_EQ(o.code, 22) << o.err;
  EXPECT_HAS(o.err, "error[E0614]: rank 1 stands still since it was stopped (SIGSTOP), before MPI_Init, and the other ranks wait for it "
                    "there\n   = help: let it go on (kill -CONT), or start the job again\n");
  EXPECT_EQ(o.survivors, 0);
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
