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

/// A function, and the functions that it calls.
struct Program {
  ir::Function function;
  ir::Module module = {};
};

/// The op's reference on these operands (its decomposition where it says so); `functions` are those it names.
std::vector<Literal> run_reference(const ir::TypedOp& op, const std::vector<Literal>& operands,
                                   const ir::Module& functions = {});
std::vector<Literal> run(const Program& program, const std::vector<Literal>& args);

/// operands -> op -> results
Program single(const Case& c);
/// operands -> decomposition -> results
Program decomposed(const Case& c);

/// A derived function, or why a rule refused.
struct Derived {
  Program function;
  std::string refusal;
};
/// The parameters of f, then a tangent of each floating one -> a tangent of each floating result. Rules of higher-order
/// ops cannot work alone: a program that calls functions is given to the product's autodiff.
Derived forward_mode(const Program& f);
/// The parameters of f, then a cotangent of each floating result -> a gradient of each floating parameter.
Derived reverse_mode(const Program& f);

/// Only the floating ones.
std::vector<Literal> floating(const std::vector<Literal>& values);

}  // namespace nabla::property
