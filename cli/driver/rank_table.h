// The table of a bundle for all ranks of a mesh (ranks.fbs).
#pragma once

#include <vector>

#include "ir/module.h"

namespace nabla::format {
struct RanksT;
}
namespace nabla::driver {

inline constexpr const char* kClassOfAll = "main";

/// One class of all ranks, as a local program serves every rank of a mesh. Where parts lie in the whole
/// follows from the layouts of `sharded`, a module after propagate; `planned` is made of it, and has the types of
/// parts; `groups` are those of its programs.
format::RanksT rank_table(const ir::Module& sharded, const ir::Module& planned, const std::vector<ir::Axes>& groups);

}  // namespace nabla::driver
