// Where sums over ranks are made, and in what.
#pragma once

#include <cstddef>
#include <optional>
#include <set>
#include <vector>

#include "ir/module.h"
#include "passes/pass.h"
#include "passes/shard/layout.h"

namespace nabla::passes {

/// Does the node hand on what is pending in these operands: is it linear in each of them, or in all of them jointly?
bool passes_sums(const ir::Function& f, const ir::Node& n, const std::set<size_t>& with);

/// Does the node convert a sum in f32 to narrow floats, and nothing else? Ranks round it after they have combined it.
bool passes_sum_narrowed(const ir::Function& f, const ir::Node& n);

/// Does a node of a region, or of its borders, hand on what microbatches add later, pending in an operand that lies so? It is a
/// copy, or a sum over ranks along other axes.
bool passes_sums_of_microbatches(const ir::Mesh& mesh, const ir::Node& n, const Layout& operand);

/// By value: whether a sum that is pending in it is made before its first reader, although some of its readers could hand it
/// on. So it is where the sums that its readers need, or that follow from them, have more bytes than the value itself: the
/// gradient g of which an optimizer needs 0.1 * g and g * g is exchanged once, and not twice.
std::vector<char> sum_points(const ir::Function& f);

/// Elementwise ops whose operands are in parts, and whose results are wanted in fewer parts: an optimizer of a parameter
/// that all ranks keep whole, with a gradient in shards. They compute with parts, and the results are gathered. Where these
/// have more bytes than what comes in parts, it is gathered instead, and they compute with the whole: one gradient, and
/// not the parameter and both moments of Adam.
struct GatheredEarlier {
  std::vector<std::optional<Layout>> sources;  ///< by value: what it is gathered to before its first reader
  std::vector<std::optional<Layout>> layouts;  ///< by value: the layout that it has instead of its own
};
GatheredEarlier gathered_earlier(const ir::Function& f);

/// The axes of every factor, but for those over which a sum is pending.
std::vector<ir::Axes> axes_beside(const ir::Mesh& mesh, std::vector<ir::Axes> of_factor, const ir::Axes& pending);

/// The narrow type of which ranks exchange sums as they are, each rank's share rounded to it: the option `reduce-dtype`.
/// Nothing: all are exchanged in f32. E0901 for another dtype, and for f32 beside `deterministic`.
Result<std::optional<DType>> narrow_exchange(const PassContext& context);
/// The same, with a remark where the module has no floats of the type that is given.
Status check_reduce_dtype(const ir::Module& module, PassContext& context);

}  // namespace nabla::passes
