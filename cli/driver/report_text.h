// Numbers for people, with units.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace nabla::driver {

/// "512 B", "32.8 KB" (of 1000 bytes), "1.25 GB".
std::string bytes_text(int64_t n);
/// Three digits: "12.3 us".
std::string time_text(double us);
/// A number of things, each a `what`: "1 entry", "2 entries", "3 classes".
std::string counted(int64_t n, std::string_view what);

}  // namespace nabla::driver
