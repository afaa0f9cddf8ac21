#include "passes/shard/sum_points.h"

#include <algorithm>

#include "ir/linearity.h"
#include "passes/shard/layout.h"

namespace nabla::passes {

using ir::Linearity;
using ir::Node;
using ir::ValueId;

namespace {

/// Can the node hand on a sum that is pending in this value? Jointly it can if the other operands are pending too.
bool hands_on(const ir::Function& f, const Node& n, ValueId id) {
  std::set<size_t> with, jointly;
  for (size_t i = 0; i < n.operands.size(); ++i)
    if (n.operands[i] == id) with.insert(i);
  if (passes_sums(f, n, with)) return true;
  for (const Linearity::Claim& c : n.op->linearity.claims)
    if (c.kind == Linearity::Kind::kJointly)
      for (int i : ir::operands_of(*n.op, c, n.operands.size())) jointly.insert(static_cast<size_t>(i));
  return std::includes(jointly.begin(), jointly.end(), with.begin(), with.end()) && passes_sums(f, n, jointly);
}

}  // namespace

bool passes_sums(const ir::Function& f, const Node& n, const std::set<size_t>& with) {
  bool floats = std::all_of(with.begin(), with.end(), [&](size_t i) { return is_float(f.type(n.operands[i]).dtype); });
  return std::any_of(n.op->linearity.claims.begin(), n.op->linearity.claims.end(), [&](const Linearity::Claim& c) {
    if (c.combiner != kernel_ir::Combiner::kSum || (c.floats_only && !floats)) return false;
    std::vector<int> named = ir::operands_of(*n.op, c, n.operands.size());
    std::set<size_t> of(named.begin(), named.end());
    return c.kind == Linearity::Kind::kJointly ? with == of : with.size() == 1 && of.count(*with.begin()) > 0;
  });
}

std::vector<char> sum_points(const ir::Function& f) {
  struct Demand {
    int readers = 0;
    bool summed = false;  // a reader needs the sum itself
    double later = 0;     // bytes of the sums that follow from readers that hand it on
  };
  auto bytes = [&](ValueId id) { return static_cast<double>(f.type(id).bytes().bounds().max); };
  std::vector<Demand> demands(f.values.size());
  std::vector<char> out(f.values.size(), false);
  auto total = [&](ValueId id) { return demands[id].later + (demands[id].summed ? bytes(id) : 0); };
  for (ValueId id : f.results) demands[id].summed = true;
  for (auto n = f.nodes.rbegin(); n != f.nodes.rend(); ++n) {
    double later = 0;
    for (ValueId id : n->results) {
      out[id] = demands[id].readers > 1 && total(id) > bytes(id);
      later += std::min(total(id), bytes(id));
    }
    std::set<ValueId> seen;
    for (size_t i = 0; i < n->operands.size(); ++i) {
      ValueId id = n->operands[i];
      if (!seen.insert(id).second) continue;
      ++demands[id].readers;
      if (hands_on(f, *n, id))
        demands[id].later += later;
      else
        demands[id].summed = true;
    }
  }
  return out;
}

}  // namespace nabla::passes
