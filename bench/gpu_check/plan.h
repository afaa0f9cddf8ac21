// plan.json, which gpu_check_pack writes and gpu_check reads back: what it holds.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "runtime/base/diagnostic.h"

namespace nabla::gpu_check {

/// The plan of a folder, in which every value that a check uses is there and can be used. E0801 where there is none, E0104 where it
/// is damaged, with the name of the value that is wrong.
Result<nlohmann::json> read_plan(const std::string& folder);

/// What is wrong with a plan: "values[3].tolerance is \"x\"; expected a number of at least 0"; empty: nothing.
std::string plan_problem(const nlohmann::json& plan);

}  // namespace nabla::gpu_check
