// What a run of an entry copies between the host's memory and a GPU's.
#pragma once

#include <nlohmann/json.hpp>

#include "ir/module.h"
#include "ir/target.h"

namespace nabla::driver {

/// By direction, `to_device` and `to_host`: `{bytes, copies, us}` of all copies of a run, the least time that the link takes,
/// and `leaves`, a list of `{name, bytes, copies, source}` in the order of their first copies. Null where nothing is copied.
/// Requires a planned module for a GPU.
nlohmann::ordered_json transfers_of(const ir::Module& planned, const ir::Entry& entry, const ir::Target& target);

}  // namespace nabla::driver
