// The reference of a kernel of the user's, for calls on parts of its operands.
#pragma once

#include "ir/module.h"
#include "ir/op_def.h"
#include "passes/shard/plan_partition.h"

namespace nabla::passes {

/// The attributes of a custom_call whose operands and results become parts of these layouts. Its functions are of the
/// types with which the program was traced, and no derivative is taken any more: the `vjp` goes. The `reference` is
/// partitioned in the same way and added to the local module as "FUNCTION.partN". It goes too where ranks would exchange
/// something in it: compiled programs never run it. Other nodes keep their attributes.
ir::Attrs with_reference_of_part(const ir::Node& n, const std::vector<Layout>& operands, const std::vector<Layout>& results,
                                 ir::Attrs attrs, const std::string& function, PartitionContext& context);

}  // namespace nabla::passes
