// --auto-shard: one search for layouts, and the programs that are made of it and beside it, judged by their timelines.
#pragma once

#include "cli/driver/lower_set.h"

namespace nabla::driver {

/// Are layouts searched? Programs of several targets lie over the ranks alike, and so have one search, which the pass makes.
bool searches_layouts(const ir::Module& module, const CompileOptions& options);
/// Of the program with the layouts that were found, that which propagation makes of the found leaves and inputs, and data parallel
/// with the batch along all axes of which nothing is said: the quickest that keeps the limits of memory, data parallel where it is
/// clearly so. Notes say which. E0402 where none keeps them.
Result<LoweredSet> lowered_by_search(const ir::Target& target, const ir::Module& module, const CompileOptions& options);

}  // namespace nabla::driver
