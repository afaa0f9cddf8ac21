// Layouts that nobody has stated, chosen by what ranks would exchange and compute: Alpa's search (Zheng et al., "Alpa: Automating
// Inter- and Intra-Operator Parallelism for Distributed Deep Learning", OSDI 2022) over the factors of ops.
#pragma once

#include <string>
#include <vector>

#include "ir/module.h"
#include "passes/pass.h"

namespace nabla::passes {

/// What a search found, in PassContext::found.
struct FoundPlan {
  std::string text;         ///< the layouts, as --layout @FILE reads them (plan_text.h)
  double memory_bytes = 0;  ///< of a rank, as the option max-memory counts them
};
/// The plan of the search among these passes. Null if none of them searched.
const FoundPlan* found_plan(const std::vector<PassReport>& reports);

/// flat -> flat. With the option `search`=true, chooses the sharding over the module's mesh of those leaves of the state and inputs of
/// entries that have none, and of open dimensions of others. What is stated stays, and propagation goes on from both.
/// Options: `max-bytes`, of state on a rank; or `max-memory`, of it and of what lives at once where an entry needs most, as the
/// program is written; `values`, where "propagated" leaves all other values to propagation; `target`, of whose computing the
/// search thinks, empty: of the one that is compiled for. The context gets a FoundPlan and a remark.
/// E0901 without a mesh and for one of more than three axes along which ranks lie, E0402 where no layouts keep the limit (with the least
/// that is possible), E0602 where CBC is needed and missing.
Result<ir::Module> auto_shard(const ir::Module& module, PassContext& context);

/// The module with the layouts that `found`, which auto_shard made of it, has on leaves and inputs: all else is left to propagation,
/// as with `values`=propagated, for which nothing is searched a second time.
ir::Module with_stored_layouts_of(const ir::Module& module, const ir::Module& found);

/// How much a run of the entry counts where times of programs are compared: 1, but a thousandth where it reads nothing of a state from
/// which others go on: it makes that state, once, as `init` does.
double weight_of(const ir::Module& module, const ir::Entry& entry);

/// The plan of layouts that no search found: those of a module on whose leaves and inputs they are settled. `why` is what people are
/// told of it, in its second line.
std::string plan_of_layouts(const ir::Module& laid_out, const std::string& why);

}  // namespace nabla::passes
