#include "passes/auto_shard/choices.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <map>
#include <unordered_map>

#include "passes/auto_shard/reduction.h"

namespace nabla::passes {
namespace {

uint64_t mixed(uint64_t a, uint64_t b) {
  uint64_t x = a ^ (b + 0x9e3779b97f4a7c15u + (a << 6) + (a >> 2));
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}
uint64_t hash_of(const std::vector<double>& numbers) {
  uint64_t out = numbers.size();
  for (double x : numbers) out = mixed(out, std::bit_cast<uint64_t>(x == 0 ? 0.0 : x));
  return out;
}

// Classes by number, in the order in which they appear first.
std::vector<int> numbered(const std::vector<uint64_t>& colours, size_t& count) {
  std::unordered_map<uint64_t, int> known;
  std::vector<int> out;
  for (uint64_t c : colours) out.push_back(known.try_emplace(c, static_cast<int>(known.size())).first->second);
  count = known.size();
  return out;
}

// Nodes of one state only add to what their neighbours cost.
Choices without_single_states(const Choices& given) {
  Choices out;
  out.most_bytes = given.most_bytes, out.nodes = given.nodes;
  for (const Choices::Edge& e : given.edges) {
    std::vector<double>&first = out.nodes[static_cast<size_t>(e.first)].us, &second = out.nodes[static_cast<size_t>(e.second)].us;
    if (e.first != e.second && first.size() > 1 && second.size() > 1)
      out.edges.push_back(e);
    else if (e.first == e.second)
      for (size_t s = 0; s < first.size(); ++s) first[s] += e.times * e.table->at(s, s);
    else if (second.size() == 1)
      for (size_t s = 0; s < first.size(); ++s) first[s] += e.times * e.table->at(s, 0);
    else
      for (size_t s = 0; s < second.size(); ++s) second[s] += e.times * e.table->at(0, s);
  }
  return out;
}

std::vector<int> refined(const Choices& choices, size_t& count) {
  std::unordered_map<const CostTable*, uint64_t> of_table;
  for (const Choices::Edge& e : choices.edges)
    if (auto [at, fresh] = of_table.try_emplace(e.table.get(), 0); fresh) at->second = mixed(hash_of(e.table->us), e.table->rows);
  std::vector<uint64_t> colours;
  for (const Choices::Node& n : choices.nodes) colours.push_back(mixed(hash_of(n.us), hash_of(n.bytes)));
  std::vector<int> classes = numbered(colours, count);
  for (size_t before = 0; before != count;) {
    before = count;
    std::vector<std::vector<uint64_t>> seen(choices.nodes.size());
    for (const Choices::Edge& e : choices.edges) {
      uint64_t edge = mixed(of_table.at(e.table.get()), std::bit_cast<uint64_t>(e.times));
      auto a = static_cast<size_t>(e.first), b = static_cast<size_t>(e.second);
      seen[a].push_back(mixed(mixed(edge, 1), colours[b])), seen[b].push_back(mixed(mixed(edge, 2), colours[a]));
    }
    for (size_t n = 0; n < seen.size(); ++n) {
      std::sort(seen[n].begin(), seen[n].end());
      uint64_t all = seen[n].size();
      for (uint64_t s : seen[n]) all = mixed(all, s);
      seen[n] = {mixed(colours[n], all)};
    }
    for (size_t n = 0; n < seen.size(); ++n) colours[n] = seen[n][0];
    classes = numbered(colours, count);
  }
  return classes;
}

// A node per class, which stands for all of its members.
Reduction quotient(const Choices& choices, const std::vector<int>& classes, size_t count) {
  Reduction out(count, choices.most_bytes);
  for (size_t n = 0; n < classes.size(); ++n) out.add_node(classes[n], choices.nodes[n].us, choices.nodes[n].bytes);
  for (const Choices::Edge& e : choices.edges)
    out.add_edge(classes[static_cast<size_t>(e.first)], classes[static_cast<size_t>(e.second)], *e.table, e.times);
  return out;
}

}  // namespace

std::vector<int> equal_nodes(const Choices& choices) {
  size_t count = 0;
  return refined(without_single_states(choices), count);
}

Result<std::optional<Chosen>> cheapest(const Choices& given) {
  Choices choices = without_single_states(given);
  size_t count = 0;
  std::vector<int> classes = refined(choices, count);
  Reduction reduction = quotient(choices, classes, count);
  reduction.run();
  Chosen out;
  out.classes = count, out.left = reduction.left();
  std::optional<std::vector<int>> states = NABLA_TRY(reduction.solve(out.columns));
  if (!states) return std::optional<Chosen>();
  for (size_t n = 0; n < classes.size(); ++n) {
    out.states.push_back((*states)[static_cast<size_t>(classes[n])]);
    if (!given.nodes[n].bytes.empty()) out.bytes += given.nodes[n].bytes[static_cast<size_t>(out.states[n])];
  }
  out.us = cost_of(given, out.states);
  return std::optional(std::move(out));
}

double cost_of(const Choices& choices, const std::vector<int>& states) {
  double out = 0;
  for (size_t n = 0; n < states.size(); ++n) out += choices.nodes[n].us[static_cast<size_t>(states[n])];
  for (const Choices::Edge& e : choices.edges)
    out += e.times * e.table->at(static_cast<size_t>(states[static_cast<size_t>(e.first)]),
                                 static_cast<size_t>(states[static_cast<size_t>(e.second)]));
  return out;
}

double least_bytes(const Choices& choices) {
  double out = 0;
  for (const Choices::Node& n : choices.nodes)
    if (!n.bytes.empty()) out += *std::min_element(n.bytes.begin(), n.bytes.end());
  return out;
}

}  // namespace nabla::passes
