#include "passes/transform/residuals.h"

#include <algorithm>
#include <cstdint>
#include <limits>

#include "ir/cost/least_work.h"
#include "ir/op_def.h"
#include "passes/rewrite.h"

namespace nabla::passes {
namespace {

using ir::Node;
using ir::ValueId;

constexpr int64_t kUnbounded = std::numeric_limits<int64_t>::max() / 4;

// Maximum flow by shortest augmenting levels (Dinic, 1970).
class Network {
 public:
  explicit Network(int vertices) : edges_(static_cast<size_t>(vertices)) {}
  void add(int from, int to, int64_t capacity) {
    edges_[from].push_back({to, static_cast<int>(edges_[to].size()), capacity});
    edges_[to].push_back({from, static_cast<int>(edges_[from].size()) - 1, 0});
  }
  void saturate(int source, int sink) {
    while (find_levels(source, sink)) {
      next_.assign(edges_.size(), 0);
      while (push(source, sink)) {
      }
    }
  }
  // The vertices from which the sink can still be reached.
  std::vector<bool> behind(int sink) const {
    std::vector<bool> seen(edges_.size(), false);
    std::vector<int> work = {sink};
    seen[sink] = true;
    while (!work.empty()) {
      int v = work.back();
      work.pop_back();
      for (const Edge& e : edges_[v])
        if (!seen[e.to] && edges_[e.to][e.reverse].capacity > 0) seen[e.to] = true, work.push_back(e.to);
    }
    return seen;
  }

 private:
  struct Edge {
    int to, reverse;
    int64_t capacity;
  };
  bool find_levels(int source, int sink) {
    level_.assign(edges_.size(), -1);
    level_[source] = 0;
    std::vector<int> queue = {source};
    for (size_t i = 0; i < queue.size(); ++i)
      for (const Edge& e : edges_[queue[i]])
        if (e.capacity > 0 && level_[e.to] < 0) level_[e.to] = level_[queue[i]] + 1, queue.push_back(e.to);
    return level_[sink] >= 0;
  }
  // One path along rising levels; a vertex that leads nowhere is not tried again. No recursion: chains are long.
  bool push(int source, int sink) {
    std::vector<std::pair<int, int>> path;  // vertex, edge
    int v = source;
    while (v != sink) {
      int& i = next_[v];
      while (i < static_cast<int>(edges_[v].size()) &&
             (edges_[v][i].capacity == 0 || level_[edges_[v][i].to] != level_[v] + 1))
        ++i;
      if (i < static_cast<int>(edges_[v].size())) {
        path.emplace_back(v, i);
        v = edges_[v][i].to;
        continue;
      }
      if (path.empty()) return false;
      v = path.back().first;
      path.pop_back();
      ++next_[v];
    }
    int64_t flow = kUnbounded;
    for (auto [from, e] : path) flow = std::min(flow, edges_[from][e].capacity);
    for (auto [from, e] : path) {
      edges_[from][e].capacity -= flow;
      edges_[edges_[from][e].to][edges_[from][e].reverse].capacity += flow;
    }
    return true;
  }

  std::vector<std::vector<Edge>> edges_;
  std::vector<int> level_, next_;
};

// Ops that cost no more than reading what they made: elementwise ones, and those that move elements.
bool may_run_again(const ir::Function& f, const Node& node) {
  const ir::Traits& traits = node.op->traits;
  if (traits.side_effect || traits.fence || traits.kept || traits.composite || node.op->lower == ir::Lowering::kControl)
    return false;
  if (node.op->lower != ir::Lowering::kAccess && node.op->lower != ir::Lowering::kView) return false;
  return traits.elementwise || ir::node_flops(f, node).is(0);
}

int64_t bytes_of(const ir::Type& type) { return type.is_residual() ? 0 : type.bytes().bounds().max; }

}  // namespace

std::vector<ValueId> choose_residuals(const ForwardPart& forward, const std::vector<bool>& needed) {
  const ir::Function& f = forward.f;
  // Value v is an edge from vertex 2v to 2v + 1, as wide as what it costs to keep it. Parameters are a little cheaper:
  // those of loops lie there already.
  int source = 2 * static_cast<int>(f.values.size()), sink = source + 1;
  Network network(sink + 1);
  std::vector<bool> wanted = needed;
  auto keep = [&](ValueId id, bool from_source) {
    int64_t cost = 2 * std::min(bytes_of(f.type(id)), kUnbounded / 8);
    network.add(2 * id, 2 * id + 1, std::max<int64_t>(cost - forward.params[id], 0));
    if (from_source) network.add(source, 2 * id, kUnbounded);
    if (needed[id]) network.add(2 * id + 1, sink, kUnbounded);
  };
  for (size_t n = forward.nodes; n-- > 0;) {
    const Node& node = f.nodes[n];
    auto counts = [&](ValueId id) { return wanted[id] && !forward.fixed[id]; };
    if (std::none_of(node.results.begin(), node.results.end(), counts)) continue;
    bool again = may_run_again(f, node);
    for (ValueId id : node.results) {
      if (!counts(id)) continue;
      keep(id, !again);
      if (!again) continue;
      for (ValueId operand : node.operands)
        if (!forward.fixed[operand]) wanted[operand] = true, network.add(2 * operand + 1, 2 * id, kUnbounded);
    }
  }
  for (size_t id = 0; id < f.values.size(); ++id)
    if (forward.params[id] && wanted[id]) keep(static_cast<ValueId>(id), true);
  network.saturate(source, sink);
  std::vector<bool> behind = network.behind(sink);
  std::vector<ValueId> out;
  for (size_t id = 0; id < f.values.size(); ++id)
    if (wanted[id] && !behind[2 * id] && behind[2 * id + 1]) out.push_back(static_cast<ValueId>(id));
  return out;
}

}  // namespace nabla::passes
