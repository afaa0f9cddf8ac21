// Reading a report back: what its text and its page share.
#pragma once

#include <nlohmann/json.hpp>

#include "cli/driver/report.h"

namespace nabla::driver {

/// E0104 where the text is no report, E0103 and E0105 where it is of a newer or an older version. `name` says in messages where it lies.
Result<nlohmann::ordered_json> parse_report(const std::string& text, const std::string& name = "report.json");
/// E0901 for a size that the report's program lacks, and for a value out of its range.
Status check_sizes(const nlohmann::ordered_json& report, const SizeLists& sizes);
/// The same line as for the report's target (report.h).
std::string gpu_text(const nlohmann::ordered_json& report);

}  // namespace nabla::driver
