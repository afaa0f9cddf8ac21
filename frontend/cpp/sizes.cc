#include "frontend/cpp/sizes.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

#include "frontend/cpp/frame.h"
#include "ir/symbols.h"

namespace nabla {
namespace {

int64_t floor_div(int64_t a, int64_t b) { return a / b - ((a % b != 0) && ((a < 0) != (b < 0))); }

std::string range_text(const ir::Symbol& s) {
  std::string out = fmt::format("[{}, {}]", s.min, s.max);
  return s.multiple == 1 ? out : fmt::format("{}, a multiple of {}", out, s.multiple);
}

// The ends moved to the nearest multiples inside.
void tighten(ir::Symbol& s) {
  s.min = -floor_div(-s.min, s.multiple) * s.multiple;
  s.max = floor_div(s.max, s.multiple) * s.multiple;
}

}  // namespace

ir::Dim SizeRules::declare(const std::string& name, int64_t min, int64_t max, int64_t multiple, const Site& site) {
  if (known_.count(name)) throw error_at(site, Code::kDuplicateName, "the size `{}` is declared twice", name);
  if (multiple < 1 || min < 0)
    throw error_at(site, Code::kInvalidModule, "size {}: min is {}, multiple {}; at least 0 and 1 are needed", name,
                   min, multiple);
  ir::Symbol s{name, min, max, multiple};
  tighten(s);
  if (s.min > s.max)
    throw error_at(site, Code::kInvalidModule, "size {}: no integer is in [{}, {}] and a multiple of {}", name, min,
                   max, multiple);
  Reason reason{fmt::format("{} in {}", name, range_text(s)), locate(site, "")};
  s.location = reason.place;
  auto symbol = std::make_shared<const ir::Symbol>(s);
  known_[name] = {symbol, ir::Dim::symbol(symbol), {reason}};
  order_.push_back(name);
  return known_[name].value;
}

ir::Dim SizeRules::resolve(const ir::Dim& d) const {
  return d.substitute([&](const ir::SymbolRef& s) {
    auto it = known_.find(s->name);
    return it == known_.end() ? ir::Dim::symbol(s) : it->second.value;
  });
}

ir::Shape SizeRules::resolve(const ir::Shape& shape) const {
  ir::Shape out;
  for (const ir::Dim& d : shape) out.push_back(resolve(d));
  return out;
}

ir::Attrs SizeRules::resolve(ir::Attrs attrs) const {
  ir::Attrs out = attrs;
  for (const auto& [name, attr] : attrs)
    if (const Shape* shape = std::get_if<Shape>(&attr)) out.set(name, resolve(*shape));
  return out;
}

std::vector<ir::SymbolRef> SizeRules::symbols() const {
  std::vector<ir::SymbolRef> out;
  for (const std::string& name : order_) {
    const Known& k = known_.at(name);
    if (!k.value.is_static() && k.value == ir::Dim::symbol(k.symbol)) out.push_back(k.symbol);
  }
  return out;
}

void SizeRules::conflict(const std::string& message, const std::vector<std::string>& symbols,
                         const Reason& reason) const {
  Diagnostic d = error(Code::kInvalidModule, "no sizes satisfy {}: {}", reason.text, message);
  d.location = reason.place;
  for (const std::string& name : symbols)
    for (const Reason& r : known_.at(name).reasons) {
      std::string note = fmt::format("{} is declared{}", r.text, at_place(r.place));
      if (r.place && !r.place->text.empty()) note += ": " + r.place->text;
      if (std::find(d.notes.begin(), d.notes.end(), note) == d.notes.end()) d.notes.push_back(note);
    }
  d.help = "change one of the declarations";
  throw Error(std::move(d));
}

void SizeRules::require_equal(const ir::Dim& a, const ir::Dim& b, const Site& site) {
  Reason reason{fmt::format("{} == {}", a.str(), b.str()), locate(site, "")};
  ir::Dim left = resolve(a), right = resolve(b), difference = left - right;
  if (difference.is(0)) return;
  std::vector<std::string> names;
  for (const ir::Dim* d : {&a, &b})
    for (const ir::SymbolRef& s : d->symbols()) names.push_back(s->name);
  if (std::optional<bool> same = ir::Dim::equal(left, right); same.has_value() && !*same) {
    auto equal = ir::SizeRelation::Kind::kEqual;
    conflict(ir::contradiction({a, equal, b}, {left, equal, right}), names, reason);
  }
  if (solve(difference, reason)) return;
  Diagnostic d = error(Code::kUndecidable, "the constraint {} cannot be solved for one of its sizes", reason.text);
  d.location = reason.place;
  d.help = "declare a smaller size and write the others as sums and products of it";
  throw Error(std::move(d));
}

// Removes a symbol that stands alone, times 1 or -1: the youngest, so that what came first keeps its name.
bool SizeRules::solve(const ir::Dim& difference, const Reason& reason) {
  for (auto name = order_.rbegin(); name != order_.rend(); ++name) {
    ir::SymbolRef s = known_.at(*name).symbol;
    auto with = [&](int64_t x) {
      return difference.substitute(
          [&](const ir::SymbolRef& t) { return t->name == *name ? ir::Dim(x) : ir::Dim::symbol(t); });
    };
    ir::Dim rest = with(0), factor = with(1) - rest;
    if (!factor.is(1) && !factor.is(-1)) continue;
    if (!(factor * ir::Dim::symbol(s) + rest == difference)) continue;
    set(*name, factor.is(1) ? ir::Dim(0) - rest : rest, reason);
    return true;
  }
  return false;
}

void SizeRules::set(const std::string& name, const ir::Dim& value, const Reason& reason) {
  ir::Symbol range = *known_.at(name).symbol;
  std::vector<std::string> names{name};
  for (const ir::SymbolRef& s : value.symbols()) names.push_back(s->name);
  ir::Interval bounds = value.bounds();
  if (std::optional<ir::Dim::Linear> linear = value.linear()) {
    narrow(*linear, range, reason);
  } else if (bounds.min > range.max || bounds.max < range.min) {
    conflict(
        fmt::format("{} is in [{}, {}], but {} in {}", value.str(), bounds.min, bounds.max, name, range_text(range)),
        names, reason);
  } else if (bounds.min < range.min || bounds.max > range.max || !ir::Dim::mod(value, range.multiple).is(0)) {
    Diagnostic d = error(Code::kUndecidable, "{}: {} is in [{}, {}], but {} only in {}", reason.text, value.str(),
                         bounds.min, bounds.max, name, range_text(range));
    d.location = reason.place;
    d.help = fmt::format("declare {} with a range that holds all values of {}", name, value.str());
    throw Error(std::move(d));
  }
  known_.at(name).value = resolve(value);
  known_.at(name).reasons.push_back(reason);
  refresh();
}

void SizeRules::refresh() {
  std::vector<ir::SizeConstraint> kept;
  std::vector<ir::SymbolRef> free = symbols();
  for (ir::SizeConstraint& c : constraints_) {
    ir::SizeRelation now{resolve(c.relation.left), c.relation.kind, resolve(c.relation.right)};
    if ((now.right - now.left).is_static() && now.holds().value_or(false)) continue;
    if (now.impossible()) {
      std::vector<std::string> names;
      for (const ir::Dim* d : {&c.relation.left, &c.relation.right})
        for (const ir::SymbolRef& s : d->symbols()) names.push_back(s->name);
      for (const ir::SymbolRef& s : (now.right - now.left).symbols()) names.push_back(s->name);
      conflict(fmt::format("with the other declarations it is {}", now.str()), names, {c.relation.str(), c.location});
    }
    kept.push_back({std::move(now), c.location});
  }
  constraints_ = std::move(kept);
  for (const ir::SymbolRef& s : ir::with_facts(free, constraints_)) {
    Known& k = known_.at(s->name);
    k.symbol = s;
    k.value = ir::Dim::symbol(s);
  }
  for (auto& [other, known] : known_) known.value = resolve(known.value);
}

void SizeRules::require(const ir::SizeRelation& relation, const Site& site) {
  if (relation.kind == ir::SizeRelation::Kind::kEqual) return require_equal(relation.left, relation.right, site);
  Reason reason{relation.str(), locate(site, "")};
  const ir::SizeRelation now{resolve(relation.left), relation.kind, resolve(relation.right)};
  std::vector<std::string> names;
  for (const ir::Dim* d : {&relation.left, &relation.right, &now.left, &now.right})
    for (const ir::SymbolRef& s : d->symbols()) names.push_back(s->name);
  if (now.impossible()) {
    conflict(ir::contradiction(relation, now), names, reason);
  }
  if (now.holds().value_or(false)) return;
  ir::Dim gap = now.right - now.left;
  if (!narrow_by_bound(now.kind == ir::SizeRelation::Kind::kLess ? gap - 1 : gap, reason)) {
    if (constraints_.size() == ir::kMaxConstraints)
      throw error_at(site, Code::kTooLarge, "{} constraints between sizes, at most {} are allowed",
                     constraints_.size() + 1, ir::kMaxConstraints);
    refuse_cycle({now, reason.place}, reason);
    constraints_.push_back({now, reason.place});
    for (const ir::SymbolRef& s : gap.symbols()) known_.at(s->name).reasons.push_back(reason);
  }
  refresh();
}

// Of what a constraint contradicts only together with several others.
void SizeRules::refuse_cycle(const ir::SizeConstraint& newest, const Reason& reason) const {
  std::vector<ir::SizeConstraint> all = constraints_;
  all.push_back(newest);
  std::vector<size_t> cycle = ir::contradicting_cycle(symbols(), all);
  if (cycle.empty()) return;
  std::vector<std::string> names;
  for (size_t i : cycle)
    for (const ir::SymbolRef& s : (all[i].relation.right - all[i].relation.left).symbols()) names.push_back(s->name);
  conflict("not together with " + ir::relations_text(all, cycle, constraints_.size()), names, reason);
}

// gap >= 0 as a range of its symbol, where it has one symbol alone.
bool SizeRules::narrow_by_bound(const ir::Dim& gap, const Reason& reason) {
  std::vector<ir::SymbolRef> symbols = gap.symbols();
  if (symbols.size() != 1) return false;
  std::optional<ir::SymbolSplit> split = ir::split_at(gap, symbols[0]->name);
  if (!split) return false;
  Known& k = known_.at(symbols[0]->name);
  ir::Symbol now = *k.symbol;
  int64_t factor = split->factor.value(), rest = split->rest.value();
  if (factor > 0)
    now.min = std::max(now.min, -floor_div(rest, factor));
  else
    now.max = std::min(now.max, floor_div(rest, -factor));
  tighten(now);
  if (now.min > now.max) conflict(fmt::format("{} is in {}", now.name, range_text(*k.symbol)), {now.name}, reason);
  k.symbol = std::make_shared<const ir::Symbol>(now);
  k.value = ir::Dim::symbol(k.symbol);
  k.reasons.push_back(reason);
  return true;
}

void SizeRules::narrow(const ir::Dim::Linear& linear, const ir::Symbol& range, const Reason& reason) {
  const auto& [s, scale, offset] = linear;
  Known& k = known_.at(s->name);
  ir::Symbol now = *k.symbol;
  now.min = std::max(now.min, -floor_div(-(range.min - offset), scale));
  now.max = std::min(now.max, floor_div(range.max - offset, scale));
  // scale * s + offset is a multiple of m where s is first + a multiple of step.
  int64_t m = range.multiple, step = m / std::gcd(scale, m), first = 0;
  while (first < step && (scale * first + offset) % m != 0) ++first;
  if (first > 0 && first < step) {
    Diagnostic d =
        error(Code::kUndecidable, "{}: {} would be {} more than a multiple of {}", reason.text, s->name, first, step);
    d.location = reason.place;
    d.help = "declare a smaller size and write the others as sums and products of it";
    throw Error(std::move(d));
  }
  if (first == 0) now.multiple = std::lcm(now.multiple, step);
  tighten(now);
  if (first == step || now.min > now.max)
    conflict(
        fmt::format("{} is {}*{}+{}, and {} in {}", range.name, scale, s->name, offset, range.name, range_text(range)),
        {range.name, s->name}, reason);
  k.symbol = std::make_shared<const ir::Symbol>(now);
  k.value = ir::Dim::symbol(k.symbol);
  k.reasons.push_back(reason);
}

}  // namespace nabla
