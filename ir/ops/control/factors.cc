// Factors of the ops that run functions.
#include "ir/ops/control/control_flow.h"

namespace nabla::ops {

Factors control_factors(const TypedOp& op) {
  Factors out;
  auto letter = [&out] { return std::string(1, static_cast<char>('a' + out.factors.size() % 26)); };
  auto own = [&](const Type& t, size_t from = 0) {
    Factors::Tensor dims;
    for (size_t d = from; d < t.shape.size(); ++d)
      dims.push_back({out.add(letter(), t.shape[d], Factors::Kind::kFunctions)});
    return dims;
  };
  bool repeats = op.attrs.find("consts") != nullptr, counts = op.attrs.find("length") != nullptr;
  LoopParts parts = repeats ? loop_parts(op) : LoopParts{op.operands.size(), 0, 0};
  int trips = counts ? out.add(letter(), scan_length(op.attrs), Factors::Kind::kOrdered) : -1;
  auto sliced = [&](const Type& t) {
    Factors::Tensor dims = own(t, 1);
    dims.insert(dims.begin(), {trips});
    return dims;
  };
  for (size_t i = 0; i < op.operands.size(); ++i)
    out.operands.push_back(i < parts.first_x() ? own(op.operands[i]) : sliced(op.operands[i]));
  for (size_t i = 0; i < op.results.size(); ++i) {
    if (i < parts.carries)
      out.results.push_back(out.operands[parts.first_carry() + i]);
    else
      out.results.push_back(counts ? sliced(op.results[i]) : own(op.results[i]));
  }
  return out;
}

Attrs localise_trips(const ir::Shard& shard) {
  Attrs attrs = shard.op.attrs;
  for (size_t f = 0; f < shard.factors.factors.size(); ++f)
    if (shard.factors.factors[f].kind == Factors::Kind::kOrdered) attrs.set("length", Shape{shard.sizes[f]});
  return attrs;
}

}  // namespace nabla::ops
