// Called functions in the place of their calls.
#pragma once

#include "passes/pass.h"

namespace nabla::passes {

/// flat -> flat. Puts the bodies of called functions in the place of their calls and removes functions that no entry
/// reaches; a module without entries keeps all of them. E0303: functions call each other in a cycle. E0106: a function
/// would have more than 2^20 nodes.
Result<ir::Module> inline_calls(const ir::Module& module, PassContext& context);

}  // namespace nabla::passes
