// Random functions of several ops, differentiable almost everywhere, and what tests of passes need around them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "ir/builder.h"
#include "ir/op_def.h"
#include "ir/reference/interpreter.h"
#include "passes/pass.h"

namespace nabla::transforms {

/// @NAME: (x f64[4,6], w f64[6,6], v f64[6], k f64[3,3,1,1], labels i32[4]) -> a scalar and a matrix. About `steps`
/// pieces out of elementwise ops, products, reductions, softmax, layer_norm, cross_entropy, convolution, pooling,
/// embedding, movement; with `callee`, a function of one matrix f64[4,6], calls of it too. Every parameter is used.
ir::Function random_function(const std::string& name, uint64_t seed, int steps, const ir::Module* module = nullptr,
                             const std::string& callee = "");
/// Arguments for such a function, or for any other: floats in [-1, 1], integers in [0, 3].
std::vector<Literal> random_args(const ir::Function& f, uint64_t seed);
/// One literal with floats in [-1, 1].
Literal random_literal(const ir::Type& type, uint64_t seed);

void add(ir::Module& module, ir::Function f);
/// Runs one pass; reports a test failure with the diagnostics when it fails.
ir::Module apply(Result<ir::Module> (*pass)(const ir::Module&, passes::PassContext&), const ir::Module& module);
/// lower_transforms, then inline_calls.
ir::Module flattened(const ir::Module& module);
/// Results of a function under the interpreter; a test failure and no results when that fails.
std::vector<Literal> run(const ir::Module& module, std::string_view function, const std::vector<Literal>& args);

/// How often an op occurs in a function of the module.
int count_ops(const ir::Module& module, std::string_view function, std::string_view op);
/// Adds @wrapper, whose parameters are those of the transform's type rule, around one call of `transform` of `callee`.
void add_wrapper(ir::Module& module, const std::string& wrapper, const std::string& transform,
                 const std::string& callee, ir::Attrs attrs = {});

}  // namespace nabla::transforms
