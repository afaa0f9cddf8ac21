// What an entry's memory is for.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>

#include "ir/module.h"
#include "passes/strategy/state_roles.h"

namespace nabla::driver {

/// Bytes of an entry by class, which add up to all of them: `parameters`, `optimizer` and `other_state`, or `state` where
/// the roles of leaves are not known; at the peak `gradients` (what the new value of a parameter follows from, before the state
/// meets it), `temporaries` (all others, scratch memory, and what loops and branches run) and `gaps` (what alignment and other
/// moments need); and, in the caller's memory, `inputs` and `outputs`. All but these two are `peak_bytes`.
/// Where leaves live in the host's memory beside a GPU's, `host` has their bytes by the same classes, and its own `gaps`. Sizes
/// are the largest.
nlohmann::ordered_json memory_by_class(const ir::Module& flat, const ir::Module& planned, const ir::Entry& entry,
                                       const std::optional<passes::StateRoles>& roles);

}  // namespace nabla::driver
