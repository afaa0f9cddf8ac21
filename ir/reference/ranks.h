// Many ranks in one process: the meaning of programs that communicate.
#pragma once

#include <string_view>
#include <vector>

#include "ir/module.h"

namespace nabla::ir {

/// Results of a function on every rank of the module's mesh: args[r] and the r-th results are those of rank r. Ranks run
/// as threads and meet in collectives; results do not depend on who comes first. Fails as `interpret` does, and with
/// E0208 where ranks come to different collectives or one waits for another that has ended. E0106 for more than 256
/// ranks, E0210 for a module without a mesh.
Result<std::vector<std::vector<Literal>>> interpret_ranks(const Module& module, std::string_view function,
                                                          std::vector<std::vector<Literal>> args);

/// What each rank has of a value: its part of every dimension that is sharded. Requires check_sharding.
std::vector<Literal> cut(const Mesh& mesh, const Sharding& sharding, const Literal& whole);
/// The whole again, of this shape; padding is left out. E0208 where ranks that should have the same part differ in a bit,
/// unless `tolerant`: then the first one counts.
Result<Literal> join(const Mesh& mesh, const Sharding& sharding, const std::vector<int64_t>& shape,
                     const std::vector<Literal>& parts, bool tolerant = false);

}  // namespace nabla::ir
