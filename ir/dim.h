// One extent of a shape: an integer, or a polynomial over bounded symbols with floordiv, mod, min and max.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/base/diagnostic.h"

namespace nabla::ir {

class Dim;

/// A size that is known only at run time: an integer in [min, max], a multiple of `multiple`.
struct Symbol {
  std::string name;
  int64_t min = 1;
  int64_t max = 1;
  int64_t multiple = 1;
  /// Sums with this symbol that are >= 0 in every run, as the module's constraints say; null: none. No part of
  /// equality.
  std::shared_ptr<const std::vector<Dim>> facts = nullptr;
  LocationRef location = nullptr;  ///< of the declaration; no part of equality either
  /// Not empty: the rank's coordinate along this axis of the mesh, which no input tells.
  std::string axis = {};
  bool operator==(const Symbol& other) const {
    return name == other.name && min == other.min && max == other.max && multiple == other.multiple &&
           axis == other.axis;
  }
};
using SymbolRef = std::shared_ptr<const Symbol>;

struct Interval {
  int64_t min, max;
};

/// One step of a size as a postfix program, which a stack of integers evaluates.
struct SizeStep {
  enum class Op : uint8_t { kConstant, kSymbol, kAdd, kMul, kFloorDiv, kMod, kMin, kMax };
  Op op;
  int64_t value = 0;           ///< kConstant
  SymbolRef symbol = nullptr;  ///< kSymbol
};

/// A value type kept in a canonical form (a sorted sum of products), so that == decides the equality of
/// polynomials. Expressions that are equal for another reason may compare unequal: ask `equal` then.
class Dim {
 public:
  Dim(int64_t value = 0) : value_(value) {}  // NOLINT: integers are dims
  static Dim symbol(SymbolRef symbol);

  bool is_static() const { return terms_ == nullptr; }
  /// The integer; requires is_static().
  int64_t value() const;
  bool is(int64_t v) const { return is_static() && value_ == v; }

  /// Sums and products saturate at the ends of int64.
  Dim operator+(const Dim& other) const;
  Dim operator-(const Dim& other) const;
  Dim operator*(const Dim& other) const;
  /// Rounds towards minus infinity; the divisor is positive.
  static Dim floordiv(const Dim& a, const Dim& b);
  static Dim ceildiv(const Dim& a, const Dim& b) { return floordiv(a + b - 1, b); }
  static Dim mod(const Dim& a, const Dim& b);
  static Dim min(const Dim& a, const Dim& b);
  static Dim max(const Dim& a, const Dim& b);

  bool operator==(const Dim& other) const;
  /// Yes, no, or nullopt where neither the bounds of the symbols nor one of their facts decides.
  static std::optional<bool> equal(const Dim& a, const Dim& b);
  static std::optional<bool> less_equal(const Dim& a, const Dim& b);

  /// Conservative bounds from the symbols' ranges.
  Interval bounds() const;
  /// Every symbol in it, each once, in order of first appearance.
  std::vector<SymbolRef> symbols() const;
  /// scale * symbol + offset, where it is that for a positive scale: then an extent tells the symbol's value.
  struct Linear {
    SymbolRef symbol;
    int64_t scale, offset;
  };
  std::optional<Linear> linear() const;
  int64_t eval(const std::function<int64_t(const Symbol&)>& value_of) const;
  Dim substitute(const std::function<Dim(const SymbolRef&)>& replacement) const;
  /// The same as a program for machines that have no Dim: generated code and the runtime.
  std::vector<SizeStep> steps() const;
  /// "8*batch+1", "floordiv(len+7,8)"; parses back.
  std::string str() const;

 private:
  struct Atom;
  struct Term;
  using Terms = std::vector<Term>;
  static Dim from_terms(Terms terms);
  static Dim from_atom(Atom atom);
  Terms terms() const;
  static int64_t common_divisor(const Dim& a, int64_t b);
  static Dim divided(const Dim& a, int64_t g);
  static std::optional<Dim> exact_quotient(const Dim& a, const Dim& b);
  static Dim difference(const Dim& a, const Dim& b);
  static bool never_above(const Dim& a, const Dim& b);
  static bool never_zero(const Dim& d);

  int64_t value_ = 0;
  std::shared_ptr<const Terms> terms_;  // null: the integer value_
};

/// factor * symbol + rest, where neither part has the symbol in it and the factor is not 0.
struct SymbolSplit {
  Dim factor, rest;
};
/// Nothing where `d` is not linear in the symbol, or does not have it.
std::optional<SymbolSplit> split_at(const Dim& d, const std::string& symbol);

/// A statement about two sizes, from `a <= b`.
struct SizeRelation {
  enum class Kind : uint8_t { kEqual, kLess, kLessEqual };
  Dim left;
  Kind kind;
  Dim right;
  std::string str() const;  ///< "past+1 <= capacity"
  /// Yes, no, or nullopt where the symbols' bounds and facts do not decide.
  std::optional<bool> holds() const;
  bool impossible() const;  ///< no values within the bounds and facts of the symbols satisfy it
  bool operator==(const SizeRelation&) const = default;
};
/// Why a relation is impossible: "a is in [1, 8], b in [9, 9]", by the sizes of `shown` and the bounds of `resolved`,
/// which is the same relation. Where the bounds alone do not say it: what the other declarations do, as "a < b", or
/// that no integers make both sides equal.
std::string contradiction(const SizeRelation& shown, const SizeRelation& resolved);
inline SizeRelation operator<(const Dim& a, const Dim& b) { return {a, SizeRelation::Kind::kLess, b}; }
inline SizeRelation operator<=(const Dim& a, const Dim& b) { return {a, SizeRelation::Kind::kLessEqual, b}; }
inline SizeRelation operator>(const Dim& a, const Dim& b) { return b < a; }
inline SizeRelation operator>=(const Dim& a, const Dim& b) { return b <= a; }

}  // namespace nabla::ir
