#include "ir/dim.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <string_view>

#include "runtime/base/check.h"

namespace nabla::ir {

enum class AtomKind { kSymbol, kFloorDiv, kMod, kMin, kMax };

struct Dim::Atom {
  AtomKind kind;
  SymbolRef symbol;  // kSymbol only
  Dim a, b;          // the others
  std::string key;   // canonical text: equality and order
  Interval range;    // what bounds() of it alone would say: found once, or nested sizes would cost two to their depth
};
struct Dim::Term {
  int64_t coefficient;
  std::vector<std::shared_ptr<const Atom>> factors;  // sorted by key, repeated for powers; empty: the constant
  std::string key() const {
    std::string out;
    for (const auto& f : factors) out += (out.empty() ? "" : "*") + f->key;
    return out;
  }
};

namespace {
int64_t floor_div(int64_t a, int64_t b) { return a / b - ((a % b != 0) && ((a < 0) != (b < 0))); }
int64_t saturating_mul(int64_t a, int64_t b) {
  int64_t out;
  return __builtin_mul_overflow(a, b, &out) ? ((a < 0) == (b < 0) ? INT64_MAX : INT64_MIN) : out;
}
int64_t saturating_add(int64_t a, int64_t b) {
  int64_t out;
  return __builtin_add_overflow(a, b, &out) ? (a > 0 ? INT64_MAX : INT64_MIN) : out;
}
Interval add(Interval x, Interval y) { return {saturating_add(x.min, y.min), saturating_add(x.max, y.max)}; }
Interval quotient(Interval x, Interval y) {  // y is positive
  int64_t q[] = {floor_div(x.min, y.min), floor_div(x.min, y.max), floor_div(x.max, y.min), floor_div(x.max, y.max)};
  return {*std::min_element(q, q + 4), *std::max_element(q, q + 4)};
}
Interval multiply(Interval x, Interval y) {
  int64_t p[] = {saturating_mul(x.min, y.min), saturating_mul(x.min, y.max), saturating_mul(x.max, y.min),
                 saturating_mul(x.max, y.max)};
  return {*std::min_element(p, p + 4), *std::max_element(p, p + 4)};
}

// A sum of products of numbers that are each in a range.
struct Polynomial {
  struct Term {
    int64_t coefficient;
    std::vector<int> factors;  // indices into `ranges`, repeated for powers
  };
  std::vector<Interval> ranges;
  std::vector<Term> terms;

  // Adds the ranges of the terms. Exact if no number is in two terms of opposite sign.
  Interval sum() const {
    Interval out{0, 0};
    for (const Term& t : terms) {
      Interval product{t.coefficient, t.coefficient};
      for (int f : t.factors) product = multiply(product, ranges[f]);
      out = add(out, product);
    }
    return out;
  }
  Polynomial derivative(int number) const {
    Polynomial out{ranges, {}};
    for (Term t : terms) {
      auto power = std::count(t.factors.begin(), t.factors.end(), number);
      if (power == 0) continue;
      t.coefficient = saturating_mul(t.coefficient, power);
      t.factors.erase(std::find(t.factors.begin(), t.factors.end(), number));
      out.terms.push_back(std::move(t));
    }
    return out;
  }
  // Terms of the same factors are added, so that what cancels is gone.
  Polynomial with(int number, int64_t value) const {
    std::map<std::vector<int>, int64_t> sums;
    for (Term t : terms) {
      for (int f : t.factors)
        if (f == number) t.coefficient = saturating_mul(t.coefficient, value);
      std::erase(t.factors, number);
      int64_t& sum = sums[t.factors];
      sum = saturating_add(sum, t.coefficient);
    }
    Polynomial out{ranges, {}};
    for (const auto& [factors, coefficient] : sums)
      if (coefficient != 0) out.terms.push_back({coefficient, factors});
    return out;
  }
  bool has_both_signs(int number) const {
    int signs = 0;
    for (const Term& t : terms)
      if (std::find(t.factors.begin(), t.factors.end(), number) != t.factors.end()) signs |= t.coefficient > 0 ? 1 : 2;
    return signs == 3;
  }
  // If the sum rises or falls along a number over its whole range, the sum's ends are at the ends of that range. So
  // batch*length - batch has the bounds of batch*(length-1): the bound of a tensor's elements is the product of the
  // bounds of its sizes.
  Interval bounds() const {
    constexpr size_t kMostTerms = 32;
    Interval least = sum();
    if (terms.size() > kMostTerms || least.min == INT64_MIN || least.max == INT64_MAX) return least;
    for (int i = 0; i < static_cast<int>(ranges.size()); ++i) {
      if (!has_both_signs(i)) continue;
      Interval rise = derivative(i).bounds();
      if (rise.min < 0 && rise.max > 0) continue;
      Interval low = with(i, ranges[i].min).bounds(), high = with(i, ranges[i].max).bounds();
      if (rise.min < 0) std::swap(low, high);
      return {std::max(least.min, low.min), std::min(least.max, high.max)};
    }
    return least;
  }
};
}  // namespace

Dim::Terms Dim::terms() const {
  if (terms_) return *terms_;
  return value_ == 0 ? Terms{} : Terms{{value_, {}}};
}

Dim Dim::from_terms(Terms in) {
  std::sort(in.begin(), in.end(), [](const Term& x, const Term& y) { return x.key() < y.key(); });
  Terms out;
  for (Term& t : in) {
    if (!out.empty() && out.back().key() == t.key())
      out.back().coefficient = saturating_add(out.back().coefficient, t.coefficient);
    else
      out.push_back(std::move(t));
  }
  std::erase_if(out, [](const Term& t) { return t.coefficient == 0; });
  if (out.empty()) return Dim(0);
  if (out.size() == 1 && out[0].factors.empty()) return Dim(out[0].coefficient);
  Dim d;
  d.terms_ = std::make_shared<const Terms>(std::move(out));
  return d;
}

Dim Dim::from_atom(Atom atom) {
  auto name = [&](const char* op) { return std::string(op) + "(" + atom.a.str() + "," + atom.b.str() + ")"; };
  bool bare = atom.kind == AtomKind::kSymbol;
  Interval x = bare ? Interval{atom.symbol->min, atom.symbol->max} : atom.a.bounds();
  Interval y = bare ? x : atom.b.bounds();
  switch (atom.kind) {
    case AtomKind::kSymbol:
      atom.key = atom.symbol->name;
      atom.range = x;
      break;
    case AtomKind::kFloorDiv:
      atom.key = name("floordiv");
      atom.range = quotient(x, y);
      break;
    case AtomKind::kMod:
      atom.key = name("mod");
      atom.range = {0, x.min >= 0 ? std::min(x.max, y.max - 1) : y.max - 1};
      break;
    case AtomKind::kMin:
      atom.key = name("min");
      atom.range = {std::min(x.min, y.min), std::min(x.max, y.max)};
      break;
    case AtomKind::kMax:
      atom.key = name("max");
      atom.range = {std::max(x.min, y.min), std::max(x.max, y.max)};
      break;
  }
  return from_terms({{1, {std::make_shared<const Atom>(std::move(atom))}}});
}

Dim Dim::symbol(SymbolRef symbol) {
  if (symbol->min == symbol->max) return Dim(symbol->min);
  return from_atom({AtomKind::kSymbol, std::move(symbol), {}, {}, {}, {}});
}

int64_t Dim::value() const {
  NABLA_CHECK(is_static(), "{} is not static", str());
  return value_;
}

Dim Dim::operator+(const Dim& other) const {
  if (is_static() && other.is_static()) return Dim(saturating_add(value_, other.value_));
  Terms sum = terms();
  for (const Term& t : other.terms()) sum.push_back(t);
  return from_terms(std::move(sum));
}

Dim Dim::operator-(const Dim& other) const { return *this + other * Dim(-1); }

Dim Dim::operator*(const Dim& other) const {
  if (is_static() && other.is_static()) return Dim(saturating_mul(value_, other.value_));
  Terms product;
  for (const Term& x : terms())
    for (const Term& y : other.terms()) {
      Term t{saturating_mul(x.coefficient, y.coefficient), x.factors};
      t.factors.insert(t.factors.end(), y.factors.begin(), y.factors.end());
      std::sort(t.factors.begin(), t.factors.end(), [](const auto& p, const auto& q) { return p->key < q->key; });
      product.push_back(std::move(t));
    }
  return from_terms(std::move(product));
}

int64_t Dim::common_divisor(const Dim& a, int64_t b) {
  int64_t g = b;
  for (const Term& t : a.terms()) g = std::gcd(g, t.coefficient);
  return g;
}

Dim Dim::divided(const Dim& a, int64_t g) {
  Terms out = a.terms();
  for (Term& t : out) t.coefficient /= g;
  return from_terms(std::move(out));
}

// The quotient where b is one product of atoms that every term of a contains.
std::optional<Dim> Dim::exact_quotient(const Dim& a, const Dim& b) {
  Terms divisor = b.terms(), quotient = a.terms();
  if (divisor.size() != 1) return std::nullopt;
  for (Term& q : quotient) {
    if (q.coefficient % divisor[0].coefficient != 0) return std::nullopt;
    q.coefficient /= divisor[0].coefficient;
    for (const auto& f : divisor[0].factors) {
      auto it = std::find_if(q.factors.begin(), q.factors.end(), [&](const auto& g) { return g->key == f->key; });
      if (it == q.factors.end()) return std::nullopt;
      q.factors.erase(it);
    }
  }
  return from_terms(std::move(quotient));
}

Dim Dim::floordiv(const Dim& a, const Dim& b) {
  NABLA_CHECK(b.bounds().min > 0, "division of {} by {}", a.str(), b.str());
  if (a.is_static() && b.is_static()) return Dim(floor_div(a.value_, b.value_));
  if (std::optional<Dim> exact = exact_quotient(a, b)) return *exact;
  if (b.is_static()) {
    // Terms that the divisor divides leave the quotient: floordiv(8*n + r, 8) = n + floordiv(r, 8).
    Terms whole, rest;
    for (const Term& t : a.terms()) {
      if (t.coefficient % b.value_ == 0)
        whole.push_back({t.coefficient / b.value_, t.factors});
      else
        rest.push_back(t);
    }
    if (!whole.empty()) return from_terms(whole) + floordiv(from_terms(rest), b);
    if (int64_t g = common_divisor(a, b.value_); g > 1) return floordiv(divided(a, g), Dim(b.value_ / g));
  }
  Interval q = quotient(a.bounds(), b.bounds());
  if (q.min == q.max) return Dim(q.min);
  return from_atom({AtomKind::kFloorDiv, nullptr, a, b, {}, {}});
}

Dim Dim::mod(const Dim& a, const Dim& b) {
  NABLA_CHECK(b.bounds().min > 0, "{} modulo {}", a.str(), b.str());
  if (a.is_static() && b.is_static()) return Dim(a.value_ - b.value_ * floor_div(a.value_, b.value_));
  if (exact_quotient(a, b)) return Dim(0);
  if (b.is_static()) {
    // Multiples of the divisor vanish; so do multiples of a symbol, or of a part of one, that is one itself.
    Terms rest;
    for (const Term& t : a.terms()) {
      int64_t step = t.coefficient;
      for (const auto& f : t.factors) {
        if (f->kind == AtomKind::kSymbol) step = saturating_mul(step, std::gcd(f->symbol->multiple, b.value_));
        if (f->kind != AtomKind::kFloorDiv || !f->b.is_static()) continue;
        int64_t missing = b.value_ / std::gcd(step, b.value_);
        if (mod(f->a, Dim(saturating_mul(f->b.value_, missing))).is(0)) step = saturating_mul(step, missing);
      }
      int64_t coefficient = t.coefficient - b.value_ * floor_div(t.coefficient, b.value_);
      if (step % b.value_ != 0) rest.push_back({coefficient, t.factors});
    }
    Dim reduced = from_terms(std::move(rest));
    if (!(reduced == a)) return mod(reduced, b);
    if (int64_t g = common_divisor(a, b.value_); g > 1) return Dim(g) * mod(divided(a, g), Dim(b.value_ / g));
  }
  Interval r = a.bounds();
  if (r.min >= 0 && r.max < b.bounds().min) return a;
  return from_atom({AtomKind::kMod, nullptr, a, b, {}, {}});
}

Dim Dim::min(const Dim& a, const Dim& b) {
  if (less_equal(a, b).value_or(false)) return a;
  if (less_equal(b, a).value_or(false)) return b;
  bool ordered = a.str() <= b.str();
  return from_atom({AtomKind::kMin, nullptr, ordered ? a : b, ordered ? b : a, {}, {}});
}

Dim Dim::max(const Dim& a, const Dim& b) {
  if (less_equal(a, b).value_or(false)) return b;
  if (less_equal(b, a).value_or(false)) return a;
  bool ordered = a.str() <= b.str();
  return from_atom({AtomKind::kMax, nullptr, ordered ? a : b, ordered ? b : a, {}, {}});
}

bool Dim::operator==(const Dim& other) const {
  if (is_static() || other.is_static()) return is_static() && other.is_static() && value_ == other.value_;
  if (terms_ == other.terms_) return true;
  return std::equal(terms_->begin(), terms_->end(), other.terms_->begin(), other.terms_->end(),
                    [](const Term& x, const Term& y) { return x.coefficient == y.coefficient && x.key() == y.key(); });
}

// The difference with every symbol that is a multiple of m written as m * (another symbol), so that divisions cancel.
Dim Dim::difference(const Dim& a, const Dim& b) {
  Dim d = a - b;
  std::vector<SymbolRef> symbols = d.symbols();
  // Substitution compares sizes again at every nested min and max: it must not happen for nothing.
  if (std::none_of(symbols.begin(), symbols.end(), [](const SymbolRef& s) { return s->multiple > 1; })) return d;
  return d.substitute([](const SymbolRef& s) {
    if (s->multiple <= 1) return symbol(s);
    int64_t m = s->multiple;
    // Another name: facts of other symbols speak of the whole one.
    Symbol part{fmt::format("{}/{}", s->name, m), -floor_div(-s->min, m), floor_div(s->max, m), 1};
    return Dim(m) * symbol(std::make_shared<const Symbol>(part));
  });
}

// Whether the bounds say a <= b, alone or beside one fact.
bool Dim::never_above(const Dim& a, const Dim& b) {
  Dim d = b - a;
  if (difference(b, a).bounds().min >= 0) return true;
  for (const SymbolRef& s : d.symbols())
    for (size_t i = 0; s->facts && i < s->facts->size(); ++i)
      if (difference(d, (*s->facts)[i]).bounds().min >= 0) return true;
  return false;
}

// Whether no integers make the sum 0. A term c*x, with x in its range, must be the negative of the others; these are
// `rest` more than a multiple of the divisor g that their coefficients have in common, and within their own bounds. The
// values of x that fit repeat after g, so few need to be tried.
bool Dim::never_zero(const Dim& d) {
  constexpr int64_t kMostTries = 4096;
  Terms all = d.terms();
  for (size_t i = 0; i < all.size(); ++i) {
    if (all[i].factors.empty()) continue;
    Terms others = all;
    others.erase(others.begin() + static_cast<std::ptrdiff_t>(i));
    int64_t c = all[i].coefficient, g = 0, rest = 0;
    for (const Term& t : others)
      (t.factors.empty() ? rest : g) = t.factors.empty() ? t.coefficient : std::gcd(g, t.coefficient);
    Interval x = from_terms({{1, all[i].factors}}).bounds(), sum = from_terms(others).bounds();
    if (sum.min == INT64_MIN || sum.max == INT64_MAX || c == INT64_MIN) continue;
    // c*x = -sum bounds x.
    Interval need{c > 0 ? -sum.max : sum.min, c > 0 ? -sum.min : sum.max};
    int64_t size = std::abs(c);
    x.min = std::max(x.min, -floor_div(-need.min, size));
    x.max = std::min(x.max, floor_div(need.max, size));
    int64_t period = g == 0 ? 1 : g / std::gcd(g, c), tries = 0;
    bool fits = period > kMostTries;
    for (int64_t v = x.min; !fits && v <= x.max && tries < period; ++v, ++tries)
      fits = g == 0 || (static_cast<__int128>(c) * v + rest) % g == 0;
    if (!fits) return true;
  }
  return false;
}

std::optional<bool> Dim::equal(const Dim& a, const Dim& b) {
  Dim d = difference(a, b);
  if (d.is_static()) return d.value_ == 0;
  if (never_zero(d)) return false;
  if (never_above(a + 1, b) || never_above(b + 1, a)) return false;
  if (never_above(a, b) && never_above(b, a)) return true;
  return std::nullopt;
}

std::optional<bool> Dim::less_equal(const Dim& a, const Dim& b) {
  if (never_above(a, b)) return true;
  if (never_above(b + 1, a)) return false;
  return std::nullopt;
}

// The sum with its atoms as independent numbers.
static Polynomial polynomial_of(const auto& terms) {
  Polynomial out;
  std::map<std::string_view, int> index;
  for (const auto& t : terms) {
    out.terms.push_back({t.coefficient, {}});
    for (const auto& f : t.factors) {
      auto [at, added] = index.emplace(f->key, static_cast<int>(out.ranges.size()));
      if (added) out.ranges.push_back(f->range);
      out.terms.back().factors.push_back(at->second);
    }
  }
  return out;
}

Interval Dim::bounds() const {
  if (is_static()) return {value_, value_};
  Interval sum{0, 0};
  bool facts = false, up = false, down = false;
  for (const Term& t : *terms_) {
    Interval product{t.coefficient, t.coefficient};
    for (const auto& f : t.factors) {
      facts = facts || (f->kind == AtomKind::kSymbol && f->symbol->facts);
      product = multiply(product, f->range);
    }
    sum = add(sum, product);
    if (!t.factors.empty()) (t.coefficient > 0 ? up : down) = true;
  }
  if (up && down) sum = polynomial_of(*terms_).bounds();
  // floordiv(x, k) is (x - mod(x, k)) / k. Times all the k, the sum has x itself in the place of its quotients, and terms
  // of x cancel: 2 * (n - floordiv(n, 2)) is n + mod(n, 2).
  auto is_quotient = [](const auto& f) { return f->kind == AtomKind::kFloorDiv && f->b.is_static(); };
  auto divisor = [&](const Term& t) {
    int64_t k = 1;
    for (const auto& f : t.factors) k = is_quotient(f) ? saturating_mul(k, f->b.value()) : k;
    return k;
  };
  constexpr int64_t kMostScale = 1 << 20;
  constexpr size_t kMostTerms = 16;
  int64_t scale = 1;
  for (const Term& t : *terms_) scale = std::max(scale, divisor(t)) > kMostScale ? INT64_MAX : std::lcm(scale, divisor(t));
  if (up && down && scale > 1 && scale <= kMostScale && terms_->size() <= kMostTerms) {
    Dim scaled = 0;
    for (const Term& t : *terms_) {
      Dim product = saturating_mul(t.coefficient, scale / divisor(t));
      for (const auto& f : t.factors)
        product = product * (is_quotient(f) ? f->a - mod(f->a, f->b) : from_terms({{1, {f}}}));
      scaled = scaled + product;
    }
    Interval x = scaled.bounds();
    if (x.min != INT64_MIN) sum.min = std::max(sum.min, -floor_div(-x.min, scale));
    if (x.max != INT64_MAX) sum.max = std::min(sum.max, floor_div(x.max, scale));
  }
  // Every value is the constant more than a multiple of the divisor that the coefficients have in common. So the bounds
  // of 16 * (n - floordiv(n, 2)) are 16 times those of n - floordiv(n, 2), in which the quotient above is rounded.
  constexpr int64_t kLargest = INT64_MAX / 4;
  int64_t common = 0, constant = 0;
  for (const Term& t : *terms_)
    t.factors.empty() ? void(constant = t.coefficient) : void(common = std::gcd(common, std::max(t.coefficient, -INT64_MAX)));
  if (common > 1 && constant > -kLargest && constant < kLargest) {
    if (sum.min > -kLargest && sum.min < kLargest) sum.min = constant - common * floor_div(constant - sum.min, common);
    if (sum.max > -kLargest && sum.max < kLargest) sum.max = constant + common * floor_div(sum.max - constant, common);
  }
  if (!facts) return sum;
  // A fact is >= 0: what is left of the sum without it is a lower bound, too. Bare symbols end the recursion.
  Dim bare = substitute([](const SymbolRef& s) {
    Symbol plain = *s;
    plain.facts = nullptr, plain.location = nullptr;
    return symbol(std::make_shared<const Symbol>(std::move(plain)));
  });
  for (const SymbolRef& s : symbols())
    for (size_t i = 0; s->facts && i < s->facts->size(); ++i)
      sum.min = std::max(sum.min, (bare - (*s->facts)[i]).bounds().min);
  return sum;
}

std::vector<SymbolRef> Dim::symbols() const {
  std::vector<SymbolRef> out;
  auto add_unique = [&](const SymbolRef& s) {
    if (std::none_of(out.begin(), out.end(), [&](const SymbolRef& t) { return t->name == s->name; })) out.push_back(s);
  };
  if (!terms_) return out;
  for (const Term& t : *terms_)
    for (const auto& f : t.factors) {
      if (f->kind == AtomKind::kSymbol) add_unique(f->symbol);
      for (const Dim* d : {&f->a, &f->b})
        for (const SymbolRef& s : d->symbols()) add_unique(s);
    }
  return out;
}

std::optional<Dim::Linear> Dim::linear() const {
  Linear out{nullptr, 0, 0};
  for (const Term& t : terms()) {
    if (t.factors.empty()) {
      out.offset = t.coefficient;
    } else {
      bool simple = t.factors.size() == 1 && t.factors[0]->kind == AtomKind::kSymbol && !out.symbol;
      if (!simple || t.coefficient < 1) return std::nullopt;
      out.symbol = t.factors[0]->symbol, out.scale = t.coefficient;
    }
  }
  return out.symbol ? std::optional(out) : std::nullopt;
}

Dim Dim::substitute(const std::function<Dim(const SymbolRef&)>& replacement) const {
  if (is_static()) return *this;
  Dim sum(0);
  for (const Term& t : *terms_) {
    Dim product(t.coefficient);
    for (const auto& f : t.factors) {
      if (f->kind == AtomKind::kSymbol) {
        product = product * replacement(f->symbol);
        continue;
      }
      Dim a = f->a.substitute(replacement), b = f->b.substitute(replacement);
      product = product * (f->kind == AtomKind::kFloorDiv ? floordiv(a, b)
                           : f->kind == AtomKind::kMod    ? mod(a, b)
                           : f->kind == AtomKind::kMin    ? min(a, b)
                                                          : max(a, b));
    }
    sum = sum + product;
  }
  return sum;
}

int64_t Dim::eval(const std::function<int64_t(const Symbol&)>& value_of) const {
  return substitute([&](const SymbolRef& s) { return Dim(value_of(*s)); }).value();
}

std::vector<SizeStep> Dim::steps() const {
  using Op = SizeStep::Op;
  if (is_static()) return {{Op::kConstant, value_}};
  std::vector<SizeStep> out;
  auto append = [&](const Dim& d) {
    std::vector<SizeStep> more = d.steps();
    out.insert(out.end(), more.begin(), more.end());
  };
  static constexpr Op kOps[] = {Op::kSymbol, Op::kFloorDiv, Op::kMod, Op::kMin, Op::kMax};  // by AtomKind
  bool first_term = true;
  for (const Term& t : *terms_) {
    bool first = t.factors.empty() || t.coefficient != 1;
    if (first) out.push_back({Op::kConstant, t.coefficient});
    for (const auto& f : t.factors) {
      if (f->kind == AtomKind::kSymbol) {
        out.push_back({Op::kSymbol, 0, f->symbol});
      } else {
        append(f->a);
        append(f->b);
        out.push_back({kOps[static_cast<int>(f->kind)]});
      }
      if (first) out.push_back({Op::kMul});
      first = true;
    }
    if (!first_term) out.push_back({Op::kAdd});
    first_term = false;
  }
  return out;
}

std::string Dim::str() const {
  if (is_static()) return std::to_string(value_);
  std::string out;
  std::string constant;
  for (const Term& t : *terms_) {
    std::string text = t.key();
    int64_t c = t.coefficient;
    if (text.empty())
      text = std::to_string(std::abs(c));
    else if (std::abs(c) != 1)
      text = std::to_string(std::abs(c)) + "*" + text;
    std::string& target = t.factors.empty() ? constant : out;
    target += (c < 0 ? "-" : (target.empty() && !t.factors.empty() ? "" : "+")) + text;
  }
  return out + constant;
}

std::optional<SymbolSplit> split_at(const Dim& d, const std::string& symbol) {
  SymbolRef found;
  for (const SymbolRef& s : d.symbols())
    if (s->name == symbol) found = s;
  if (!found) return std::nullopt;
  auto with = [&](int64_t value) {
    return d.substitute([&](const SymbolRef& s) { return s->name == symbol ? Dim(value) : Dim::symbol(s); });
  };
  // Divisors need not be positive outside of the symbol's range, so it is looked at inside.
  if (found->min == INT64_MAX) return std::nullopt;
  Dim factor = with(found->min + 1) - with(found->min), rest = with(found->min) - factor * found->min;
  if (factor.is(0) || !(factor * Dim::symbol(found) + rest == d)) return std::nullopt;
  return SymbolSplit{std::move(factor), std::move(rest)};
}

std::string SizeRelation::str() const {
  static constexpr const char* kSigns[] = {"==", "<", "<="};  // by Kind
  return fmt::format("{} {} {}", left.str(), kSigns[static_cast<int>(kind)], right.str());
}

std::optional<bool> SizeRelation::holds() const {
  if (kind == Kind::kEqual) return Dim::equal(left, right);
  return Dim::less_equal(kind == Kind::kLess ? left + 1 : left, right);
}

// A relation that is a fact itself holds; so it is its contrary that is asked for.
bool SizeRelation::impossible() const {
  auto known = [](const SizeRelation& r) { return r.holds().value_or(false); };
  if (kind == Kind::kEqual) return !Dim::equal(left, right).value_or(true);
  return known(kind == Kind::kLess ? right <= left : right < left);
}

std::string contradiction(const SizeRelation& shown, const SizeRelation& resolved) {
  using Kind = SizeRelation::Kind;
  Interval x = resolved.left.bounds(), y = resolved.right.bounds();
  bool overlap = shown.kind == Kind::kEqual  ? x.min <= y.max && y.min <= x.max
                 : shown.kind == Kind::kLess ? x.min < y.max
                                             : x.min <= y.max;
  std::string ranges =
      fmt::format("{} is in [{}, {}], {} in [{}, {}]", shown.left.str(), x.min, x.max, shown.right.str(), y.min, y.max);
  if (!overlap) return ranges;
  auto declared = [](const SizeRelation& r) { return "the other declarations say that " + r.str(); };
  SizeRelation below{shown.left, Kind::kLess, shown.right}, above{shown.right, Kind::kLess, shown.left};
  if (shown.kind == Kind::kLess) return declared({shown.right, Kind::kLessEqual, shown.left});
  if (shown.kind == Kind::kLessEqual) return declared(above);
  if (SizeRelation{resolved.left, Kind::kLess, resolved.right}.holds().value_or(false)) return declared(below);
  if (SizeRelation{resolved.right, Kind::kLess, resolved.left}.holds().value_or(false)) return declared(above);
  return ranges + ", and no integers make them equal";
}

}  // namespace nabla::ir
