#include "ir/symbols.h"

#include <algorithm>
#include <map>
#include <set>

#include "ir/op_def.h"

namespace nabla::ir {

Shape at_sizes(const Shape& shape, const std::map<std::string, int64_t>& sizes) {
  Shape out;
  for (const Dim& d : shape)
    out.push_back(d.substitute([&](const SymbolRef& s) {
      auto it = sizes.find(s->name);
      return it == sizes.end() ? Dim::symbol(s) : Dim(it->second);
    }));
  return out;
}

Multiples multiples_for(const Dim& size, int64_t parts) {
  constexpr int64_t kMostTries = 4096;
  Multiples out;
  for (const SymbolRef& symbol : size.symbols())
    for (int64_t times = 1; times <= kMostTries && !out.contains(symbol->name); ++times) {
      Symbol wanted = *symbol;
      wanted.multiple *= times;
      Dim as_wanted = Dim::symbol(std::make_shared<const Symbol>(wanted));
      Dim whole = size.substitute([&](const SymbolRef& s) { return s->name == symbol->name ? as_wanted : Dim::symbol(s); });
      if (Dim::mod(whole, parts).is(0)) out[symbol->name] = wanted.multiple;
    }
  return out;
}

std::string help_to_divide(const Dim& size, int64_t parts) {
  Multiples all = multiples_for(size, parts);
  return all.empty() ? "" : fmt::format("declare symbol {} as a multiple of {}", all.begin()->first, all.begin()->second);
}

Status check_size(const std::vector<SymbolRef>& symbols, const std::string& name, int64_t size, const std::string& option) {
  std::vector<std::string> names;
  const std::string of = option.empty() ? "" : option + ": ";
  for (const SymbolRef& s : symbols) {
    if (!s->axis.empty()) continue;  // a coordinate of the rank, which nobody chooses
    names.push_back(s->name);
    if (s->name != name) continue;
    if (size >= s->min && size <= s->max && size % s->multiple == 0) return Ok{};
    const std::string multiple = s->multiple > 1 ? fmt::format("a multiple of {} ", s->multiple) : "";
    Diagnostic d = error(option.empty() ? Code::kInputShape : Code::kBadOption, "{}{} = {} is not {}in [{}, {}]", of, name, size,
                         multiple, s->min, s->max);
    if (!option.empty()) d.help = fmt::format("name sizes that `{}` may have, or declare it with another range", name);
    return d;
  }
  Diagnostic d = error(Code::kBadOption, "{}the module has no symbolic size `{}`{}", of, name, did_you_mean(name, names));
  std::string known;
  for (const std::string& n : names) known += (known.empty() ? "" : ", ") + n;
  d.help = names.empty() ? "all of its sizes are fixed"
                         : fmt::format("its sizes are {}; one that equals an expression of others is none", known);
  return d;
}

std::vector<SymbolRef> with_facts(const std::vector<SymbolRef>& symbols,
                                  const std::vector<SizeConstraint>& constraints) {
  auto bare = [](const Dim& d) {
    return d.substitute([](const SymbolRef& s) {
      Symbol plain = *s;
      plain.facts = nullptr;  // facts hold symbols: with facts of their own they would hold each other
      return Dim::symbol(std::make_shared<const Symbol>(std::move(plain)));
    });
  };
  std::map<std::string, std::vector<Dim>> facts;
  for (const auto& [relation, location] : constraints) {
    Dim left = bare(relation.left), right = bare(relation.right), gap = right - left;
    if (gap.is_static()) continue;
    bool less = relation.kind == SizeRelation::Kind::kLess, equal = relation.kind == SizeRelation::Kind::kEqual;
    for (const SymbolRef& s : gap.symbols()) {
      facts[s->name].push_back(less ? gap - 1 : gap);
      if (equal) facts[s->name].push_back(left - right);
    }
  }
  std::vector<SymbolRef> out;
  for (const SymbolRef& s : symbols) {
    auto known = facts.find(s->name);
    if (known == facts.end() && !s->facts) {
      out.push_back(s);
      continue;
    }
    Symbol with = *s;
    with.facts = known == facts.end() ? nullptr : std::make_shared<const std::vector<Dim>>(std::move(known->second));
    out.push_back(std::make_shared<const Symbol>(std::move(with)));
  }
  return out;
}

std::vector<SymbolRef> without_coordinates(std::vector<SymbolRef> symbols) {
  std::erase_if(symbols, [](const SymbolRef& s) { return !s->axis.empty(); });
  return symbols;
}

std::vector<SymbolRef> symbols_of(const Function& function) {
  std::vector<SymbolRef> out;
  std::set<std::string> seen;
  auto add = [&](const Shape& shape) {
    for (const Dim& d : shape)
      for (const SymbolRef& s : d.symbols())
        if (seen.insert(s->name).second) out.push_back(s);
  };
  for (const Value& v : function.values) add(v.type.shape);
  for (const Node& node : function.nodes) {
    // The size of a batch rule is that of any batch: vmap tells it, no input does.
    if (node.op->name == "custom_vmap") continue;
    for (const auto& [name, attr] : node.attrs)
      if (const Shape* shape = std::get_if<Shape>(&attr)) add(*shape);
  }
  return out;
}

namespace {

/// The extents of an entry's inputs as equations for its symbols.
class Equations {
 public:
  Equations(const Entry& entry, const Function& function) : entry_(entry), function_(function) {}

  /// From the first extent in which the symbol is the only one that is not known.
  std::optional<SizeSource> source(const SymbolRef& s) const {
    std::optional<SizeSource> found;
    each([&](size_t input, size_t dimension, const Dim& extent) {
      std::optional<SymbolSplit> split = found ? std::nullopt : split_at(extent, s->name);
      if (split && unknown(split->factor).empty() && unknown(split->rest).empty() && never_zero(split->factor))
        found = SizeSource{s, input, dimension, split->factor, split->rest};
    });
    return found;
  }

  void learn(const std::string& symbol) { known_.insert(symbol); }

  Diagnostic unsolved(const SymbolRef& s) const {
    Diagnostic d = error(Code::kUndecidable, "entry `{}`: no input has a dimension that tells the size of {}",
                         entry_.name, s->name);
    d.location = function_.location;
    each([&](size_t input, size_t dimension, const Dim& extent) {
      std::vector<std::string> others = unknown(extent);
      if (std::erase(others, s->name) == 0) return;
      std::optional<SymbolSplit> split = split_at(extent, s->name);
      std::string why = !split            ? fmt::format("is not a product or sum with {} once in it", s->name)
                        : !others.empty() ? fmt::format("would tell it if another input told {}", others[0])
                                          : fmt::format("tells nothing where {} is 0", split->factor.str());
      d.notes.push_back(fmt::format("dimension {} of input `{}` is {}, which {}", dimension, entry_.inputs[input],
                                    extent.str(), why));
    });
    d.help = fmt::format("give an input a dimension of size {}, or of a known size times {} plus a known size", s->name,
                         s->name);
    return d;
  }

 private:
  template <class F>
  void each(const F& f) const {
    for (size_t i = 0; i < entry_.inputs.size(); ++i) {
      const Shape& shape = function_.type(function_.params[entry_.reads.size() + i]).shape;
      for (size_t d = 0; d < shape.size(); ++d) f(i, d, shape[d]);
    }
  }
  std::vector<std::string> unknown(const Dim& d) const {
    std::vector<std::string> out;
    for (const SymbolRef& s : d.symbols())
      if (!known_.count(s->name)) out.push_back(s->name);
    return out;
  }
  static bool never_zero(const Dim& d) {
    Interval bounds = d.bounds();
    return bounds.min > 0 || bounds.max < 0;
  }

  const Entry& entry_;
  const Function& function_;
  std::set<std::string> known_;
};

}  // namespace

Result<std::vector<SizeSource>> size_sources(const Entry& entry, const Function& function,
                                             const std::vector<SymbolRef>& wanted) {
  Equations equations(entry, function);
  std::vector<SizeSource> out;
  std::vector<SymbolRef> left = wanted;
  while (!left.empty()) {
    size_t before = out.size();
    // What this round tells is used from the next one on: an extent of one symbol alone comes first.
    std::erase_if(left, [&](const SymbolRef& s) {
      std::optional<SizeSource> found = equations.source(s);
      if (found) out.push_back(std::move(*found));
      return found.has_value();
    });
    if (out.size() == before) return equations.unsolved(left[0]);
    for (; before < out.size(); ++before) equations.learn(out[before].symbol->name);
  }
  return out;
}

namespace {

// value[to] <= value[from] + length. Node 0 is the number 0.
struct Edge {
  size_t from, to;
  int64_t length;
  size_t constraint;  ///< whose edge it is; kRange: a symbol's range
};
constexpr size_t kRange = static_cast<size_t>(-1);
using Distance = __int128;  // sums of lengths do not overflow

// gap >= 0 as an edge, where gap is x - y + k, x + k or k - y.
std::optional<Edge> edge_of(const Dim& gap, const std::map<std::string, size_t>& nodes, size_t constraint) {
  Edge out{0, 0, 0, constraint};
  Dim rest = gap;
  for (const SymbolRef& s : gap.symbols()) {
    std::optional<SymbolSplit> split = split_at(rest, s->name);
    auto node = nodes.find(s->name);
    if (!split || node == nodes.end()) return std::nullopt;
    bool positive = split->factor.is(1);
    if (!positive && !split->factor.is(-1)) return std::nullopt;
    size_t& end = positive ? out.from : out.to;
    if (end != 0) return std::nullopt;
    end = node->second;
    rest = split->rest;
  }
  if (!rest.is_static()) return std::nullopt;
  out.length = rest.value();
  return out;
}

std::vector<Edge> edges_of(const std::vector<SymbolRef>& symbols, const std::vector<SizeConstraint>& constraints) {
  std::map<std::string, size_t> nodes;
  std::vector<Edge> edges;
  for (const SymbolRef& s : symbols) {
    size_t node = nodes.emplace(s->name, nodes.size() + 1).first->second;
    edges.push_back({0, node, s->max, kRange});
    edges.push_back({node, 0, -s->min, kRange});
  }
  for (size_t i = 0; i < constraints.size(); ++i) {
    const SizeRelation& r = constraints[i].relation;
    Dim gap = r.kind == SizeRelation::Kind::kLess ? r.right - r.left - 1 : r.right - r.left;
    if (std::optional<Edge> e = edge_of(gap, nodes, i)) edges.push_back(*e);
    if (r.kind != SizeRelation::Kind::kEqual) continue;
    if (std::optional<Edge> e = edge_of(r.left - r.right, nodes, i)) edges.push_back(*e);
  }
  return edges;
}

}  // namespace

std::vector<size_t> contradicting_cycle(const std::vector<SymbolRef>& symbols,
                                        const std::vector<SizeConstraint>& constraints) {
  std::vector<Edge> edges = edges_of(symbols, constraints);
  std::vector<Distance> distance(symbols.size() + 1, 0);
  std::vector<const Edge*> last(symbols.size() + 1, nullptr);
  size_t changed = 0;
  for (size_t round = 0; round <= symbols.size() + 1; ++round) {
    changed = distance.size();
    for (const Edge& e : edges) {
      if (distance[e.to] <= distance[e.from] + e.length) continue;
      distance[e.to] = distance[e.from] + e.length;
      last[e.to] = &e;
      changed = e.to;
    }
    if (changed == distance.size()) return {};
  }
  // What still changes hangs on a cycle: as many steps back lead into it.
  for (size_t i = 0; i < distance.size(); ++i) changed = last[changed]->from;
  std::set<size_t> members;
  size_t node = changed;
  do {
    if (last[node]->constraint != kRange) members.insert(last[node]->constraint);
    node = last[node]->from;
  } while (node != changed);
  return {members.begin(), members.end()};
}

std::string relations_text(const std::vector<SizeConstraint>& constraints, const std::vector<size_t>& indices,
                           size_t without) {
  std::string out;
  for (size_t i : indices)
    if (i != without) out += (out.empty() ? "" : ", ") + constraints[i].relation.str();
  return out;
}

}  // namespace nabla::ir
