// The suite of engines over MPI, on numbers of ranks that fit their CPUs and others.
#include <gtest/gtest.h>

#include <cstdlib>

#include "tests/ranks/job.h"

namespace nabla::tests {
namespace {

std::vector<std::string> mpirun(const std::string& ranks) {
  return {"mpirun", "-q", "--allow-run-as-root", "--oversubscribe", "--bind-to", "none", "--mca", "mpi_yield_when_idle", "1",
          "--mca", "btl_tcp_if_include", "lo", "--mca", "oob_tcp_if_include", "lo", "-np", ranks};
}

class Mpi : public testing::TestWithParam<int> {};

TEST_P(Mpi, KeepsTheContractOfEngines) {
  std::string ranks = std::to_string(GetParam());
  Outcome o = Job("runtime/comm/mpi_conformance", {ranks}, {.before = mpirun(ranks)}).wait(120);
  EXPECT_EQ(o.code, 0) << o.err;
  EXPECT_EQ(o.out, "ok\n") << o.err;
}

TEST(MpiFromC, IsThatOfOneProcessToTheBit) {
  std::string dir = testing::TempDir();
  ASSERT_EQ(std::system(("examples/digits/mlp_ranks " + dir + "c.nir > /dev/null && cli/nablac compile " + dir +
                         "c.nir --no-library --mesh dp=2,tp=2 -o " + dir + "c.nbundle > /dev/null").c_str()), 0);
  Outcome here = Job("tests/ranks/c_rank", {dir + "c.nbundle"}).wait();
  EXPECT_EQ(here.code, 0) << here.err;
  EXPECT_EQ(here.err, "1 ranks\n");
  Outcome there = Job("tests/ranks/c_rank", {dir + "c.nbundle", "mpi"}, {.before = mpirun("4")}).wait();
  EXPECT_EQ(there.code, 0) << there.err;
  EXPECT_NE(there.err.find("4 ranks\n"), std::string::npos) << there.err;  // MPI may have something to say too
  EXPECT_EQ(there.out, here.out);
  EXPECT_NE(here.out.find("loss 2."), std::string::npos) << here.out;
  Outcome three = Job("tests/ranks/c_rank", {dir + "c.nbundle", "mpi"}, {.before = mpirun("3")}).wait();
  EXPECT_EQ(three.code, 1) << three.err;
  EXPECT_NE(three.err.find("error[E0614]"), std::string::npos) << three.err;
}

INSTANTIATE_TEST_SUITE_P(Ranks, Mpi, testing::Values(1, 2, 3, 4, 5, 8));

}  // namespace
}  // namespace nabla::tests
