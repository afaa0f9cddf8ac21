#include "passes/shard/factor_axes.h"

#include <algorithm>

namespace nabla::passes {

using ir::Axes;
using ir::Factors;
using ir::ValueId;
using kernel_ir::Combiner;

bool goes_over_elements(const Factors& factors) {
  return std::all_of(factors.factors.begin(), factors.factors.end(),
                     [](const Factors::Factor& f) { return f.kind == Factors::Kind::kPass; });
}

FactorAxes::FactorAxes(const ir::Function& f, const ir::Mesh& mesh, bool deterministic, const ir::Node& n, const Factors& factors,
                       std::function<const Layout&(ValueId)> layout, std::function<Layout(ValueId)> wanted)
    : f_(f), mesh_(mesh), deterministic_(deterministic), n_(n), factors_(factors), layout_(std::move(layout)),
      wanted_(std::move(wanted)) {}

std::vector<Axes> FactorAxes::take(From from) const {
  std::vector<Axes> out(factors_.factors.size());
  Axes used;
  auto take = [&](const Factors::Tensor& dims, const Layout& layout, bool sums) {
    for (size_t d = 0; d < dims.size(); ++d) {
      auto parts = axes_of_factors(mesh_, layout.dims[d], dims[d], factors_);
      for (size_t k = 0; parts && k < dims[d].size(); ++k) {
        int f = dims[d][k];
        bool is_sum = factors_.factors[f].kind == Factors::Kind::kReduce;
        const Axes& axes = (*parts)[k];
        if (axes.empty() || !out[f].empty() || is_sum != sums || !can_split(factors_.factors[f]) || cuts_time(axes)) continue;
        if (overlap(mesh_, used, axes) || (is_sum && has_fixed_order(factors_.factors[f]))) continue;
        out[f] = axes;
        used.insert(used.end(), axes.begin(), axes.end());
      }
    }
  };
  auto take_results = [&] {
    for (size_t r = 0; r < n_.results.size(); ++r) take(factors_.results[r], wanted_(n_.results[r]), false);
  };
  if (from != From::kOperandsFirst) take_results();
  std::vector<size_t> order(from == From::kResults ? 0 : n_.operands.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  auto bytes = [&](size_t i) { return f_.type(n_.operands[i]).bytes().bounds().max; };
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return bytes(a) > bytes(b); });
  for (bool sums : {true, false})
    for (size_t i : order) take(factors_.operands[i], layout_(n_.operands[i]), sums);
  if (from == From::kOperandsFirst) take_results();
  drop_strided(mesh_, factors_, out);
  return out;
}

std::vector<Axes> FactorAxes::continued(std::vector<Axes> axes) const {
  Axes used;
  for (const Axes& a : axes) used.insert(used.end(), a.begin(), a.end());
  auto go_on = [&](const Factors::Tensor& dims, const Layout& layout) {
    for (size_t d = 0; d < dims.size(); ++d) {
      if (dims[d].size() != 1) continue;
      Axes& now = axes[static_cast<size_t>(dims[d][0])];
      const Axes& longer = layout.dims[d];
      if (now.empty() || longer.size() <= now.size() || !is_prefix(now, longer) || cuts_time(longer)) continue;
      Axes more(longer.begin() + static_cast<std::ptrdiff_t>(now.size()), longer.end());
      if (overlap(mesh_, used, more)) continue;
      used.insert(used.end(), more.begin(), more.end()), now = longer;
    }
  };
  for (size_t r = 0; r < n_.results.size(); ++r) go_on(factors_.results[r], wanted_(n_.results[r]));
  for (size_t i = 0; i < n_.operands.size(); ++i) go_on(factors_.operands[i], layout_(n_.operands[i]));
  return axes;
}

// Microbatches are whole: no dimension goes along a part of their axis.
bool FactorAxes::cuts_time(const Axes& axes) const {
  const ir::MeshAxis* temporal = mesh_.temporal();
  return temporal && std::any_of(axes.begin(), axes.end(), [&](const ir::AxisRef& a) { return a.name == temporal->name && a.size != 0; });
}

bool FactorAxes::has_fixed_order(const Factors::Factor& factor) const {
  return deterministic_ && (factor.combiner == Combiner::kSum || factor.combiner == Combiner::kProd) &&
         is_float(f_.type(n_.results[0]).dtype);
}

}  // namespace nabla::passes
