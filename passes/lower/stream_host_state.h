// State that lives in the host's memory: the copies that a GPU's program makes of it.
#pragma once

#include "passes/pass.h"

namespace nabla::passes {

/// kernels -> kernels. Does nothing but for GPUs, where a leaf's memory is the host's. What reads such a leaf reads a copy on
/// the device, `to_device`, made right before the first reader; it serves later readers until another leaf is copied in
/// between, after which the leaf is copied anew for them, where less than `keep_bytes` of others would have it stay. A new
/// value is copied to the leaf, `to_host`, right after it is computed. A remark counts both. E0901 for a bad option.
Result<ir::Module> stream_host_state(const ir::Module& module, PassContext& context);

}  // namespace nabla::passes
