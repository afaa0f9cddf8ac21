// Found layouts as a text for people, for diff, and for --layout.
#pragma once

#include <string>

#include "ir/module.h"
#include "passes/auto_shard/search.h"

namespace nabla::passes {

/// The layout as a rule says it: words with commas between them; a priority for those of which `priority` is true.
std::string words_of(const ir::Sharding& layout);
/// A line per leaf of the state, then per input, in the order of their names: a rule of --layout, and after # why the
/// layout was chosen: bytes on a rank, and the next best layout with what it costs more while all else stays. Before them, as
/// comments, the mesh, the predicted times of a run of every entry, and what ranks exchange there. Equal searches give equal texts.
std::string plan_text(const ir::Module& laid_out, const FoundLayouts& found);

}  // namespace nabla::passes
