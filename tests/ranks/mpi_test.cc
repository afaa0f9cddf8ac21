// The suite of engines over MPI, on numbers of ranks that fit their CPUs and others.
#include <gtest/gtest.h>

#include "tests/ranks/job.h"

namespace nabla::tests {
namespace {

class Mpi : public testing::TestWithParam<int> {};

TEST_P(Mpi, KeepsTheContractOfEngines) {
  std::string ranks = std::to_string(GetParam());
  std::vector<std::string> mpirun{"mpirun", "-q", "--allow-run-as-root", "--oversubscribe", "--bind-to", "none", "--mca",
                                  "mpi_yield_when_idle", "1", "--mca", "btl_tcp_if_include", "lo", "--mca", "oob_tcp_if_include", "lo",
                                  "-np", ranks};
  Outcome o = Job("runtime/comm/mpi_conformance", {ranks}, {.before = mpirun}).wait(120);
  EXPECT_EQ(o.code, 0) << o.err;
  EXPECT_EQ(o.out, "ok\n") << o.err;
}

INSTANTIATE_TEST_SUITE_P(Ranks, Mpi, testing::Values(1, 2, 3, 4, 5, 8));

}  // namespace
}  // namespace nabla::tests
