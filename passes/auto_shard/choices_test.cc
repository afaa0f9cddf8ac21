// The search against trying everything.
#include "passes/auto_shard/choices.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace nabla::passes {
namespace {

std::shared_ptr<const CostTable> table(size_t rows, size_t columns, std::mt19937& rng) {
  CostTable out{rows, columns, {}};
  for (size_t i = 0; i < rows * columns; ++i) out.us.push_back(rng() % 11 == 0 ? kNever : static_cast<double>(rng() % 50));
  return std::make_shared<const CostTable>(out);
}

// The least cost of all states under the limit; kNever: there are none.
double tried(const Choices& c) {
  std::vector<int> states(c.nodes.size(), 0);
  double best = kNever;
  while (true) {
    double bytes = 0;
    for (size_t n = 0; n < states.size(); ++n)
      if (!c.nodes[n].bytes.empty()) bytes += c.nodes[n].bytes[static_cast<size_t>(states[n])];
    if (bytes <= c.most_bytes) best = std::min(best, cost_of(c, states));
    size_t n = 0;
    while (n < states.size() && ++states[n] == static_cast<int>(c.nodes[n].us.size())) states[n++] = 0;
    if (n == states.size()) return best;
  }
}

Choices drawn(std::mt19937& rng) {
  Choices out;
  size_t nodes = 2 + rng() % 6;
  for (size_t n = 0; n < nodes; ++n) {
    Choices::Node node;
    for (size_t s = 0; s < 1 + rng() % 4; ++s) node.us.push_back(static_cast<double>(rng() % 20));
    if (rng() % 2)
      for (size_t s = 0; s < node.us.size(); ++s) node.bytes.push_back(static_cast<double>(1 + rng() % 9));
    out.nodes.push_back(node);
  }
  for (size_t e = 0; e < nodes * 2; ++e) {
    auto a = static_cast<int>(rng() % nodes), b = static_cast<int>(rng() % nodes);
    if (a == b) continue;
    size_t rows = out.nodes[static_cast<size_t>(a)].us.size(), columns = out.nodes[static_cast<size_t>(b)].us.size();
    out.edges.push_back({a, b, table(rows, columns, rng), 1.0 + static_cast<double>(rng() % 3)});
  }
  return out;
}

TEST(Choices, AreTheCheapest) {
  for (uint32_t seed = 0; seed < 300; ++seed) {
    std::mt19937 rng(seed);
    Choices c = drawn(rng);
    for (bool limited : {false, true}) {
      if (limited) c.most_bytes = least_bytes(c) + 4;
      // Nodes that are equal take equal states: a drawn graph has such ones only if it is tiny.
      std::vector<int> classes = equal_nodes(c);
      if (static_cast<size_t>(*std::max_element(classes.begin(), classes.end())) + 1 < classes.size()) continue;
      auto found = cheapest(c);
      ASSERT_TRUE(found.ok()) << to_string(found.errors());
      double expected = tried(c);
      ASSERT_EQ(found->has_value(), expected < kNever) << "seed " << seed;
      if (!found->has_value()) continue;
      EXPECT_NEAR((*found)->us, expected, 1e-6) << "seed " << seed << (limited ? " limited" : "");
      EXPECT_LE((*found)->bytes, c.most_bytes) << "seed " << seed;
      EXPECT_EQ((*cheapest(c))->states, (*found)->states) << "seed " << seed;
    }
  }
}

// A hub with a hundred equal pairs of nodes beside it costs as much as one with one.
TEST(Choices, EqualNodesAreOne) {
  std::mt19937 rng(1);
  Choices c;
  c.nodes.push_back({{0, 1, 2}, {}});
  auto hub = table(3, 3, rng), pair = table(3, 3, rng);
  for (int layer = 0; layer < 100; ++layer) {
    auto first = static_cast<int>(c.nodes.size());
    c.nodes.push_back({{0, 3, 1}, {9, 5, 1}}), c.nodes.push_back({{2, 0, 1}, {}});
    c.edges.push_back({0, first, hub}), c.edges.push_back({first, first + 1, pair}), c.edges.push_back({0, first + 1, hub});
  }
  c.most_bytes = 500;
  Chosen found = cheapest(c).value().value();
  EXPECT_EQ(found.classes, 3u);
  EXPECT_LE(found.bytes, 500);
  for (size_t n = 1; n < found.states.size(); ++n) EXPECT_EQ(found.states[n], found.states[n > 2 ? n - 2 : n]);
  c.most_bytes = 99;
  EXPECT_EQ(least_bytes(c), 100);
  EXPECT_FALSE(cheapest(c).value().has_value());
}

}  // namespace
}  // namespace nabla::passes
