// Numbers for people, with units.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "ir/bill/names.h"

namespace nabla::driver {

/// "512 B", "32.8 KB" (of 1000 bytes), "1.25 GB".
std::string bytes_text(int64_t n);
/// Three digits: "12.3 us".
std::string time_text(double us);
using ir::counted;

}  // namespace nabla::driver
