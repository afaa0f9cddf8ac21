// Layouts that nobody has stated, chosen by what ranks would exchange and compute: Alpa's search (Zheng et al., "Alpa: Automating
// Inter- and Intra-Operator Parallelism for Distributed Deep Learning", OSDI 2022) over the factors of ops.
#pragma once

#include "ir/module.h"
#include "passes/pass.h"

namespace nabla::passes {

/// flat -> flat. With the option `search`=true, lays out the leaves of the state and the inputs of entries over the module's
/// mesh: those of which nothing is said, and what is open of others. What is stated stays, and propagation goes on from both. Option
/// `max-bytes`: of state on a rank; `target`: of whose computing the search thinks, empty: of the one that is compiled for. The
/// context gets the plan as its text "plan" (plan_text.h), and a remark. E0901 without a mesh and for one of more than three axes
/// along which ranks lie, E0402 where no layouts keep the limit (with the least that is possible), E0602 where CBC is
/// needed and missing.
Result<ir::Module> auto_shard(const ir::Module& module, PassContext& context);

}  // namespace nabla::passes
