#include "passes/shard/own_results.h"

#include <map>
#include <set>

#include "passes/rewrite.h"
#include "passes/shard/layout.h"

namespace nabla::passes {
namespace {

using ir::Function;
using ir::ValueId;

/// Positions of the results of an entry that get a node of their own: those that write a value which stands for another leaf already.
/// If the value is made of scalars, its first result gets one too. Such a value takes layouts and hands none on, but as a result it would
/// be the leaf itself, and take the layouts of all other leaves.
std::set<size_t> shared_results(const ir::Entry& e, const Function& f) {
  const std::vector<char> free = made_of_scalars(f);
  std::map<ValueId, int> leaf_of;
  std::map<ValueId, size_t> first;
  std::set<size_t> out;
  for (size_t i = 0; i < e.reads.size(); ++i) leaf_of.emplace(f.params[i], e.reads[i]);
  for (size_t r = 0; r < e.writes.size(); ++r) {
    const ValueId v = f.results[r];
    first.emplace(v, r);
    if (leaf_of.emplace(v, e.writes[r]).first->second == e.writes[r]) continue;
    out.insert(r);
    if (free[static_cast<size_t>(v)]) out.insert(first.at(v));
  }
  return out;
}

ir::FunctionPtr with_own(const Function& f, const std::set<size_t>& results, const ir::Module& m, const ir::OpTable& ops) {
  FunctionCopy copy(f, ops, &m);
  for (const ir::Node& n : f.nodes) copy.copy(n);
  std::vector<ir::Val> out = copy.at(f.results);
  for (size_t r : results) out[r] = copy.builder().op("shard", {out[r]}, {{"sharding", open_sharding(out[r].rank())}});
  Function made = copy.builder().finish(out);
  made.location = f.location;
  return std::make_shared<const Function>(std::move(made));
}

}  // namespace

ir::Module with_own_results(const ir::Module& flat, const ir::OpTable& ops) {
  std::map<std::string, std::set<size_t>> shared;  // by function
  for (const ir::Entry& e : flat.entries) shared[e.function].merge(shared_results(e, *flat.find(e.function)));
  ir::Module out = flat;
  for (const auto& [name, results] : shared)
    if (!results.empty()) out.set(with_own(*flat.find(name), results, flat, ops));
  return out;
}

}  // namespace nabla::passes
