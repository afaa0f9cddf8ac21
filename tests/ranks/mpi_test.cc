// The suite of engines over MPI, on numbers of ranks that fit their CPUs and others.
#include <gtest/gtest.h>

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

INSTANTIATE_TEST_SUITE_P(Ranks, Mpi, testing::Values(1, 2, 3, 4, 5, 8));

}  // namespace
}  // namespace nabla::tests
