// The suite of engines over MPI, on numbers of ranks that fit their CPUs and others.
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "tests/ranks/digits.h"
#include "tests/ranks/job.h"

namespace nabla::tests {
namespace {

class Mpi : public testing::TestWithParam<int> {};

TEST_P(Mpi, KeepsTheContractOfEngines) {
  std::string ranks = std::to_string(GetParam());
  Outcome o = Job("runtime/comm/mpi_conformance", {ranks}, {.before = mpirun(GetParam())}).wait(120);
  EXPECT_EQ(o.code, 0) << o.err;
  EXPECT_EQ(o.out, "ok\n") << o.err;
}

TEST(MpiFromC, IsThatOfOneProcessToTheBit) {
  write_digits();
  compile_digits("dp=2,tp=2", "c");
  Outcome here = Job("tests/ranks/c_rank", {path("c.nbundle")}).wait();
  EXPECT_EQ(here.code, 0) << here.err;
  EXPECT_EQ(here.err, "1 ranks\n");
  Outcome there = Job("tests/ranks/c_rank", {path("c.nbundle"), "mpi"}, {.before = mpirun(4)}).wait();
  EXPECT_EQ(there.code, 0) << there.err;
  EXPECT_NE(there.err.find("4 ranks\n"), std::string::npos) << there.err;  // MPI may have something to say too
  EXPECT_EQ(there.out, here.out);
  EXPECT_NE(here.out.find("loss 2."), std::string::npos) << here.out;
  Outcome three = Job("tests/ranks/c_rank", {path("c.nbundle"), "mpi"}, {.before = mpirun(3)}).wait();
  EXPECT_EQ(three.code, 1) << three.err;
  EXPECT_NE(three.err.find("error[E0614]"), std::string::npos) << three.err;
}

// Processes have a clock each; of those of one machine it is the same, which is found out.
TEST(MpiTrace, HasATrackOfEachRankOnOneClock) {
  write_digits();
  compile_digits("dp=2,tp=2", "t");
  Outcome o = Job("cli/nabla-run", train_digits("t", 3, {"--engine", "mpi", "--np", "4", "--trace", path("t.json")})).wait();
  ASSERT_EQ(o.code, 0) << o.err;
  EXPECT_NE(o.out.find(" ms a step, predicted "), std::string::npos) << o.out;
  std::ifstream file(path("t.json"));
  auto trace = nlohmann::json::parse(file);
  std::map<int, std::string> names;
  std::map<int, std::vector<double>> ends;  // of steps
  for (const auto& e : trace["traceEvents"]) {
    int pid = e["pid"];
    if (e["name"] == "process_name") names[pid] = e["args"]["name"];
    if (e["ph"] != "X") continue;
    EXPECT_GE(e["ts"].get<double>(), 0);
    if (e["cat"] == "entry" && e["name"] == "step") ends[pid].push_back(e["ts"].get<double>() + e["dur"].get<double>());
  }
  EXPECT_EQ(names, (std::map<int, std::string>{{1, "rank 0"}, {2, "rank 1"}, {3, "rank 2"}, {4, "rank 3"}}));
  // A step waits for all ranks: nobody's third one ends before another's first one.
  ASSERT_EQ(ends.size(), 4u);
  for (const auto& [pid, times] : ends) {
    ASSERT_EQ(times.size(), 3u);
    for (const auto& [other, theirs] : ends) EXPECT_GT(times[2], theirs[0]) << pid << " " << other;
  }
  std::string note = trace["otherData"]["notes"].back();
  EXPECT_EQ(note.find("clocks of the ranks are ahead of rank 0's by 0.0, "), 0u) << note;
}

INSTANTIATE_TEST_SUITE_P(Ranks, Mpi, testing::Values(1, 2, 3, 4, 5, 8));

}  // namespace
}  // namespace nabla::tests
