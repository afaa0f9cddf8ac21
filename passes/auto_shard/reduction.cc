#include "passes/auto_shard/reduction.h"

#include <algorithm>
#include <numeric>

#include "passes/auto_shard/cbc.h"

namespace nabla::passes {
namespace {

size_t at(int i) { return static_cast<size_t>(i); }

constexpr double kSame = 1e-9;  // microseconds; costs that are sums in another order differ by less

}  // namespace

void Reduction::add_node(int node, const std::vector<double>& us, const std::vector<double>& bytes) {
  Node& n = nodes_[at(node)];
  if (n.us.empty()) {
    n.us.resize(us.size(), 0), n.alive.resize(us.size());
    std::iota(n.alive.begin(), n.alive.end(), 0);
    if (!bytes.empty()) n.bytes.resize(bytes.size(), 0);
  }
  for (size_t s = 0; s < us.size(); ++s) n.us[s] += us[s];
  for (size_t s = 0; s < bytes.size(); ++s) n.bytes[s] += bytes[s];
}

void Reduction::add_edge(int first, int second, const CostTable& table, double times) {
  Node &a = nodes_[at(first)], &b = nodes_[at(second)];
  if (first == second) {
    for (size_t s = 0; s < a.us.size(); ++s) a.us[s] += times * table.at(s, s);
    return;
  }
  CostTable &to = a.edges.try_emplace(second, CostTable{a.us.size(), b.us.size(), std::vector<double>(table.us.size(), 0)}).first->second,
            &back = b.edges.try_emplace(first, CostTable{b.us.size(), a.us.size(), std::vector<double>(table.us.size(), 0)}).first->second;
  for (size_t s = 0; s < a.us.size(); ++s)
    for (size_t t = 0; t < b.us.size(); ++t) {
      to.us[s * to.columns + t] += times * table.at(s, t);
      back.us[t * back.columns + s] += times * table.at(s, t);
    }
}

void Reduction::run() {
  for (bool changed = true; changed;) {
    changed = false;
    for (size_t n = 0; n < nodes_.size(); ++n) {
      auto node = static_cast<int>(n);
      if (nodes_[n].folded) continue;
      changed |= drop_impossible(node);
      changed |= drop_dominated(node);
      changed |= fold(node);
    }
  }
}

bool Reduction::drop_impossible(int node) {
  Node& n = nodes_[at(node)];
  size_t before = n.alive.size();
  std::erase_if(n.alive, [&](int s) {
    if (n.us[at(s)] == kNever) return true;
    return std::any_of(n.edges.begin(), n.edges.end(), [&](const auto& edge) {
      const std::vector<int>& others = nodes_[at(edge.first)].alive;
      return std::all_of(others.begin(), others.end(), [&](int t) { return edge.second.at(at(s), at(t)) == kNever; });
    });
  });
  return n.alive.size() < before;
}

bool Reduction::dominates(const Node& n, int winner, int loser) const {
  if (counts(n) && n.bytes[at(winner)] > n.bytes[at(loser)]) return false;
  double gain = n.us[at(loser)] - n.us[at(winner)];
  for (const auto& [other, table] : n.edges) {
    double least = kNever;
    for (int t : nodes_[at(other)].alive) {
      double by_loser = table.at(at(loser), at(t)), by_winner = table.at(at(winner), at(t));
      if (by_loser == kNever) continue;
      if (by_winner == kNever) return false;
      least = std::min(least, by_loser - by_winner);
    }
    if (least == kNever) return true;  // the loser goes with none of them
    gain += least;
  }
  return gain > kSame || (gain >= -kSame && winner < loser);
}

bool Reduction::drop_dominated(int node) {
  Node& n = nodes_[at(node)];
  bool changed = false;
  for (size_t i = n.alive.size(); i-- > 0 && n.alive.size() > 1;) {
    int loser = n.alive[i];
    bool beaten = std::any_of(n.alive.begin(), n.alive.end(), [&](int winner) { return winner != loser && dominates(n, winner, loser); });
    if (beaten) n.alive.erase(n.alive.begin() + static_cast<std::ptrdiff_t>(i)), changed = true;
  }
  return changed;
}

void Reduction::forget_edge(int a, int b) { nodes_[at(a)].edges.erase(b), nodes_[at(b)].edges.erase(a); }

// A node with two neighbours at most, or of one state: what it costs becomes a cost of theirs.
bool Reduction::fold(int node) {
  Node& n = nodes_[at(node)];
  if (n.alive.size() == 1 && !n.edges.empty()) {
    while (!n.edges.empty()) {
      auto [other, table] = *n.edges.begin();
      for (int t : nodes_[at(other)].alive) nodes_[at(other)].us[at(t)] += table.at(at(n.alive[0]), at(t));
      forget_edge(node, other);
    }
    return true;
  }
  if (n.alive.size() < 2 || counts(n) || n.edges.size() > 2) return false;
  Folded gone{node, {}, {}};
  std::vector<CostTable> tables;
  std::vector<Node*> others;
  for (const auto& [other, table] : n.edges)
    gone.neighbours.push_back(other), tables.push_back(table), others.push_back(&nodes_[at(other)]);
  size_t rows = others.empty() ? 1 : others[0]->us.size(), columns = others.size() < 2 ? 1 : others[1]->us.size();
  CostTable made{rows, columns, std::vector<double>(rows * columns, kNever)};
  gone.best.resize(rows * columns, n.alive[0]);
  const std::vector<int> alone{0};
  for (int row : others.empty() ? alone : others[0]->alive)
    for (int column : others.size() < 2 ? alone : others[1]->alive)
      for (int s : n.alive) {
        size_t r = at(row), c = at(column);
        double us = n.us[at(s)] + (others.empty() ? 0 : tables[0].at(at(s), r)) + (others.size() < 2 ? 0 : tables[1].at(at(s), c));
        if (us < made.us[r * columns + c] - kSame) made.us[r * columns + c] = us, gone.best[r * columns + c] = s;
      }
  for (int other : gone.neighbours) forget_edge(node, other);
  if (others.size() == 1)
    for (size_t r = 0; r < rows; ++r) others[0]->us[r] += made.us[r];
  if (others.size() == 2) add_edge(gone.neighbours[0], gone.neighbours[1], made, 1);
  n.folded = true;
  folded_.push_back(std::move(gone));
  return true;
}

size_t Reduction::left() const {
  return static_cast<size_t>(std::count_if(nodes_.begin(), nodes_.end(), [](const Node& n) { return !n.folded && n.alive.size() > 1; }));
}

Result<std::optional<std::vector<int>>> Reduction::solve(size_t& columns) const {
  IntegerProgram program;
  std::vector<std::vector<int>> column(nodes_.size());
  IntegerProgram::Row limit{-kNever, 1, {}};
  double fixed = 0;  // bytes of what is decided
  std::vector<int> out(nodes_.size(), 0);
  for (size_t i = 0; i < nodes_.size(); ++i) {
    const Node& n = nodes_[i];
    if (n.folded) continue;
    if (n.alive.empty()) return std::optional<std::vector<int>>();
    out[i] = n.alive[0];
    if (n.alive.size() == 1 && counts(n)) fixed += n.bytes[at(n.alive[0])];
    if (n.alive.size() == 1) continue;
    IntegerProgram::Row one{1, 1, {}};
    for (int s : n.alive) {
      column[i].push_back(program.add_column(n.us[at(s)], true));
      one.terms.push_back({column[i].back(), 1});
      if (counts(n)) limit.terms.push_back({column[i].back(), n.bytes[at(s)] / most_bytes_});
    }
    program.rows.push_back(std::move(one));
  }
  for (size_t i = 0; i < nodes_.size(); ++i)
    for (const auto& [other, table] : nodes_[i].edges) {
      const Node &n = nodes_[i], &m = nodes_[at(other)];
      if (at(other) < i) continue;
      std::vector<IntegerProgram::Row> rows, to(m.alive.size(), {0, 0, {}});
      for (size_t t = 0; t < m.alive.size(); ++t) to[t].terms.push_back({column[at(other)][t], -1});
      for (size_t s = 0; s < n.alive.size(); ++s) {
        rows.push_back({0, 0, {{column[i][s], -1}}});
        for (size_t t = 0; t < m.alive.size(); ++t) {
          double us = table.at(at(n.alive[s]), at(m.alive[t]));
          if (us == kNever) continue;
          int pair = program.add_column(us, false);
          rows[s].terms.push_back({pair, 1}), to[t].terms.push_back({pair, 1});
        }
      }
      program.rows.insert(program.rows.end(), rows.begin(), rows.end());
      program.rows.insert(program.rows.end(), to.begin(), to.end());
    }
  columns = program.cost.size();
  if (limited_ && fixed > most_bytes_) return std::optional<std::vector<int>>();
  limit.most = limited_ ? 1 - fixed / most_bytes_ : 1;
  if (!limit.terms.empty()) program.rows.push_back(std::move(limit));
  if (columns > 0) {
    std::vector<double> found = NABLA_TRY(passes::solve(program));
    if (found.empty()) return std::optional<std::vector<int>>();
    for (size_t i = 0; i < nodes_.size(); ++i)
      for (size_t s = 0; s < column[i].size(); ++s)
        if (found[at(column[i][s])] > 0.5) out[i] = nodes_[i].alive[s];
  }
  for (auto gone = folded_.rbegin(); gone != folded_.rend(); ++gone) {
    size_t place = 0;
    if (!gone->neighbours.empty()) place = at(out[at(gone->neighbours[0])]);
    if (gone->neighbours.size() > 1) place = place * nodes_[at(gone->neighbours[1])].us.size() + at(out[at(gone->neighbours[1])]);
    out[at(gone->node)] = gone->best[place];
  }
  return std::optional(std::move(out));
}

}  // namespace nabla::passes
