// How far ahead of their use parameters are gathered.
#pragma once

#include <vector>

#include "ir/module.h"

namespace nabla::passes {

/// By node: is it an all_gather of a parameter of the function, or of what movements alone make of parameters? ZeRO-3 makes these.
std::vector<bool> gathers_of_parameters(const ir::Module& module, const ir::Function& f);

/// The function with these gathers at the latest places where `ahead` of them are under way before they are used: at each node that
/// reads some of them for the first time, the next `ahead` after these have started, in the order of their first readers; at the
/// function's begin the first `ahead`. 0: each starts right before its reader. In the body of a loop these are gathers
/// of one trip: none starts in the trip before. Other nodes keep their order, but for what makes the operand of a gather and would come
/// after it.
ir::Function prefetched(const ir::Module& module, const ir::Function& f, int64_t ahead);

}  // namespace nabla::passes
