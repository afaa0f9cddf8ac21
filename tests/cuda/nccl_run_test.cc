// nabla-run with --engine nccl on fake GPUs: processes that it starts, or that launchers have, train to the bits of threads; and every
// way in which a rank breaks ends the others in time (F25 of the fault matrix).
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "runtime/format/file.h"
#include "tests/cuda/fake_gpu.h"
#include "tests/ranks/digits.h"
#include "tests/ranks/expect.h"
#include "tests/ranks/job.h"
#include "tests/ranks/proxy.h"

namespace nabla::tests {
namespace {

using Words = std::vector<std::string>;

const char *const kRun = "cli/nabla-run", *const kFaulty = "tests/ranks/nabla-run-faults";

class Nccl : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    write_digits();
    compile_digits("dp=2", "two", "sm_90a");
    compile_digits("dp=2,tp=2", "four", "sm_90a");
    compile_digits("dp=2", "cpu2", "cpu");
    compile_digits("dp=2,tp=2", "cpu4", "cpu");
    std::string driver = std::filesystem::absolute("tests/cuda/fake_driver/libfake_cuda.so");
    for (const char* name : {"two", "four"}) {
      auto bundle = format::FileBytes::map(path(std::string(name) + ".nbundle"));
      ASSERT_TRUE(bundle.ok());
      Status ready = emulator::use_fake_gpu(std::string(format::as_text((*bundle)->bytes())), driver, {.beside = true});
      ASSERT_TRUE(ready.ok()) << to_string(ready.errors());
    }
  }
  static Job::Options gpus(int count, Words more = {}, const std::string& fault = "") {
    more.push_back("NABLA_FAKE_CUDA_DEVICES=" + std::to_string(count));
    return {.fault = fault, .environment = std::move(more)};
  }
  static Words nccl(Words more = {}) {
    more.insert(more.begin(), {"--engine", "nccl", "--heartbeat", "0.2", "--reports", path("reports")});
    return more;
  }
  static Outcome broken(const Words& environment, const std::string& fault, int64_t steps = 1000000, const Words& more = {}) {
    return Job(kFaulty, train_digits("two", steps, nccl(more)), gpus(2, environment, fault)).wait(60);
  }
  /// The losses of a file of --metrics.
  static std::vector<double> losses(const std::string& name) {
    std::ifstream file(path(name));
    std::vector<double> out;
    for (std::string line; std::getline(file, line);)
      if (nlohmann::json row = nlohmann::json::parse(line); row.contains("loss")) out.push_back(row["loss"]);
    return out;
  }
};

TEST_F(Nccl, ProcessesTrainToTheBitsOfThreadsAndToTheLossesOfCpus) {
  for (auto [name, cpu, count] : {std::tuple{"two", "cpu2", 2}, {"four", "cpu4", 4}}) {
    Outcome threads = Job(kRun, train_digits(name, 3, {"--save-state", path("threads.safetensors")}), gpus(1)).wait(200);
    EXPECT_EQ(threads.code, 0) << threads.err;
    Outcome host = Job(kRun, train_digits(cpu, 3, {"--metrics", path("cpu.jsonl")})).wait(200);
    EXPECT_EQ(host.code, 0) << host.err;
    Words args = nccl({"--np", std::to_string(count), "--save-state", path("nccl.safetensors"), "--metrics", path("nccl.jsonl")});
    Outcome o = Job(kRun, train_digits(name, 3, args), gpus(count)).wait(200);
    EXPECT_EQ(o.code, 0) << o.err;
    EXPECT_HAS(o.err, "in several processes, on Fake GPU\n");
    EXPECT_HAS(o.err, "waited for others: rank 0 ");
    EXPECT_EQ(o.survivors, 0);
    expect_same_file("threads.safetensors", "nccl.safetensors");
    std::vector<double> want = losses("cpu.jsonl"), got = losses("nccl.jsonl");
    ASSERT_EQ(want.size(), 3u);
    ASSERT_EQ(got.size(), 3u);
    for (size_t i = 0; i < want.size(); ++i) EXPECT_NEAR(got[i], want[i], 1e-4 * want[i]);
  }
}

// Ranks of mpirun, which meet by MPI.
TEST_F(Nccl, ProgramsOfCTrainToTheBitsOfThreads) {
  Outcome here = Job("tests/ranks/c_rank", {path("two.nbundle")}, gpus(1)).wait(200);
  EXPECT_EQ(here.code, 0) << here.err;
  EXPECT_HAS(here.out, "loss 2.");
  auto started = [](int ranks, int count) {
    Job::Options options = gpus(count);
    options.before = mpirun(ranks);
    return Job("tests/ranks/c_rank", {path("two.nbundle"), "nccl"}, options).wait(200);
  };
  Outcome there = started(2, 2);
  EXPECT_EQ(there.code, 0) << there.err;
  EXPECT_HAS(there.err, "2 ranks\n");
  EXPECT_EQ(there.out, here.out);
  Outcome shared = started(2, 1);
  EXPECT_EQ(shared.code, 1) << shared.err;
  EXPECT_HAS(shared.err, "2 ranks run on this machine, which has 1 GPU: NCCL wants one for every rank");
  Outcome three = started(3, 3);
  EXPECT_EQ(three.code, 1) << three.err;
  EXPECT_HAS(three.err, "error[E0614]");
}

TEST_F(Nccl, ProgramsOfPythonTrainToTheBitsOfThreads) {
  std::ofstream(path("train.py")) << R"(
import sys, zlib
import numpy as np
import nabla as nb
from nabla import distributed as d
rank = 0
if len(sys.argv) > 2:
    d.init(engine=sys.argv[2], timeout=60)
    rank = d.rank()
    assert d.all_reduce(np.float32([1])).tolist() == [d.world_size()]
    if sys.argv[2] == "nccl":
        try:
            nb.load_bundle(sys.argv[1], engine="mpi")
        except ValueError as e:
            assert 'engine="mpi", and nabla.distributed.init has joined the processes by "nccl"' in str(e), e
bundle = nb.load_bundle(sys.argv[1])
bundle.run("init", seed=np.uint32([1, 2]))
for step in range(3):
    loss = bundle.run("step", x=np.arange(64 * 64).reshape(64, 8, 8).astype(np.uint8) % (7 + step),
                      y=np.arange(64, dtype=np.int32) % 10)["loss"].item()
    if rank == 0:
        print(loss)
for name in bundle.state:
    value = bundle.get_state(name).numpy()
    if rank == 0:
        print(name, zlib.crc32(value.tobytes()))
)";
  auto trained = [](const Words& engine, Job::Options options) {
    options.environment.push_back("PYTHONPATH=frontend/python");
    Words args = {path("train.py"), path("two.nbundle")};
    args.insert(args.end(), engine.begin(), engine.end());
    return Job("/usr/bin/python3", args, options).wait(200);
  };
  Outcome here = trained({}, gpus(1));
  EXPECT_EQ(here.code, 0) << here.err;
  Job::Options two = gpus(2);
  two.before = mpirun(2);
  for (const char* engine : {"nccl", "mpi"}) {
    Outcome there = trained({engine}, two);
    EXPECT_EQ(there.code, 0) << there.err;
    EXPECT_EQ(there.out, here.out) << engine;
  }
}

/// Starts both ranks as a launcher does, rank 1 first. Returns what rank 0 came to.
Outcome launched(const std::function<Words(int)>& environment, const Words& args, const std::string& fault = "") {
  const char* program = fault.empty() ? kRun : kFaulty;
  Job second(program, args, {.fault = fault, .environment = environment(1)});
  Job first(program, args, {.fault = fault, .environment = environment(0)});
  Outcome out = first.wait(200), other = second.wait(200);
  EXPECT_EQ(out.code, other.code) << other.err;
  out.err += other.err, out.survivors += other.survivors;
  return out;
}

/// What srun sets for a task of a step of two tasks on one node.
Words srun(int rank) {
  std::string r = std::to_string(rank);
  return {"SLURM_JOB_ID=4711", "SLURM_JOBID=4711", "SLURM_STEP_ID=0", "SLURM_STEPID=0", "SLURM_PROCID=" + r, "SLURM_LOCALID=" + r,
          "SLURM_NODEID=0", "SLURM_GTIDS=0,1", "SLURM_NTASKS=2", "SLURM_NPROCS=2", "SLURM_NNODES=1", "SLURM_JOB_NUM_NODES=1",
          "SLURM_STEP_NUM_TASKS=2", "SLURM_STEP_NUM_NODES=1", "SLURM_TASKS_PER_NODE=2", "SLURM_STEP_TASKS_PER_NODE=2",
          "SLURM_JOB_NODELIST=localhost", "SLURM_STEP_NODELIST=localhost", "SLURMD_NODENAME=localhost",
          "SLURM_LAUNCH_NODE_IPADDR=127.0.0.1", "SLURM_CPUS_ON_NODE=2", "NABLA_FAKE_CUDA_DEVICES=2"};
}

// torchrun, whose own store has the port that it names; Kubernetes; and by hand.
TEST_F(Nccl, RanksOfOtherLaunchersMeetAtTheirRendezvous) {
  Outcome threads = Job(kRun, train_digits("two", 2, {"--save-state", path("threads2.safetensors")}), gpus(1)).wait(200);
  EXPECT_EQ(threads.code, 0) << threads.err;
  auto text = [](int n) { return std::to_string(n); };
  int port = free_port();
  std::vector<std::function<Words(int)>> launchers = {
      [&](int r) {
        return Words{"RANK=" + text(r), "WORLD_SIZE=2", "LOCAL_RANK=" + text(r), "LOCAL_WORLD_SIZE=2", "MASTER_ADDR=127.0.0.1",
                     "MASTER_PORT=" + text(port - 1), "TORCHELASTIC_USE_AGENT_STORE=True"};
      },
      [&](int r) {
        return Words{"JOB_COMPLETION_INDEX=" + text(r), "NABLA_WORLD_SIZE=2", "NABLA_RENDEZVOUS=127.0.0.1:" + text(port),
                     "CUDA_VISIBLE_DEVICES=" + text(r)};
      },
      [&](int r) {
        return Words{"NABLA_RANK=" + text(r), "NABLA_WORLD_SIZE=2", "NABLA_LOCAL_RANK=" + text(r),
                     "NABLA_RENDEZVOUS=127.0.0.1:" + text(port)};
      }};
  for (const auto& of : launchers) {
    auto all = [&](int r) {
      Words out = of(r);
      out.insert(out.end(), {"NABLA_TOKEN=a secret of the job", "NABLA_FAKE_CUDA_DEVICES=2"});
      return out;
    };
    std::filesystem::remove(path("launched.safetensors"));
    Outcome o = launched(all, train_digits("two", 2, nccl({"--save-state", path("launched.safetensors")})));
    EXPECT_EQ(o.code, 0) << of(0)[0] << "\n" << o.err;
    expect_same_file("threads2.safetensors", "launched.safetensors");
  }
}

// A batch script says where the first node is, in its own words or in those of torchrun, and requeues a job whose rank has died.
TEST_F(Nccl, TasksOfSrunMeetAndAreGoneOnWith) {
  Outcome threads = Job(kRun, train_digits("two", 8, {"--save-state", path("threads8.safetensors")}), gpus(1)).wait(200);
  EXPECT_EQ(threads.code, 0) << threads.err;
  std::string port = std::to_string(free_port());
  auto tasks = [&](Words where) {
    where.push_back("NABLA_TOKEN=a secret of the job");
    return [where](int rank) {
      Words out = srun(rank);
      out.insert(out.end(), where.begin(), where.end());
      return out;
    };
  };
  auto own = tasks({"NABLA_RENDEZVOUS=127.0.0.1:" + port});
  Outcome o = launched(own, train_digits("two", 8, nccl({"--save-state", path("srun.safetensors")})));
  EXPECT_EQ(o.code, 0) << o.err;
  expect_same_file("threads8.safetensors", "srun.safetensors");

  Words line = nccl({"--checkpoint-dir", path("requeued"), "--checkpoint-every", "2", "--resume", "latest", "--save-state",
                     path("requeued.safetensors")});
  auto torch = tasks({"MASTER_ADDR=127.0.0.1", "MASTER_PORT=" + port});
  Outcome dies = launched(torch, train_digits("two", 8, line), "rank=1 run=7 do=kill");
  EXPECT_EQ(dies.code, 10) << dies.err;
  EXPECT_HAS(dies.err, "rank 0: error[E0610]: rank 1 (process ");
  EXPECT_HAS(dies.err, "was killed by signal 9 (Killed) in run 6");
  EXPECT_LT(dies.seconds, 15);
  EXPECT_EQ(dies.survivors, 0);
  Outcome again = launched(tasks({"MASTER_ADDR=127.0.0.1", "MASTER_PORT=" + port, "SLURM_RESTART_COUNT=1"}), train_digits("two", 8, line));
  EXPECT_EQ(again.code, 0) << again.err;
  EXPECT_MATCHES(again.err, "resumed from .*/requeued/step-0000000[24]\n");  // the one that rank 1 died beside may not be done
  expect_same_file("threads8.safetensors", "requeued.safetensors");
}

// F13: srun has started more tasks than the bundle has ranks.
TEST_F(Nccl, AStepOfSrunOfAnotherSizeIsRefused) {
  Words environment = srun(0);
  environment.insert(environment.end(), {"SLURM_NTASKS=3", "NABLA_RENDEZVOUS=127.0.0.1:1", "NABLA_TOKEN=a secret of the job"});
  Outcome o = Job(kRun, train_digits("two", 1, nccl()), {.environment = environment}).wait(60);
  EXPECT_EQ(o.code, 22) << o.err;
  EXPECT_HAS(o.err, "error[E0614]: the bundle is for 2 ranks, and SLURM (SLURM_PROCID) has started 3\n");
}

// F23 on GPUs.
TEST_F(Nccl, RanksAreStartedAgainFromTheLastCheckpoint) {
  Outcome threads = Job(kRun, train_digits("two", 10, {"--save-state", path("threads10.safetensors")}), gpus(1)).wait(200);
  EXPECT_EQ(threads.code, 0) << threads.err;
  auto line = [](const std::string& dir, const std::string& restarts) {
    return Words{"--checkpoint-dir", path(dir), "--checkpoint-every", "2", "--max-restarts", restarts, "--save-state",
                 path("again.safetensors")};
  };
  const std::string twice = "rank=1 run=6 do=kill;rank=0 run=5 epoch=1 do=kill";
  Outcome o = broken({}, twice, 10, line("again", "2"));
  EXPECT_EQ(o.code, 0) << o.err;
  EXPECT_HAS(o.err, "rank 0: error[E0610]: rank 1 (process ");
  EXPECT_HAS(o.err, "rank 1: error[E0610]: rank 0 (process ");
  for (const char* start : {"2", "3"})
    EXPECT_MATCHES(o.err, std::string("note: start ") + start + " of at most 3\n[^\n]*\nresumed from .*/again/step-0000000[2468]\n");
  EXPECT_EQ(o.survivors, 0);
  expect_same_file("threads10.safetensors", "again.safetensors");
  for (const auto& entry : std::filesystem::directory_iterator(path("again"))) EXPECT_NE(entry.path().extension(), ".tmp");
  // An exchange that hangs is worth another start, as a rank that dies is; and one more than allowed is none.
  Outcome hangs = broken({"NABLA_FAKE_NCCL_FAULT=hang:1:4"}, "", 10, [&] {
    Words out = line("hangs", "1");
    out.insert(out.end(), {"--comm-timeout", "2"});
    return out;
  }());
  EXPECT_EQ(hangs.code, 10) << hangs.err;
  EXPECT_HAS(hangs.err, "note: start 2 of at most 2\n");
  EXPECT_HAS(hangs.err, "note: all 1 restarts are used up\n");
  EXPECT_EQ(hangs.survivors, 0);
}

/// Two ranks of torchrun on this machine.
std::function<Words(int)> torchrun() {
  std::string port = std::to_string(free_port());
  return [port](int rank) {
    std::string r = std::to_string(rank);
    return Words{"RANK=" + r, "WORLD_SIZE=2", "LOCAL_RANK=" + r, "LOCAL_WORLD_SIZE=2", "MASTER_ADDR=127.0.0.1", "MASTER_PORT=" + port,
                 "NABLA_TOKEN=a secret of the job", "NABLA_FAKE_CUDA_DEVICES=2"};
  };
}

// A pod that was started twice, and one of another job with the same secret at the same place.
TEST_F(Nccl, AProcessThatComesLateIsRefusedAlone) {
  auto of = torchrun();
  Words args = train_digits("two", 1000000, nccl());
  Job first(kRun, args, {.environment = of(0)}), second(kRun, args, {.environment = of(1)});
  ASSERT_TRUE(first.said("in several processes, on Fake GPU\n"));
  Outcome twice = Job(kRun, args, {.environment = of(1)}).wait(30);
  EXPECT_EQ(twice.code, 22) << twice.err;
  EXPECT_HAS(twice.err, "rank 1: error[E0614]: rank 1 was started twice: process ");
  Words environment = of(1);
  for (std::string& word : environment)
    if (word == "WORLD_SIZE=2" || word == "LOCAL_WORLD_SIZE=2") word.back() = '4';
  environment.back() = "NABLA_FAKE_CUDA_DEVICES=4";
  Outcome other = Job(kRun, train_digits("four", 1000000, nccl()), {.environment = environment}).wait(30);
  EXPECT_EQ(other.code, 22) << other.err;
  EXPECT_HAS(other.err, "is one of 4 ranks, and 2 were started");
  ASSERT_TRUE(first.said("warning: a connection to the coordinator was closed: "));
  second.signal_all(SIGTERM);
  for (Job* job : {&first, &second}) {
    Outcome o = job->wait(60);
    EXPECT_EQ(o.code, 50) << o.err;
    EXPECT_EQ(o.survivors, 0);
  }
}

TEST_F(Nccl, ARankWithAnotherTokenIsToldSo) {
  auto of = torchrun();
  Words args = train_digits("two", 3, nccl({"--join-timeout", "4"})), environment = of(1);
  *(environment.end() - 2) = "NABLA_TOKEN=a secret of another job";
  Job first(kRun, args, {.environment = of(0)}), second(kRun, args, {.environment = environment});
  Outcome told = second.wait(30), waits = first.wait(30);
  EXPECT_EQ(told.code, 22) << told.err;
  EXPECT_HAS(told.err, "rank 1: error[E0614]: the coordinator does not take the token of rank 1, which is another than its own\n");
  EXPECT_EQ(waits.code, 22) << waits.err;
  EXPECT_HAS(waits.err, "   = note: rank 1 has come with another token: is NABLA_TOKEN the same for all?\n");
}

// To keepers and ranks together, and to what started them.
TEST_F(Nccl, ASignalToAllProcessesIsOneRequest) {
  for (int i = 0; i < 8; ++i) {
    std::string dir = "stopped" + std::to_string(i);
    int signal = i % 2 == 0 ? SIGTERM : SIGINT;
    Words args = train_digits("two", 1000000, nccl({"--checkpoint-dir", path(dir)}));
    auto of = torchrun();
    std::vector<std::unique_ptr<Job>> jobs;
    if (i < 4) jobs.push_back(std::make_unique<Job>(kRun, args, gpus(2)));
    for (int rank = 0; i >= 4 && rank < 2; ++rank) jobs.push_back(std::make_unique<Job>(kRun, args, Job::Options{.environment = of(rank)}));
    ASSERT_TRUE(jobs[0]->said("in several processes, on Fake GPU\n"));
    ::usleep(500'000);
    for (const auto& job : jobs) job->signal_all(signal);
    for (const auto& job : jobs) {
      Outcome o = job->wait(60);
      EXPECT_EQ(o.code, 50) << o.err;
      if (job == jobs[0]) {
        EXPECT_MATCHES(o.err, "   = note: the checkpoint is [^\n]*/" + dir + "/step-\\d+\n");
      }
      EXPECT_EQ(o.survivors, 0);
    }
  }
}

// Keepers pass on what their launcher sends, and a second one ends a rank that comes to no end of a step.
TEST_F(Nccl, ASecondSignalEndsRanksThatDoNotStop) {
  auto of = torchrun();
  std::vector<std::unique_ptr<Job>> jobs;
  for (int rank = 0; rank < 2; ++rank)
    jobs.push_back(std::make_unique<Job>(kFaulty, train_digits("two", 1000000, nccl({"--comm-timeout", "20"})),
                                         Job::Options{.fault = "rank=1 run=9 do=spin", .environment = of(rank)}));
  ASSERT_TRUE(jobs[0]->said("warning: rank 0 waits since "));
  for (int wait_ms : {1, 2500, 0}) {
    for (const auto& job : jobs) ::kill(job->pid(), SIGTERM);
    ::usleep(wait_ms * 1000);
  }
  for (const auto& job : jobs) job->mark();
  for (const auto& job : jobs) {
    Outcome o = job->wait(60);
    EXPECT_EQ(o.code, 10) << o.err;
    EXPECT_LT(o.seconds, 8);
    EXPECT_EQ(o.survivors, 0);
  }
}

TEST_F(Nccl, RanksOfMpirunMeetByMpi) {
  Outcome threads = Job(kRun, train_digits("two", 2, {"--save-state", path("threads3.safetensors")}), gpus(1)).wait(200);
  EXPECT_EQ(threads.code, 0) << threads.err;
  Job::Options options = gpus(2);
  options.before = mpirun(2);
  Outcome o = Job(kRun, train_digits("two", 2, nccl({"--save-state", path("mpirun.safetensors")})), options).wait(200);
  EXPECT_EQ(o.code, 0) << o.err;
  expect_same_file("threads3.safetensors", "mpirun.safetensors");
}

TEST_F(Nccl, WhatCannotRunIsRefusedWithWhatToDo) {
  auto fails = [](const std::string& name, const Words& more, const Job::Options& options, int code, const Words& texts) {
    Outcome o = Job(kRun, train_digits(name, 1, nccl(more)), options).wait(60);
    EXPECT_EQ(o.code, code) << o.err;
    EXPECT_EQ(o.survivors, 0);
    for (const std::string& text : texts) EXPECT_HAS(o.err, text);
  };
  const Words no_code = {"error[E0901]: --engine nccl moves values from GPU to GPU, and ", " is for CPUs alone: cpu:x86-64",
                         "compile it for GPUs (nablac compile --target sm_90a), or run it with --engine mpi"};
  fails("cpu2", {}, gpus(2), 2, no_code);
  fails("cpu2", {}, gpus(2, {"NABLA_NCCL=/nowhere.so"}), 2, no_code);
  compile_digits("dp=2", "both", "sm_90a,cpu");
  fails("both", {"--target", "cpu"}, gpus(2), 2,
        {"error[E0901]: the ranks exchange values from GPU to GPU, and ", " runs its program for cpu:x86-64",
         "compile it for GPUs (--target sm_90a), or run it with --engine mpi"});
  fails("two", {}, gpus(1), 21, {"error[E0605]: 2 ranks run on this machine, which has 1 GPU: NCCL wants one for every rank",
        "--engine local runs several ranks on one GPU, and --engine mpi exchanges through the host's memory"});
  fails("two", {}, gpus(1, {"CUDA_VISIBLE_DEVICES=0"}), 21,
        {"error[E0605]: ", "Duplicate GPU detected : rank 0 and rank 1 both on CUDA device", "--engine local runs several ranks on one"});
  fails("two", {"--np", "4"}, gpus(4), 22, {" is for 2 ranks, and --np says 4"});
  fails("two", {"--check-messages"}, gpus(2), 2, {"--check-messages: what goes from GPU to GPU by --engine nccl has no checksums"});
  std::ofstream(path("hosts")) << "localhost:2\n";
  fails("two", {"--hosts", path("hosts")}, gpus(2), 2, {"--hosts: --engine nccl starts processes on this machine alone"});
  fails("two", {}, gpus(2, {"NABLA_FAKE_NCCL_VERSION=21705"}), 21,
        {"error[E0602]: NCCL cannot be used: it is version 2.17.5; needed is 2.18",
         "   = help: install NCCL (pip install nvidia-nccl-cu13), or set NABLA_NCCL to its file; --engine mpi needs none\n"});
  fails("two", {}, gpus(2, {"NABLA_NCCL=/nowhere.so"}), 21, {"error[E0602]: NCCL cannot be used: /nowhere.so: cannot open"});
  Words torch{"RANK=0", "WORLD_SIZE=2", "LOCAL_RANK=0"};
  fails("two", {}, gpus(2, torch), 2,
        {"torchrun (RANK) has started 2 processes and does not say where rank 0 is", "help: give --rendezvous HOST:PORT"});
  torch.insert(torch.end(), {"MASTER_ADDR=127.0.0.1", "MASTER_PORT=4000"});
  fails("two", {}, gpus(2, torch), 2, {"the ranks meet at 127.0.0.1:4000, where nobody else may come, and NABLA_TOKEN is not set",
        "help: set NABLA_TOKEN to a secret"});
  torch.push_back("NABLA_TOKEN=" + std::string(80, 'x'));
  fails("two", {}, gpus(2, torch), 2, {"error[E0901]: NABLA_TOKEN has 80 characters: at most 63 fit\n"});
  torch.back() = "NABLA_TOKEN=a secret of the job";
  fails("two", {"--max-restarts", "2", "--checkpoint-dir", path("unused")}, gpus(2, torch), 2,
        {"error[E0901]: --max-restarts: torchrun (RANK) has started the 2 ranks, and nabla-run starts none beside them\n",
         "   = help: let it start them again, with --resume latest\n"});
  fails("two", {"--np", "4"}, gpus(2, torch), 2, {"error[E0901]: --np 4: torchrun (RANK) has started the 2 ranks"});
  fails("two", {"--rendezvous", "127.0.0.1:0"}, gpus(2, torch), 2,
        {"error[E0901]: ranks cannot meet at 127.0.0.1:0: a free port is one that nobody knows\n"});
  fails("two", {"--rendezvous", "garbage"}, gpus(2, torch), 2, {"error[E0901]: `garbage` is no address: HOST:PORT is one\n"});
}

// ---- F25

TEST_F(Nccl, ARankThatIsKilledEndsTheOthers) {
  for (const char* fault : {"rank=1 run=2 do=kill", "rank=0 run=9 do=kill", "rank=1 run=12 do=kill"}) {
    Outcome o = broken({}, fault);
    EXPECT_EQ(o.code, 10) << fault << "\n" << o.err;
    std::string dead(1, fault[5]), other = dead == "0" ? "1" : "0";
    EXPECT_HAS(o.err, "rank " + other + ": error[E0610]: rank " + dead + " (process ");
    EXPECT_HAS(o.err, "was killed by signal 9 (Killed) in run ");
    EXPECT_LT(o.seconds, 15) << fault;
    EXPECT_EQ(o.survivors, 0) << fault;
  }
  // Nothing is left that keeps the next job from running.
  Outcome after = Job(kRun, train_digits("two", 1, nccl()), gpus(2)).wait(60);
  EXPECT_EQ(after.code, 0) << after.err;
}

// F12: each of both ends says what it has lost. What rank 1 says last comes over a connection of its own, unless rank 0 ends before.
TEST_F(Nccl, AConnectionToTheCoordinatorThatIsResetEndsAll) {
  int port = free_port();
  Proxy proxy(port);
  auto task = [&](int rank, int at) {
    Words out = srun(rank);
    out.insert(out.end(), {"NABLA_RENDEZVOUS=127.0.0.1:" + std::to_string(at), "NABLA_TOKEN=a secret of the job"});
    return out;
  };
  Words args = train_digits("two", 1000000, nccl());
  Job first(kRun, args, {.environment = task(0, port)}), second(kRun, args, {.environment = task(1, proxy.port())});
  ASSERT_TRUE(first.said("in several processes, on Fake GPU\n"));
  ::usleep(600'000);
  first.mark(), second.mark();
  proxy.reset();
  Outcome lost = second.wait(60), told = first.wait(60);
  EXPECT_EQ(lost.code, 12) << lost.err;
  // Where CPUs are few, it is ended before it has looked.
  EXPECT_MATCHES(lost.err, "rank 1: (error\\[E0612\\]: rank 1 has lost the coordinator at 127\\.0\\.0\\.1:" + std::to_string(proxy.port()) +
                               ": Connection reset by peer|E0612: it is ended where it stands)\n");
  EXPECT_EQ(told.code, 10) << told.err;
  EXPECT_MATCHES(told.err, "rank 0: error\\[E0610\\]: rank 1 \\(process \\d+ on [^)]+\\) (is gone in run \\d+.*: its connection has ended: "
                           "Connection reset by peer|ended with exit code 12 in run \\d+)");
  for (const Outcome* o : {&lost, &told}) {
    EXPECT_LT(o->seconds, 10);
    EXPECT_EQ(o->survivors, 0);
  }
}

TEST_F(Nccl, AnErrorOfNcclEndsAllRanks) {
  Outcome o = broken({"NABLA_FAKE_NCCL_FAULT=async:1:25"}, "");
  EXPECT_EQ(o.code, 10) << o.err;
  EXPECT_MATCHES(o.err, "rank 0: error\\[E0610\\]: rank 1 waits in all_reduce of \\d+ bytes of group [^ ]+ \\(ranks 0, 1\\), and NCCL "
                        "2\\.28\\.9 says: remote process exited or there was a network error \\(6\\)");
  EXPECT_LT(o.seconds, 15);
  EXPECT_EQ(o.survivors, 0);
}

// The coordinator sees which exchange the GPUs are at, and since when: both have come to it.
TEST_F(Nccl, AnExchangeThatHangsIsNamedAtTheDeadline) {
  Outcome o = broken({"NABLA_FAKE_NCCL_FAULT=hang:1:25"}, "", 1000000, {"--comm-timeout", "2"});
  EXPECT_EQ(o.code, 10) << o.err;
  EXPECT_MATCHES(o.err, "error\\[E0615\\]: all ranks wait, and what they send each other does not come: rank \\d waits since "
                        "\\d+\\.\\d s in run \\d+, at exchange \\d+: all_reduce over [^ ]+ of `[^`]+`");
  EXPECT_HAS(o.err, "   = help: look at the network between them; --comm-timeout lets them wait longer\n");
  EXPECT_LT(o.seconds, 20);
  EXPECT_EQ(o.survivors, 0);
  Outcome told = Job(kRun, {"--postmortem", path("reports")}).wait();
  EXPECT_EQ(told.code, 0) << told.err;
  EXPECT_MATCHES(told.out, "rank 0 waited \\d+\\.\\d+ s in run \\d+ for exchange \\d+: all_reduce over ");
}

// Two seconds are the ten heartbeats that ranks have to end.
TEST_F(Nccl, AnAbortThatHangsIsEndedHard) {
  Outcome o = broken({"NABLA_FAKE_NCCL_FAULT=abort:0"}, "rank=1 run=9 do=kill");
  EXPECT_EQ(o.code, 10) << o.err;
  EXPECT_HAS(o.err, "rank 0: E0610: it is ended where it stands\n");
  EXPECT_LT(o.seconds, 20);
  EXPECT_EQ(o.survivors, 0);
}

}  // namespace
}  // namespace nabla::tests
