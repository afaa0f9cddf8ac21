// Random programs over every dtype: casts, bitcasts, integer and index arithmetic, special values. What two ways of
// computing them must agree on exactly is told from what rounding may change.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ir/module.h"
#include "runtime/base/literal.h"

namespace nabla::conformance {

/// How far two correct computations of a result may differ.
struct Slack {
  double error = 0;        ///< of finite elements, absolute; 0: none
  bool zero_signs = true;  ///< whether -0 and 0 differ
};

struct MixedProgram {
  ir::Function function;  ///< results of one shape, of any dtypes
  std::vector<Slack> slack;
};

/// @NAME of five operands and about `steps` ops. Sizes and dtypes come from the seed too.
MixedProgram draw_mixed_program(const std::string& name, uint64_t seed, int steps);

/// Numbers for its parameters: small ones, any bits, and special values (ends of the range, zeros, infinities, NaN,
/// subnormals, ties of narrower dtypes).
std::vector<Literal> draw_mixed_inputs(const ir::Function& f, uint64_t seed);

/// Empty where `got` is `want` within the slack.
std::string mixed_difference(const Literal& want, const Literal& got, const Slack& slack);

}  // namespace nabla::conformance
