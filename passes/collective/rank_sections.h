// Slices at starts that follow from the rank's place.
#pragma once

#include "passes/pass.h"
#include "passes/shard/reshard.h"

namespace nabla::passes {

/// The function with every dynamic_slice whose starts follow from constants and the rank's coordinates, inside its operand
/// for every rank, as sections, one per dimension that is cut. A section of the first of the dimensions into which a reshape
/// splits one is taken before the reshape: so what a program cuts in its own words (`axis_index`, the derivative of
/// all_gather) looks as what partition cuts.
ir::FunctionPtr with_rank_sections(const ir::FunctionPtr& f, const RankSymbols& rank, const ir::Module& module,
                                   const ir::OpTable& ops);

}  // namespace nabla::passes
