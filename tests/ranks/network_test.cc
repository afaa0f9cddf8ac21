// Ranks on two machines, which are network namespaces: cut off, slow, gone. Needs root; says so where it may not.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "tests/ranks/digits.h"
#include "tests/ranks/expect.h"
#include "tests/ranks/job.h"
#include "tests/ranks/network.h"

namespace nabla::tests {
namespace {

const char* const kNoReset = "this kernel resets no connections for `ss -K`";

class TwoMachines : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    write_digits();
    compile_digits("dp=2,tp=2", "n");
  }
  void SetUp() override {
    if (!network_.problem().empty()) GTEST_SKIP() << network_.problem();
  }
  std::vector<std::string> spread(int steps, const std::string& heartbeat, const std::string& state = "unused.safetensors") {
    return train_digits("n", steps, {"--engine", "mpi", "--hosts", network_.hosts_file(2), "--heartbeat", heartbeat,
                                     "--save-state", path(state)});
  }
  Job::Options on_front() const { return {.before = network_.front(), .environment = network_.environment()}; }
  static void one_machine(int steps, const std::string& state) {
    Outcome o = Job("cli/nabla-run", train_digits("n", steps, {"--save-state", path(state)})).wait();
    ASSERT_EQ(o.code, 0) << o.err;
  }

  Network network_{2};
};

TEST_F(TwoMachines, TrainToTheBitsOfOne) {
  one_machine(60, "one.safetensors");
  Outcome o = Job("cli/nabla-run", spread(60, "1", "two.safetensors"), on_front()).wait();
  EXPECT_EQ(o.code, 0) << o.err;
  expect_same_file("one.safetensors", "two.safetensors");
}

// F9
TEST_F(TwoMachines, ASlowLinkIsWaitedFor) {
  one_machine(60, "one.safetensors");
  network_.limit(2, "8mbit");
  Outcome slow = Job("cli/nabla-run", spread(60, "0.5", "slow.safetensors"), on_front()).wait();
  EXPECT_EQ(slow.code, 0) << slow.err;
  expect_same_file("one.safetensors", "slow.safetensors");
}

// F11
TEST_F(TwoMachines, AnInterruptedLinkIsWaitedFor) {
  one_machine(1500, "long.safetensors");
  Job heals("cli/nabla-run", spread(1500, "1", "healed.safetensors"), on_front());
  ASSERT_TRUE(heals.said("step: step "));
  network_.link(2, false);
  ::usleep(1'500'000);
  network_.link(2, true);
  Outcome healed = heals.wait(90);
  EXPECT_EQ(healed.code, 0) << healed.err;
  expect_same_file("long.safetensors", "healed.safetensors");
}

/// The steps of which a folder has checkpoints that were committed.
std::vector<int64_t> committed(const std::string& dir) {
  std::vector<int64_t> out;
  for (const auto& entry : std::filesystem::directory_iterator(dir)) {
    std::string name = entry.path().filename();
    if (name.starts_with("step-") && !name.ends_with(".tmp")) out.push_back(std::stoll(name.substr(5)));
  }
  std::sort(out.begin(), out.end());
  return out;
}

// F10: the machine that is cut off ends its ranks by itself; the others name one of them. At most the checkpoint that was being written
// is still committed, and a new run goes on from the newest.
TEST_F(TwoMachines, RanksThatAreCutOffEnd) {
  const std::string dir = path("cut");
  std::vector<std::string> args = spread(100000000, "0.2");
  args.insert(args.begin() + 1, {"--checkpoint-dir", dir, "--checkpoint-every", "20", "--checkpoint-keep", "1000000"});
  Job job("cli/nabla-run", args, on_front());
  ASSERT_TRUE(job.said("init: done"));
  for (int i = 0; i < 2000 && (!std::filesystem::exists(dir) || committed(dir).size() < 2); ++i) ::usleep(10'000);
  ::usleep(300'000);  // a heartbeat of every rank
  job.mark();
  network_.link(2, false);
  const int64_t before = committed(dir).back();
  Outcome o = job.wait(40, 15);  // MPI's own daemon notices last
  EXPECT_EQ(o.code, 10) << o.err;
  EXPECT_MATCHES(o.err, "error\\[E0610\\]: rank [23] \\(process \\d+ on nb2\\) is unresponsive: nothing was heard of it for "
                        "\\d\\.\\d s in run \\d+");
  EXPECT_LT(o.seconds, 15);
  EXPECT_EQ(o.survivors, 0);
  const std::vector<int64_t> steps = committed(dir);
  EXPECT_LE(std::count_if(steps.begin(), steps.end(), [&](int64_t step) { return step > before; }), 1);
  Outcome rest = Job("cli/nabla-run", train_digits("n", steps.back() + 3, {"--checkpoint-dir", dir, "--resume", "latest"})).wait();
  EXPECT_EQ(rest.code, 0) << rest.err;
  EXPECT_HAS(rest.err, "resumed from " + dir + "/step-");
  EXPECT_EQ(rest.err.find("warning"), std::string::npos) << rest.err;
}

// F12. Open MPI makes a broken connection again, and keeps to itself what was lost with it: that does not come, and nobody is late.
TEST_F(TwoMachines, ConnectionsOfRanksThatAreResetEndAll) {
  std::vector<std::string> args = spread(100000000, "0.2");
  args.insert(args.begin() + 1, {"--comm-timeout", "3"});
  Job job("cli/nabla-run", args, on_front());
  ASSERT_TRUE(job.said("init: done"));
  ::usleep(300'000);
  job.mark();
  network_.limit(1, "8mbit");  // so that messages are under way
  if (!network_.reset(1, "dst " + network_.address(2))) GTEST_SKIP() << kNoReset;
  for (int more = 0; more < 10; ++more) ::usleep(100'000), (void)network_.reset(1, "dst " + network_.address(2));
  Outcome o = job.wait();
  EXPECT_EQ(o.code, 10) << o.err;
  for (const char* by : {"rank \\d: ", "\n"})  // mpirun may have ended others before they spoke
    EXPECT_MATCHES(o.err, std::string(by) + "error\\[E061[05]\\]: ");
  EXPECT_MATCHES(o.err, "\nerror\\[E0615\\]: all ranks wait, and what they send each other does not come: rank \\d waits since "
                        "\\d\\.\\d s in run \\d+, at exchange \\d+: all_reduce over dp of |"
                        "\nerror\\[E0610\\]: rank \\d .* ended with exit code ");
  EXPECT_LT(o.seconds, 15);
  EXPECT_EQ(o.survivors, 0);
}

// Ranks that have lost the coordinator end with exit code 12; the others hear of it, or that they are gone.
TEST_F(TwoMachines, ConnectionsToTheCoordinatorThatAreResetEndAll) {
  for (bool at_rank : {false, true}) {
    std::vector<std::string> args = spread(100000000, "0.2");
    args.insert(args.begin() + 1, {"--rendezvous", network_.address(0) + ":4711"});
    Job job("cli/nabla-run", args, on_front());
    ASSERT_TRUE(job.said("init: done"));
    ::usleep(300'000);
    job.mark();
    bool done = at_rank ? network_.reset(2, "dport = 4711") : network_.reset(0, "sport = 4711 dst " + network_.address(2));
    if (!done) GTEST_SKIP() << kNoReset;
    Outcome o = job.wait();
    EXPECT_EQ(o.code, 10) << o.err;
    // Where CPUs are few, a rank that waits for messages is ended before it has looked.
    std::string how = at_rank ? "Software caused connection abort" : "Connection reset by peer";
    // The first rank that ends has mpirun end the others, which may not have spoken by then.
    EXPECT_MATCHES(o.err, "rank [23]: (error\\[E0612\\]: rank [23] has lost the coordinator at 10\\.77\\.0\\.1:4711: " + how +
                              "|E0612: it is ended where it stands)\n");
    for (const char* told : {"rank [01]: ", "\n"})
      EXPECT_MATCHES(o.err, std::string(told) + "error\\[E0610\\]: rank [23] \\(process \\d+ on nb2\\) "
                            "(is gone in run \\d+.*: its connection has ended|ended with exit code 12 in run )");
    EXPECT_LT(o.seconds, 10);
    EXPECT_EQ(o.survivors, 0);
  }
}

TEST_F(TwoMachines, AMachineThatIsGoneIsNamed) {
  Job job("cli/nabla-run", spread(100000000, "0.2"), on_front());
  ASSERT_TRUE(job.said("init: done"));
  ::usleep(300'000);
  job.mark();
  network_.crash(2);
  Outcome o = job.wait();
  EXPECT_EQ(o.code, 10) << o.err;
  EXPECT_MATCHES(o.err, "error\\[E0610\\]: rank [23] \\(process \\d+ on nb2\\)");
  EXPECT_EQ(o.survivors, 0);
}

TEST_F(TwoMachines, AMachineThatCannotBeReachedIsSaid) {
  network_.link(2, false);
  std::vector<std::string> args = spread(10, "0.2");
  args.insert(args.begin() + 1, {"--join-timeout", "4"});
  Outcome o = Job("cli/nabla-run", args, on_front()).wait();
  EXPECT_EQ(o.code, 22) << o.err;
  EXPECT_MATCHES(o.err, "error\\[E0614\\]: rank(s [0-9, ]+and)? \\d of 4 ha(s|ve) not come in 4 s|error\\[E0614\\]: .* not come in 4 s");
  EXPECT_LT(o.seconds, 15);
  EXPECT_EQ(o.survivors, 0);
}

}  // namespace
}  // namespace nabla::tests
