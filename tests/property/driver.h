// Runs single ops and their rules: just enough forward and reverse mode to test a record, over the nodes that its
// rules emit. The product's autodiff is a pass; this is its independent check.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "ir/module.h"
#include "ir/op_def.h"
#include "tests/property/cases.h"

namespace nabla::property {

/// The op's reference on these operands (its decomposition where it says so).
std::vector<Literal> run_reference(const ir::TypedOp& op, const std::vector<Literal>& operands);
/// A function of no calls.
std::vector<Literal> run(const ir::Function& f, const std::vector<Literal>& args);

/// operands -> op -> results
ir::Function single(const Case& c);
/// operands -> decomposition -> results
ir::Function decomposed(const Case& c);

/// A derived function, or why a rule refused.
struct Derived {
  ir::Function function;
  std::string refusal;
};
/// The parameters of f, then a tangent of each floating one -> a tangent of each floating result.
Derived forward_mode(const ir::Function& f);
/// The parameters of f, then a cotangent of each floating result -> a gradient of each floating parameter.
Derived reverse_mode(const ir::Function& f);

/// Only the floating ones.
std::vector<Literal> floating(const std::vector<Literal>& values);

}  // namespace nabla::property
