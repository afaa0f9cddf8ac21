// The part of the report about matrix products of a GPU's library.
#pragma once

#include <nlohmann/json.hpp>

#include "ir/module.h"
#include "ir/target.h"

namespace nabla::driver {

/// A row per problem, in the order of first use; empty where nothing is left to the library.
nlohmann::ordered_json library_calls(const ir::Module& planned, const ir::Target& target);

}  // namespace nabla::driver
