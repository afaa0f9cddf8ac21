#include "passes/shard/local_symbols.h"

#include <algorithm>
#include <map>
#include <numeric>

#include "ir/symbols.h"
#include "passes/shard/layout.h"

namespace nabla::passes {
namespace {

using ir::Dim;

// Into how many parts each symbol is cut: as often as the dimension that is cut most.
std::map<std::string, int64_t> counts_of(const ir::Module& m) {
  std::map<std::string, int64_t> out;
  for (const ir::FunctionPtr& f : m.functions)
    for (const ir::Value& v : f->values)
      for (size_t d = 0; v.sharding && d < v.sharding->dims.size(); ++d) {
        int64_t count = shards(*m.mesh(), v.sharding->dims[d].axes);
        for (const ir::SymbolRef& s : v.type.shape[d].symbols()) {
          int64_t& known = out.try_emplace(s->name, 1).first->second;
          known = std::lcm(known, std::gcd(count, s->multiple));
        }
      }
  std::erase_if(out, [](const auto& entry) { return entry.second == 1; });
  return out;
}

}  // namespace

ir::Module with_local_symbols(const ir::Module& sharded) {
  std::map<std::string, int64_t> counts = counts_of(sharded);
  if (counts.empty()) return sharded;
  ir::Module out = sharded;
  std::map<std::string, Dim> replacements;
  for (ir::SymbolRef& s : out.symbols) {
    auto count = counts.find(s->name);
    if (count == counts.end()) continue;
    ir::Symbol local = *s;
    local.name += ".local";
    local.min = (s->min + count->second - 1) / count->second, local.max = s->max / count->second;
    local.multiple = s->multiple / count->second;
    local.facts = nullptr;
    ir::SymbolRef made = std::make_shared<const ir::Symbol>(std::move(local));
    replacements[s->name] = Dim::symbol(made) * count->second;
    s = made;
  }
  auto replaced = [&](const Dim& d) {
    if (d.is_static()) return d;
    return d.substitute([&](const ir::SymbolRef& s) {
      auto found = replacements.find(s->name);
      return found == replacements.end() ? Dim::symbol(s) : found->second;
    });
  };
  for (ir::SizeConstraint& c : out.constraints)
    c.relation.left = replaced(c.relation.left), c.relation.right = replaced(c.relation.right);
  for (ir::FunctionPtr& f : out.functions) {
    ir::Function made = *f;
    for (ir::Value& v : made.values)
      for (Dim& d : v.type.shape) d = replaced(d);
    for (ir::Node& n : made.nodes)
      for (const auto& [name, attr] : ir::Attrs(n.attrs))
        if (const ir::Shape* shape = std::get_if<ir::Shape>(&attr)) {
          ir::Shape sizes = *shape;
          for (Dim& d : sizes) d = replaced(d);
          n.attrs.set(name, std::move(sizes));
        }
    f = std::make_shared<const ir::Function>(std::move(made));
  }
  return out;
}

}  // namespace nabla::passes
