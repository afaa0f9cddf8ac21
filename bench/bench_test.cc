#include "bench/bench.h"

#include <gtest/gtest.h>

namespace nabla::bench {
namespace {

TEST(ShareOf, AlternatesAndKeepsTheBestOfEach) {
  std::string rounds;
  double work = 0, limit = 10;
  Measurement m = share_of(
      "GB/s", "copy", [&] { return rounds += 'w', ++work; }, [&] { return rounds += 'l', ++limit; });
  EXPECT_EQ(m.value, work);
  EXPECT_EQ(m.peer_value, limit);
  EXPECT_EQ(m.peer, "copy");
  EXPECT_TRUE(m.is_share);
  EXPECT_EQ(m.ratio, work / limit);
  EXPECT_EQ(rounds.substr(0, 8), "lllwlllw");
  EXPECT_EQ(rounds.find("ww"), std::string::npos);
}

// The first limit was measured while another program had the machine.
TEST(ShareOf, MeasuresAnImpossibleShareAgain) {
  int rounds = 0;
  Measurement m = share_of(
      "GFLOP/s", "peak", [&] { return ++rounds, 90.; }, [&] { return rounds < 60 ? 50. : 100.; });
  EXPECT_EQ(rounds, 120);
  EXPECT_EQ(m.ratio, 0.9);
}

TEST(ShareOf, GivesAShareThatStaysImpossible) {
  int rounds = 0;
  Measurement m = share_of(
      "GFLOP/s", "peak", [&] { return ++rounds, 90.; }, [] { return 50.; });
  EXPECT_EQ(rounds, 120);
  EXPECT_GT(m.ratio, kMostShare);
}

}  // namespace
}  // namespace nabla::bench
