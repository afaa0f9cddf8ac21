// Symbolic sizes of a program under construction: what was declared, what constraints made of it. Internal to the
// frontend.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "frontend/cpp/tensor.h"
#include "ir/module.h"

namespace nabla {

/// Equalities are solved as they are declared: each removes one symbol, whose place its value takes, and narrows the
/// ranges of the symbols in that value. What is left are symbols with a range each, and inequalities between them.
class SizeRules {
 public:
  /// Throws E0108 when the name is taken, E0208 when no size is in the range.
  ir::Dim declare(const std::string& name, int64_t min, int64_t max, int64_t multiple, const Site& site);
  /// Throws E0208 with both places when nothing satisfies the constraint beside the earlier ones, E0207 when it cannot
  /// be solved for one symbol.
  void require_equal(const ir::Dim& a, const ir::Dim& b, const Site& site);

  /// `a <= b` or `a < b`. What one symbol's range can say narrows it; anything else is kept as a constraint, which
  /// sizes from now on know. Throws E0208 with both places when nothing satisfies it beside the earlier declarations.
  void require(const ir::SizeRelation& relation, const Site& site);

  ir::Dim resolve(const ir::Dim& d) const;
  ir::Shape resolve(const ir::Shape& shape) const;
  /// Sizes inside of attributes.
  ir::Attrs resolve(ir::Attrs attrs) const;
  /// Those that are left, in the order of their declaration.
  std::vector<ir::SymbolRef> symbols() const;
  const std::vector<ir::SizeConstraint>& constraints() const { return constraints_; }

 private:
  /// Why a symbol's range is what it is: a declaration or constraint, and its place.
  struct Reason {
    std::string text;
    LocationRef place;
  };
  struct Known {
    ir::SymbolRef symbol;  ///< with its range as it is now
    ir::Dim value;         ///< over symbols that are free; the symbol itself while it is one
    std::vector<Reason> reasons;
  };
  bool solve(const ir::Dim& difference, const Reason& reason);
  void set(const std::string& name, const ir::Dim& value, const Reason& reason);
  /// Keeps the values of the symbol for which the sum lies in `range`.
  void narrow(const ir::Dim::Linear& linear, const ir::Symbol& range, const Reason& reason);
  [[noreturn]] void conflict(const std::string& message, const std::vector<std::string>& symbols,
                             const Reason& reason) const;

  /// Gives every free symbol the facts of the constraints, and the others values of such symbols.
  void refresh();
  void refuse_cycle(const ir::SizeConstraint& newest, const Reason& reason) const;
  bool narrow_by_bound(const ir::Dim& gap, const Reason& reason);

  std::map<std::string, Known> known_;
  std::vector<ir::SizeConstraint> constraints_;
  std::vector<std::string> order_;
};

}  // namespace nabla
