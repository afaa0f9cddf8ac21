// Manual regions (shard_map) under propagation and partition.
#pragma once

#include "ir/builder.h"
#include "ir/module.h"
#include "ir/op_def.h"
#include "passes/shard/layout.h"

namespace nabla::passes {

/// `flat` with the bodies of regions in the place of their nodes: between full_to_shard for every operand and
/// shard_to_full for every result. What lies along a dimension beside the region's axes goes through these, as through
/// any op. Where a value is laid out otherwise, it is laid out anew before and after. Functions that bodies run are
/// copied, so that no loop is in a region and outside of one; `vary` is gone. Errors are those of mark_varying, which
/// is done first.
Result<ir::Module> place_regions(const ir::Module& flat, const ir::OpTable& ops);

/// Of a sharded module: E0205 for a collective where no region is placed.
Status check_collectives(const ir::Module& sharded);

/// Whether it is full_to_shard or shard_to_full.
bool is_border(const ir::Node& n);
/// Of a border: the layout of the whole when its part has this one.
Layout outside_of(const ir::Node& border, const Layout& inside);
/// The same the other way; nothing where the whole is not cut first as the border says.
std::optional<Layout> inside_of(const ir::Node& border, const Layout& outside);

}  // namespace nabla::passes
