// Examples, draws and rejects of custom_call.
#pragma once

#include <vector>

#include "ir/ops/common.h"

namespace nabla::ops {

std::vector<Example> custom_call_examples();
Example draw_custom_call(Rng& rng);
std::vector<Reject> custom_call_rejects();

}  // namespace nabla::ops
