// An op that is not cut along a dimension of its operands, but along another: the axes change places by an all_to_all
// (rows of a sort or of a Fourier transform; attention over heads instead of positions, Jacobs et al., "DeepSpeed
// Ulysses", 2023).
#include <algorithm>

#include "passes/shard/rules/families.h"
#include "passes/shard/rules/split.h"

namespace nabla::passes {
namespace {

using ir::Axes;
using ir::Factors;

// The axes along which operands lie and which no factor can use.
std::vector<Axes> idle_axes(const RuleContext& c) {
  std::vector<Axes> out;
  for (size_t i = 0; i < c.n.operands.size(); ++i)
    for (size_t d = 0; d < c.factors.operands[i].size(); ++d) {
      const std::vector<int>& dim = c.factors.operands[i][d];
      const Axes& axes = c.layout(i).dims[d];
      // Microbatches come one after the other: they exchange nothing.
      if (is_temporal(c.mesh, axes)) continue;
      bool whole = std::any_of(dim.begin(), dim.end(), [&](int f) { return !can_split(c.factors.factors[f]); });
      if (whole && !axes.empty() && std::find(out.begin(), out.end(), axes) == out.end()) out.push_back(axes);
    }
  return out;
}

// Is the factor the first one of its dimensions, and the only one that is cut?
bool is_free(const RuleContext& c, const Split& split, int factor) {
  for (const auto* tensors : {&c.factors.operands, &c.factors.results})
    for (const Factors::Tensor& tensor : *tensors)
      for (const std::vector<int>& dim : tensor) {
        auto at = std::find(dim.begin(), dim.end(), factor);
        if (at == dim.end()) continue;
        bool others =
            std::any_of(dim.begin(), dim.end(), [&](int f) { return f != factor && !split.axes()[f].empty(); });
        if (at != dim.begin() || others) return false;
      }
  return true;
}

// Does every operand that lies along the axes lie along them still?
bool gathers_nothing(const RuleContext& c, const Split& split, const Axes& axes) {
  auto lies = [&](const Layout& layout) {
    return std::any_of(layout.dims.begin(), layout.dims.end(), [&](const Axes& a) { return overlap(c.mesh, a, axes); });
  };
  for (size_t i = 0; i < c.n.operands.size(); ++i)
    if (lies(c.layout(i)) && !lies(split.operand(i))) return false;
  return true;
}

double bytes_of_split(const RuleContext& c, const Split& split) {
  double out = 0;
  for (size_t i = 0; i < c.n.operands.size(); ++i) out += bytes_brought(c, i, split.operand(i));
  for (size_t r = 0; r < c.n.results.size(); ++r) out += bytes_returned(c, r, split.result(r));
  return out;
}

}  // namespace

std::optional<Ruled> exchanged(const RuleContext& c) {
  std::optional<Ruled> best;
  for (const Axes& axes : idle_axes(c))
    for (size_t f = 0; f < c.factors.factors.size(); ++f) {
      const Factors::Factor& factor = c.factors.factors[f];
      Split split(c, axes);
      if (factor.kind != Factors::Kind::kPass || !is_free(c, split, static_cast<int>(f))) continue;
      Axes more = split.axes()[f];
      more.insert(more.end(), axes.begin(), axes.end());
      if (!divides(c.mesh, more, factor.size)) continue;
      split.set(f, more);
      if (!gathers_nothing(c, split, axes)) continue;
      double bytes = bytes_of_split(c, split);
      if ((best && best->bytes <= bytes) || !split.fits()) continue;
      best = Ruled{{}, bytes, nullptr};
      for (size_t r = 0; r < c.n.results.size(); ++r) best->layouts.push_back(split.result(r));
      for (size_t i = 0; i < c.n.operands.size(); ++i) best->operands.push_back(split.operand(i));
      best->make = [split, &c] {
        std::vector<ir::Val> operands;
        for (size_t i = 0; i < c.n.operands.size(); ++i) operands.push_back(c.part(i, split.operand(i)));
        return c.b.add(c.n.op->name, operands, split.attrs());
      };
    }
  return best;
}

}  // namespace nabla::passes
