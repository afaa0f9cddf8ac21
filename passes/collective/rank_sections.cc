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
  RankSections(const ir::Function& f, const RankSymbols& rank) : f_(f), rank_(rank) {
    makers_.resize(f.values.size());
    numbers_.resize(f.values.size());
    for (const Node& n : f.nodes) {
      for (ValueId id : n.results) makers_[id] = &n;
      if (n.results.size() == 1) numbers_[n.results[0]] = number(n);
    }
  }

  /// What a dynamic_slice cuts; nothing where its starts are not known, or some rank's would be moved to fit.
  std::optional<std::vector<Cut>> cuts_of(const Node& n) const {
    if (n.op->name != "dynamic_slice") return std::nullopt;
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

  /// The cut in the operand of the reshape that made the value, whose dimension it splits.
  std::optional<Cut> before_reshape(ValueId id, const Cut& cut) const {
    const Node* n = makers_[id];
    if (!n || n->op->name != "reshape") return std::nullopt;
    const Shape &from = f_.type(n->operands[0]).shape, &to = f_.type(id).shape;
    size_t d = cut.dim;
    if (d >= from.size() || to.size() < from.size() || !std::equal(to.begin(), to.begin() + static_cast<int64_t>(d), from.begin()))
      return std::nullopt;
    size_t after = from.size() - d - 1, end = to.size() - after;  // [d, end) of `to` are dimension d of `from`
    if (end <= d || !std::equal(to.begin() + static_cast<int64_t>(end), to.end(), from.begin() + static_cast<int64_t>(d) + 1))
      return std::nullopt;
    Dim inner = 1;
    for (size_t k = d + 1; k < end; ++k) inner = inner * to[k];
    if (!(to[d] * inner == from[d])) return std::nullopt;
    return Cut{d, cut.begin * inner, cut.size * inner};
  }

  ValueId operand_of_reshape(ValueId id) const { return makers_[id]->operands[0]; }

 private:
  // An integer scalar as a size; truth as 0 and 1. What its operands are is known.
  std::optional<Dim> number(const Node& n) const {
    const std::string& op = n.op->name;
    auto operand = [&](size_t i) { return numbers_[n.operands[i]]; };
    if (op == "lt") return less(operand(0), operand(1));
    const ir::Type& type = f_.type(n.results[0]);
    if (!is_integer(type.dtype) || !type.shape.empty()) return std::nullopt;
    std::optional<Dim> out;
    if (op == "constant") out = Dim(n.attrs.get_literal("value").get_i(0));
    if (op == "axis_index") out = rank_.coordinate(n.attrs.get_axes("axes"));
    if (op == "convert" || op == "reshape") out = operand(0);
    if (op == "select" && operand(0) && operand(0)->is_static()) out = operand(operand(0)->is(0) ? 2 : 1);
    bool both = (op == "mul" || op == "add" || op == "sub") && operand(0) && operand(1);
    if (both) out = op == "mul" ? *operand(0) * *operand(1) : op == "add" ? *operand(0) + *operand(1) : *operand(0) - *operand(1);
    return out && fits(*out, type.dtype) ? out : std::nullopt;
  }
  // Does the number keep its value in the dtype? Of narrow ones nobody makes indices.
  static bool fits(const Dim& d, DType dtype) {
    ir::Interval range = d.bounds();
    bool is_unsigned = dtype == DType::kU32 || dtype == DType::kU64;
    return bytes_of(dtype) >= 4 && range.min >= (is_unsigned ? 0 : INT32_MIN) && range.max <= INT32_MAX;
  }
  static std::optional<Dim> less(const std::optional<Dim>& a, const std::optional<Dim>& b) {
    if (!a || !b) return std::nullopt;
    if (Dim::less_equal(*b, *a).value_or(false)) return Dim(0);
    return Dim::less_equal(*a + 1, *b).value_or(false) ? std::optional<Dim>(1) : std::nullopt;
  }

  const ir::Function& f_;
  const RankSymbols& rank_;
  std::vector<const Node*> makers_;           // by value; null: a parameter
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
    std::optional<Cut> before =
        cuts->second.size() == 1 ? sections.before_reshape(n.operands[0], cuts->second[0]) : std::nullopt;
    if (before) {
      Val part = section(copy.at(sections.operand_of_reshape(n.operands[0])), *before);
      copy.set(n.results[0], ir::reshape(part, f->type(n.results[0]).shape));
      continue;
    }
    Val part = copy.at(n.operands[0]);
    for (const Cut& cut : cuts->second) part = section(part, cut);
    copy.set(n.results[0], part);
  }
  return without_dead_nodes(copy.finish(), module, ops);
}

}  // namespace nabla::passes
