// Data parallelism and ZeRO (Rajbhandari et al., "ZeRO: Memory Optimizations Toward Training Trillion Parameter Models",
// 2020) as layouts of inputs and state.
#pragma once

#include "ir/module.h"
#include "passes/pass.h"

namespace nabla::passes {

/// Lays out what the program says nothing of. Options: `offload` (none; or opt, params, all: which leaves of the state live in
/// the host's memory), `layouts` (rules by names of leaves, layout_rules.h; slots lie as their parameters do), `data-axes` (of
/// the batch; empty: inputs and other leaves stay as they are), `open-batch` (true: other axes may cut it too),
/// `zero` (0: every rank has all of the state; 1, 2: the
/// optimizer's state is shared along `zero-axes`; 3: parameters too) and `zero-axes` (all of the data axes, where it is
/// empty). A leaf is cut along its first dimension that no axis cuts and that the ranks divide; else along one that is cut
/// already; else it stays whole, which a remark says. E0901 for options that contradict each other, E0210 for axes that
/// the mesh lacks and layouts that do not fit.
Result<ir::Module> apply_strategy(const ir::Module& module, PassContext& context);

}  // namespace nabla::passes
