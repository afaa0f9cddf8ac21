#include "tests/property/dependence.h"

#include <functional>

#include "ir/kernel_ir/eval.h"

namespace nabla::property {
namespace {

using kernel_ir::Definition;
using kernel_ir::Scalar;

int64_t offset(const Literal& t, const std::vector<int64_t>& at) {
  int64_t out = 0;
  for (size_t d = 0; d < at.size(); ++d) out = out * t.shape()[d] + at[d];
  return out;
}

void for_each(const std::vector<int>& over, const std::vector<int64_t>& extents, std::vector<int64_t>& axes,
              const std::function<void()>& f, size_t depth = 0) {
  if (depth == over.size()) return f();
  for (axes[over[depth]] = 0; axes[over[depth]] < extents[over[depth]]; ++axes[over[depth]])
    for_each(over, extents, axes, f, depth + 1);
}

}  // namespace

Dependence::Dependence(const kernel_ir::Fragment& fragment, const std::vector<Literal>& operands) {
  std::vector<int64_t> first, extents, axes(fragment.axes.size());
  int64_t total = 0;
  for (const Literal& t : operands) first.push_back(total), total += t.size();
  for (const kernel_ir::Axis& a : fragment.axes) extents.push_back(a.extent.value());

  if (fragment.procedure) {  // a whole result depends on whole operands
    for (const Definition& d : fragment.definitions) {
      int64_t size = 1;
      for (int a : d.axes) size *= extents[a];
      sets_.emplace_back(size, Set(total, true));
    }
    return;
  }
  std::vector<std::vector<Set>> sets;
  std::vector<Literal> values;  // of the definitions: indices may depend on them
  Set* current = nullptr;
  auto merge = [](Set& into, const Set& from) {
    for (size_t i = 0; i < from.size(); ++i)
      if (from[i]) into[i] = true;
  };
  kernel_ir::Memory memory;
  memory.load = [&](int t, const std::vector<int64_t>& at) {
    (*current)[first[t] + offset(operands[t], at)] = true;
    return kernel_ir::get(operands[t], offset(operands[t], at));
  };
  memory.value = [&](int v, const std::vector<int64_t>& at) {
    merge(*current, sets[v][offset(values[v], at)]);
    return kernel_ir::get(values[v], offset(values[v], at));
  };
  // Values come from prefixes of the fragment, so that this needs no interpreter of its own.
  for (size_t n = 0; n < fragment.definitions.size(); ++n) {
    const Definition& d = fragment.definitions[n];
    kernel_ir::Fragment prefix = fragment;
    prefix.definitions.resize(n + 1);
    prefix.results = {static_cast<int>(n)};
    std::vector<Set> own;
    kernel_ir::Evaluator value(d.value);
    for_each(d.axes, extents, axes, [&] {
      Set set(total, false);
      current = &set;
      for_each(d.scatter ? std::vector<int>{} : d.reduce, extents, axes, [&] { value.run(axes, memory); });
      own.push_back(std::move(set));
    });
    Literal result = kernel_ir::interpret(prefix, operands)[0];
    if (d.scatter) {
      std::vector<kernel_ir::Evaluator> indices;
      for (const kernel_ir::Expr& i : d.indices) indices.emplace_back(i);
      kernel_ir::Evaluator update(d.update);
      Set everywhere(total, false);  // where an update goes depends on every index that is read
      for_each(d.update_axes, extents, axes, [&] {
        std::vector<int64_t> at;
        current = &everywhere;
        bool inside = true;
        for (size_t k = 0; k < indices.size(); ++k) {
          at.push_back(indices[k].run(axes, memory).i);
          inside = inside && at[k] >= 0 && at[k] < result.shape()[k];
        }
        if (!inside) return;
        current = &own[offset(result, at)];
        update.run(axes, memory);
      });
      // A changed index may send any update anywhere; index tensors are not floating, and only they change it.
      for (Set& set : own) merge(set, everywhere);
    }
    sets.push_back(std::move(own));
    values.push_back(std::move(result));
  }
  for (int r : fragment.results) sets_.push_back(sets[r]);
}

bool Dependence::depends(int result, int64_t result_element, int64_t element) const {
  return sets_[result][result_element][element];
}

}  // namespace nabla::property
