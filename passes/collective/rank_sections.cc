#include "passes/collective/rank_sections.h"

#include <algorithm>
#include <optional>

#include "passes/rewrite.h"

namespace nabla::passes {
namespace {

using ir::Dim;
using ir::Node;
using ir::Shape;
using ir::Val;
using ir::ValueId;

/// A range of one dimension.
struct Cut {
  size_t dim;
  Dim begin, size;
};

class RankSections {
 public:
  RankSections(const ir::Function& f, const RankSymbols& rank) : f_(f), rank_(rank), makers_(ir::producers(f)) {
    numbers_.resize(f.values.size());
    for (const Node& n : f.nodes)
      if (n.results.size() == 1) numbers_[n.results[0]] = number(n);
  }

  /// What a dynamic_slice cuts; nothing where its starts are not known, or some rank's would be moved to fit.
  std::optional<std::vector<Cut>> cuts_of(const Node& n) const {
    if (n.op->rank_rule != ir::RankRule::kDynamicSlice) return std::nullopt;
    const Shape &whole = f_.type(n.operands[0]).shape, &window = f_.type(n.results[0]).shape;
    if (n.operands.size() != whole.size() + 1) return std::nullopt;
    std::vector<Cut> cuts;
    for (size_t d = 0; d < whole.size(); ++d) {
      const std::optional<Dim>& begin = numbers_[n.operands[d + 1]];
      if (!begin || begin->bounds().min < 0) return std::nullopt;
      if (!Dim::less_equal(*begin + window[d], whole[d]).value_or(false)) return std::nullopt;
      if (!(whole[d] == window[d])) cuts.push_back({d, *begin, window[d]});
    }
    return cuts;
  }

  /// A cut of this operand, in that of the reshape that made it, where it is the first of what a dimension is split into.
  struct Earlier {
    ValueId value;
    Cut cut;
  };
  std::optional<Earlier> before_reshape(ValueId id, const Cut& cut) const {
    if (makers_[id] < 0) return std::nullopt;
    const Node& n = f_.nodes[static_cast<size_t>(makers_[id])];
    if (n.op->form != ir::OpForm::kReshape) return std::nullopt;
    const ir::Factors factors = n.op->factors(typed(f_, n));
    const std::vector<int>& own = factors.results[0][cut.dim];
    for (size_t d = 0; own.size() == 1 && d < factors.operands[0].size(); ++d) {
      const std::vector<int>& from = factors.operands[0][d];
      if (from.empty() || from[0] != own[0]) continue;
      Dim inner = 1;
      for (size_t k = 1; k < from.size(); ++k) inner = inner * factors.factors[static_cast<size_t>(from[k])].size;
      return Earlier{n.operands[0], {d, cut.begin * inner, cut.size * inner}};
    }
    return std::nullopt;
  }

 private:
  // An integer scalar as a size; truth as 0 and 1.
  std::optional<Dim> number(const Node& n) const {
    const ir::Type& type = f_.type(n.results[0]);
    if (n.op->as_size == nullptr || !type.shape.empty() || is_float(type.dtype)) return std::nullopt;
    ir::SizeContext context{n.attrs, {}, [&](const ir::Axes& axes) { return rank_.coordinate(axes); }};
    for (ValueId id : n.operands) context.operands.push_back(numbers_[id]);
    const std::optional<Dim> out = n.op->as_size(context);
    return out && (type.dtype == DType::kBool || fits(*out, type.dtype)) ? out : std::nullopt;
  }
  // Does the number keep its value in the dtype? Of narrow ones nobody makes indices.
  static bool fits(const Dim& d, DType dtype) {
    ir::Interval range = d.bounds();
    return bytes_of(dtype) >= 4 && range.min >= (is_unsigned(dtype) ? 0 : INT32_MIN) && range.max <= INT32_MAX;
  }

  const ir::Function& f_;
  const RankSymbols& rank_;
  std::vector<int> makers_;
  std::vector<std::optional<Dim>> numbers_;  // by value
};

Val section(Val v, const Cut& cut) {
  return v.b->op("section", {v}, {{"axis", static_cast<int64_t>(cut.dim)}, {"range", Shape{cut.begin, cut.size}}});
}

}  // namespace

ir::FunctionPtr with_rank_sections(const ir::FunctionPtr& f, const RankSymbols& rank, const ir::Module& module,
                                   const ir::OpTable& ops) {
  RankSections sections(*f, rank);
  std::map<const Node*, std::vector<Cut>> found;
  for (const Node& n : f->nodes) {
    auto cuts = sections.cuts_of(n);
    auto follows_rank = [](const Cut& cut) { return !cut.begin.is_static(); };
    if (cuts && std::any_of(cuts->begin(), cuts->end(), follows_rank)) found.emplace(&n, std::move(*cuts));
  }
  if (found.empty()) return f;
  FunctionCopy copy(*f, ops, &module);
  for (const Node& n : f->nodes) {
    auto cuts = found.find(&n);
    if (cuts == found.end()) {
      copy.copy(n);
      continue;
    }
    copy.builder().set_location(n.location);
    Val part = copy.at(n.operands[0]);
    if (auto earlier = cuts->second.size() == 1 ? sections.before_reshape(n.operands[0], cuts->second[0]) : std::nullopt)
      part = ir::reshape(section(copy.at(earlier->value), earlier->cut), f->type(n.results[0]).shape);
    else
      for (const Cut& cut : cuts->second) part = section(part, cut);
    copy.set(n.results[0], part);
  }
  return without_dead_nodes(copy.finish(), module, ops);
}

}  // namespace nabla::passes
