// What one rank computes of a program whose values are laid out over a mesh.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "ir/sharding.h"
#include "passes/pass.h"

namespace nabla::passes {

/// sharded -> local. Every node computes its part, by its factors: those of the results' layouts, and of the operands'
/// where they are summed over. Operands are laid out anew where the node needs them otherwise; what is summed over axes
/// stays pending as long as linear ops take it. A node that cannot be split so is computed whole by every rank: a remark
/// says what is gathered for it, and more bytes than the option max-gather-bytes are E0402. Without a mesh nothing is left
/// of `shard` nodes, and that is all.
Result<ir::Module> partition(const ir::Module& module, PassContext& context);

/// By function and value: the axes over which the parts of the value are still to be summed when it is made.
using PendingSums = std::map<std::string, std::vector<ir::Axes>>;
/// What partition would leave pending in the values of a sharded module; nothing without a mesh.
Result<PendingSums> pending_sums(const ir::Module& module, PassContext& context);
/// The plan by which partition emits a sharded module, for people: how ranks compute each node, and in which layouts they have its
/// operands and results. It is empty without a mesh.
Result<std::string> partition_text(const ir::Module& module, PassContext& context);

}  // namespace nabla::passes
