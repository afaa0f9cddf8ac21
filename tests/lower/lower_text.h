// Flat modules as text, and their way through fuse and plan_memory, for tests of lowering.
#pragma once

#include <string>

#include "ir/module.h"
#include "runtime/base/diagnostic.h"

namespace nabla::lower_tests {

/// The module of `body` after the line "nabla 1 flat"; a test failure and an empty module when it does not parse.
ir::Module flat(const std::string& body);
/// A module with one entry @f whose results are all outputs.
ir::Module function(const std::string& params, const std::string& body);
/// Fused for cpu:x86-64-v3 without libraries; a test failure when that fails.
ir::Module fused(const ir::Module& module);
/// Fused with every product that a library can compute left to it.
Result<ir::Module> fused_with_library(const ir::Module& module);
/// The same for a GPU, planned.
Result<ir::Module> planned_for_gpu(const ir::Module& module, const std::string& target);
/// Fused and planned; `max_bytes` as the pass option of that name.
Result<ir::Module> planned(const ir::Module& module, const std::string& max_bytes = "");

}  // namespace nabla::lower_tests
