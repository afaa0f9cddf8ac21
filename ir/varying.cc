#include "ir/varying.h"

#include "ir/typed.h"

namespace nabla::ir {
namespace {

using Lookup = std::function<const Function*(std::string_view)>;
using Sets = std::vector<VaryingAxes>;

void add(VaryingAxes& to, const VaryingAxes& more) { to.insert(more.begin(), more.end()); }

Sets part(const Sets& sets, size_t begin, size_t end) {
  return {sets.begin() + static_cast<std::ptrdiff_t>(begin), sets.begin() + static_cast<std::ptrdiff_t>(end)};
}

/// One function under one set of parameters.
class Analysis {
 public:
  explicit Analysis(const Lookup& functions) : functions_(functions) {}

  Sets results(const Function& f, const Sets& params) const {
    Sets values(f.values.size()), out;
    for (size_t i = 0; i < f.params.size(); ++i) values[f.params[i]] = params[i];
    for (const Node& n : f.nodes) {
      Sets operands;
      for (ValueId id : n.operands) operands.push_back(values[id]);
      Sets made = of_node(f, n, operands);
      for (size_t i = 0; i < n.results.size(); ++i) values[n.results[i]] = made[i];
    }
    for (ValueId id : f.results) out.push_back(values[id]);
    return out;
  }

 private:
  Sets of_node(const Function& f, const Node& n, const Sets& operands) const {
    if (n.op->manual) return of_region(n.op->manual(n.attrs), operands);
    if (n.op->lower == Lowering::kControl) return of_control(control_of(f, n), operands);
    if (n.op->lower == Lowering::kCall && n.attrs.find("callee"))
      return results(*functions_(n.attrs.get_function("callee")), operands);
    VaryingAxes all;
    for (const VaryingAxes& s : operands) add(all, s);
    return Sets(n.results.size(), varying_after(n, all));
  }

  // Its own axes end with it.
  Sets of_region(const ManualRegion& region, Sets operands) const {
    for (size_t i = 0; i < operands.size(); ++i) add(operands[i], varying_of(region.in[i]));
    Sets out = results(*functions_(region.body), operands);
    for (VaryingAxes& s : out)
      for (const AxisRef& a : region.axes) s.erase(a.name);
    return out;
  }

  Sets of_control(const ControlFlow& c, const Sets& operands) const {
    if (c.kind == ControlFlow::Kind::kBranch) {
      Sets out;
      for (const std::string& name : c.functions) {
        Sets made = results(*functions_(name), part(operands, 1, operands.size()));
        out.resize(made.size(), operands[0]);
        for (size_t i = 0; i < made.size(); ++i) add(out[i], made[i]);
      }
      return out;
    }
    auto first = static_cast<size_t>(c.consts), carries = static_cast<size_t>(c.carries);
    Sets params = operands, out;
    for (bool grows = true; grows;) {
      grows = false;
      VaryingAxes asked;
      if (c.kind == ControlFlow::Kind::kWhile) asked = results(*functions_(c.functions.front()), params)[0];
      out = results(*functions_(c.functions.back()), params);
      for (size_t i = 0; i < out.size(); ++i) {
        add(out[i], asked);
        if (i >= carries) continue;
        add(out[i], params[first + i]);
        grows |= out[i] != params[first + i];
        params[first + i] = out[i];
      }
    }
    return out;
  }

  const Lookup& functions_;
};

}  // namespace

VaryingAxes varying_of(const Sharding& parts) {
  VaryingAxes out;
  for (const DimSharding& d : parts.dims)
    for (const AxisRef& a : d.axes) out.insert(a.name);
  return out;
}

VaryingAxes varying_after(const Node& node, VaryingAxes operands) {
  if (node.op->varying == Varying::kAsOperands) return operands;
  for (const AxisRef& a : node.attrs.get_axes("axes")) {
    if (node.op->varying == Varying::kOwn)
      operands.insert(a.name);
    else if (a.size == 0)  // of a part of an axis the other parts differ still
      operands.erase(a.name);
  }
  return operands;
}

std::vector<VaryingAxes> varying_results(const Function& f, const std::vector<VaryingAxes>& params,
                                         const Lookup& functions) {
  return Analysis(functions).results(f, params);
}

}  // namespace nabla::ir
