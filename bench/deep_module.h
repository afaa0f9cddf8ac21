// A program as deep as wanted, for what has to grow with its size alone.
#pragma once

#include <vector>

#include "ir/module.h"

namespace nabla::bench {

/// A stack of transformer blocks and its gradient, traced: entry `step` takes x f32[4,32,width]; its state leaves are
/// block0.up and so on.
ir::Module deep_module(int layers);
/// The exponent of seconds in layers: least squares of their logarithms.
double growth(const std::vector<int>& layers, const std::vector<double>& seconds);

}  // namespace nabla::bench
