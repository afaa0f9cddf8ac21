// The graph half of the report: nodes before fusion, and the instructions and buffers that they became.
#pragma once

#include <nlohmann/json.hpp>

#include "ir/bill/library_calls.h"
#include "ir/module.h"

namespace nabla::driver {

/// Adds "sizes", "types", "places" and "functions" to the report (docs/bundle-format.md). `calls` are the rows of library calls.
void add_graph(const ir::Module& flat, const ir::Module& planned, const ir::Target& target,
               const std::vector<ir::LibraryBill>& calls, nlohmann::ordered_json& report);

}  // namespace nabla::driver
