// The text of a module whose values are laid out, with the sums that ranks have still to take.
#pragma once

#include <string>

#include "ir/module.h"
#include "ir/target.h"
#include "ir/text.h"

namespace nabla::driver {

/// The text of the module. At stage sharded, over a mesh, a comment behind a node names the axes over which partition
/// leaves the sum of its results' parts pending: "sum over {tp} pending". Errors are those of partition.
Result<std::string> sharded_text(const ir::Module& module, const ir::Target& target, ir::PrintOptions options = {});

}  // namespace nabla::driver
