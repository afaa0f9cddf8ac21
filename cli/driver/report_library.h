// The part of the report about calls of a GPU's libraries.
#pragma once

#include <map>
#include <nlohmann/json.hpp>

#include "cli/driver/report_time.h"
#include "ir/module.h"
#include "ir/target.h"

namespace nabla::driver {

/// A row per problem and fallback, in the order of first use; empty where nothing is left to the library.
struct LibraryCalls {
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  std::map<const ir::Node*, int> row_of;  ///< of every call
};
LibraryCalls library_calls(const ir::Module& planned, const ir::Target& target, const LeastTimes& times);

/// Least times as the report has them: "least_us", and under "formulas" how it follows from sizes.
void add_time(const LeastTime& time, nlohmann::ordered_json& row);

}  // namespace nabla::driver
