// What rules share: the part of a node that its factors decide, small values that a rank computes from its place, and
// the bytes of collectives.
#pragma once

#include "passes/shard/rules/rules.h"

namespace nabla::passes {

/// A node whose factors are split as they would be without a rule, but for the axes that the rule uses itself.
class Split {
 public:
  /// `taken`: the axes of the rule.
  Split(const RuleContext& c, const ir::Axes& taken);
  /// The rule splits the factor of a dimension as well, which is its only one.
  void along(const ir::Factors::Tensor& tensor, size_t dim, const ir::Axes& axes) { axes_[tensor[dim][0]] = axes; }
  void set(size_t factor, ir::Axes axes) { axes_[factor] = std::move(axes); }
  const std::vector<ir::Axes>& axes() const { return axes_; }

  Layout operand(size_t i) const { return layout(c_.factors.operands[i]); }
  /// With the sums that the factors leave pending.
  Layout result(size_t r) const;
  /// The attributes of the part.
  ir::Attrs attrs() const;
  /// Do they give the types of the part, and are all reductions that are split sums?
  bool fits() const;

 private:
  Layout layout(const ir::Factors::Tensor& tensor) const;
  ir::Shard shard() const;

  const RuleContext& c_;
  std::vector<ir::Axes> axes_;
};

/// The axes over which an operand's sum may stay pending where the op is linear in these operands together: the same in
/// all of them, and apart from those that the layouts have.
ir::Axes kept_pending(const RuleContext& c, const std::vector<size_t>& operands, const std::vector<Layout>& layouts);
/// An operand under another layout. What `to` calls pending stays so.
ir::Val brought(const RuleContext& c, size_t operand, const Layout& to);

/// Is the operand a constant of zeros?
bool is_zero(const RuleContext& c, size_t operand);

/// Bytes that a rank sends: to bring an operand to a layout; to bring a result to what is wanted.
double bytes_brought(const RuleContext& c, size_t operand, const Layout& to);
double bytes_returned(const RuleContext& c, size_t result, const Layout& made);
double bytes_of_part(const RuleContext& c, const ir::Type& type, const Layout& layout);

/// The group of ranks along the axes, as attributes of a collective.
ir::Attrs group_attrs(const ir::Mesh& mesh, const ir::Axes& axes);
ir::Val all_gather(const RuleContext& c, ir::Val value, const ir::Axes& axes, int64_t dim);

/// i64[]: a size that may be negative and may name the rank's coordinates.
ir::Val scalar(ir::FunctionBuilder& b, const ir::Dim& value);
ir::Val spread(ir::Val scalar, const ir::Shape& shape);
/// i64, shaped as said: where elements stand along a dimension, from `first` on.
ir::Val positions_along(ir::FunctionBuilder& b, const ir::Shape& shape, int64_t dim, const ir::Dim& first);
/// x[first : first + size] along a dimension.
ir::Val section(ir::Val x, int64_t dim, const ir::Dim& first, const ir::Dim& size);
/// d in [low, high], as the sizes of the IR can show.
ir::Dim clamped(const ir::Dim& d, int64_t low, int64_t high);
/// Elements of x along the axis, by positions that are shaped like the result.
ir::Val taken_along(ir::Val x, ir::Val positions, int64_t axis);
ir::Ints count_from(int64_t first, int64_t count);

}  // namespace nabla::passes
