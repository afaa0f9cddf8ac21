// Composites whose code is their decomposition: what such records share.
#pragma once

#include <string>

#include "ir/ops/access.h"

namespace nabla::ops {

/// A record that is lowered by its decomposition, floating in all dtypes; derivatives and batching follow from the
/// decomposition until they are replaced. The caller adds operands, results, constraints, factors, examples, draw and
/// rejects.
OpDef make_composite(std::string name, std::string doc, std::function<InferResult(const InferContext&)> infer,
                     ir::Rule<Literals(const EvalContext&)> reference,
                     ir::Rule<std::vector<Val>(DecomposeContext&)> decompose);

/// Pass-through factors for all dimensions of operand 0 but the last, which stays whole. Operands of another rank have
/// one element per feature, results of another rank one per row.
Factors factors_of_rows(const TypedOp& op);

}  // namespace nabla::ops
