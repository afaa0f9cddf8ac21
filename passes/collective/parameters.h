// What ranks gather of parameters.
#pragma once

#include <vector>

#include "ir/module.h"

namespace nabla::passes {

/// By value: is it a parameter of the function, or what movements, conversions and fences alone make of one? A rank can make that at
/// any time, of what it has from the beginning on: masters in f32 that are gathered in bf16, layers that are slices of one leaf.
std::vector<bool> brought_from_parameters(const ir::Function& f);

}  // namespace nabla::passes
