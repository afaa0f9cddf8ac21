// A layer of experts, each with a rank: that of tests/golden/program/mixture_of_experts.nbl, whose tokens go to
// their two best experts and come back.
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "tests/shard/rules_run.h"

namespace nabla::shard_tests {
namespace {

std::string between(const std::string& text, const std::string& begin, const std::string& end) {
  size_t from = text.find(begin) + begin.size();
  return text.substr(from, text.find(end, from) - from);
}

// The program of the golden file with other words for its layouts.
Scene layer(const std::string& mesh, const std::vector<std::pair<std::string, std::string>>& changes) {
  std::ifstream file("tests/golden/program/mixture_of_experts.nbl");
  std::stringstream stream;
  stream << file.rdbuf();
  std::string text = stream.str();
  for (const auto& [from, to] : changes)
    for (size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size()) text.replace(at, from.size(), to);
  return {mesh, between(text, "func @moe(", ") -> "), between(text, ") {\n", "}\n// ----"), {0, 1, 2, 3}, true};
}

// Of the slots for ten tokens of a group and an expert a rank has sixteen, of its groups or its experts.
double exchanged(int ranks) { return 4 * 4 * 10 * 8 * 4 / 4.0 * (ranks - 1) / ranks; }

TEST(Experts, GetTokensByAllToAll) {
  Sent sent = expect_same(layer("dp=2, ep=2", {}));
  EXPECT_EQ(sent.ops, "all_to_all all_to_all") << sent.text;
  EXPECT_EQ(sent.forward, 2 * exchanged(2));
  EXPECT_TRUE(sent.remarks.empty());
  // The same twice with cotangents, the forward pass again, and sums of gradients over ranks that have the same weights.
  double router = 8 * 4 * 4 * 2 * 0.75, experts = 2.0 * 2 * 8 * 16 * 4;
  EXPECT_LE(sent.gradient, 4 * exchanged(2) + router + experts) << sent.text;
}

TEST(Experts, AreTheSameOnOtherMeshes) {
  Sent four = expect_same(layer("ep=4", {{"{dp, ep}", "ep"}, {"<dp, ep, ", "<{}, ep, "}}));
  EXPECT_EQ(four.ops, "all_to_all all_to_all") << four.text;
  EXPECT_EQ(four.forward, 2 * exchanged(4));
  // Every expert has two ranks, each with half of its features.
  Sent halves = expect_same(layer("ep=2, tp=2", {{"{dp, ep}", "ep"}, {"<dp, ep, ", "<{}, ep, "}, {"8,16]", "8,16@tp]"}}));
  EXPECT_EQ(halves.ops, "all_to_all reduce_scatter all_to_all all_gather") << halves.text;
  // Tokens that all ranks have: each expert takes its own.
  expect_same(layer("ep=4", {{"4@{dp, ep},16,8", "4@{},16,8"}, {"{dp, ep}", "ep"}, {"<dp, ep, ", "<{}, ep, "}}));
}

}  // namespace
}  // namespace nabla::shard_tests
