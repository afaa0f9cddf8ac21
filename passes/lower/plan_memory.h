// Where every value lives.
#pragma once

#include "ir/plan.h"
#include "passes/pass.h"

namespace nabla::passes {

/// kernels -> planned. One arena: state leaves first, then temporaries whose lifetimes do not overlap share bytes. Of a GPU's
/// program leaves that live in the host's memory have a second one there, which `max_bytes` does not count; its kernels read
/// copies of them (stream_host_state.h).
/// State leaves are updated in place: readers of the old value run before its writer. Where that cannot be, the new
/// value of a leaf of at most 4 KiB is made beside and copied at the end; for a larger one it is E0401, with the bytes
/// that a copy would cost; E0402 for a value or an arena above kMaxArrayBytes, and when `max_bytes` is given and the arena
/// exceeds it.
Result<ir::Module> plan_memory(const ir::Module& module, PassContext& context);

}  // namespace nabla::passes
