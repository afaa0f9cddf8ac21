#include "ir/ops/composite.h"

namespace nabla::ops {

OpDef make_composite(std::string name, std::string doc, std::function<InferResult(const InferContext&)> infer,
                     ir::Rule<Literals(const EvalContext&)> reference,
                     ir::Rule<std::vector<Val>(DecomposeContext&)> decompose) {
  return {
      .name = std::move(name),
      .version = 1,
      .category = "composite",
      .doc = std::move(doc),
      .operands = {},
      .attrs = {},
      .results = {},
      .constraints = {},
      .traits = {.composite = true},
      .stages = ir::kTensorStages,
      .infer = std::move(infer),
      .reference = std::move(reference),
      .fold = fold_by_reference(),
      .decompose = std::move(decompose),
      .vjp = ir::by_decomposition(),
      .jvp = ir::by_decomposition(),
      .batch = ir::by_decomposition(),
      .factors = ir::no_rule("no dimension is known to be divisible"),
      .access = ir::no_rule("its decomposition is lowered"),
      .linearity = ir::not_linear(),
      .lower = Lowering::kDecompose,
      .cost = [](const TypedOp& op) { return pointwise_cost(op, 8); },
      .dtypes = DTypes::kFloats,
      .examples = {},
      .draw = nullptr,
      .rejects = {},
  };
}

Factors factors_of_rows(const TypedOp& op) {
  Factors f;
  const Type& x = op.operands[0];
  Factors::Tensor full;
  for (int d = 0; d < x.rank(); ++d)
    full.push_back({f.add(std::string(1, static_cast<char>('a' + d)), x.shape[d],
                          d == x.rank() - 1 ? Factors::Kind::kReplicate : Factors::Kind::kPass)});
  Factors::Tensor rows(full.begin(), full.end() - 1), features = {full.back()};
  for (const Type& t : op.operands) f.operands.push_back(t.rank() == x.rank() ? full : features);
  for (const Type& t : op.results) f.results.push_back(t.rank() == x.rank() ? full : rows);
  return f;
}

}  // namespace nabla::ops
