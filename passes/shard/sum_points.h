// Where ranks combine sums, and in which type they exchange them. A sum is pending in a value if every rank has a share of it.
#pragma once

#include <cstddef>
#include <optional>
#include <set>
#include <vector>

#include "ir/module.h"
#include "passes/pass.h"
#include "passes/shard/layout.h"

namespace nabla::passes {

/// Can the sum stay pending through the node, if it is pending in these operands? It can if the node is linear in one of them, or in all
/// of them jointly.
bool passes_sums(const ir::Function& f, const ir::Node& n, const std::set<size_t>& with);

/// By value: is every element zero, of either sign, whatever the arguments are? Zero may be the share that every rank has of a sum.
/// Such a value therefore counts as a pending sum over any axes: `0 + loss1 + loss2` is exchanged once.
std::vector<char> zeros_of(const ir::Function& f);

/// Does the node convert a sum in f32 to narrow floats, and nothing else? Ranks round it after they have combined it.
bool passes_sum_narrowed(const ir::Function& f, const ir::Node& n);

/// Can a sum over microbatches stay pending through a node of a manual region, or of its borders? It can if the node copies its operand,
/// or sums it over ranks along other axes. `operand` is the layout of the operand.
bool passes_sums_of_microbatches(const ir::Mesh& mesh, const ir::Node& n, const Layout& operand);

/// By value: do ranks combine a pending sum in it before its first reader? They do if the sums that its readers need complete, or that
/// follow from them, have more bytes than the value, or as many bytes in more messages. Example: an optimizer reads 0.1 * g and g * g,
/// so that g is exchanged once, and not twice. `pending`: parameters in which sums are pending, as in bodies of loops.
std::vector<char> sum_points(const ir::Function& f, const std::set<ir::ValueId>& pending = {});

/// Elementwise ops that read shards and make values that are wanted gathered: an optimizer's update of a replicated parameter by a
/// sharded gradient. They compute shards, and their results are gathered. If the results have more bytes than the shards that the ops
/// read, these are gathered instead: one gradient, and not the parameter and both moments of Adam.
struct GatheredEarlier {
  std::vector<std::optional<Layout>> sources;  ///< by value: the layout to which it is gathered before its first reader
  std::vector<std::optional<Layout>> layouts;  ///< by value: the layout that it has instead of its own
};
GatheredEarlier gathered_earlier(const ir::Function& f);

/// The axes of every factor without those over which a sum is pending.
std::vector<ir::Axes> axes_beside(const ir::Mesh& mesh, std::vector<ir::Axes> of_factor, const ir::Axes& pending);

/// The narrow type in which ranks exchange shares of sums, by the option `reduce-dtype`. Nothing if they exchange f32.
std::optional<DType> narrow_exchange(const PassContext& context);
/// E0901 for f32 beside `deterministic`. A remark if the module has no floats of the type that is given.
Status check_reduce_dtype(const ir::Module& module, PassContext& context);

}  // namespace nabla::passes
