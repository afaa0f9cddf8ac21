// Makes text from outside safe to print, parses numbers in it, and describes errors of the system.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace nabla {

/// The text without anything that a terminal obeys: control characters and bytes that are no UTF-8 become \n, \t, \x1b
/// and the like. Those in `keep` stay.
std::string printable(std::string_view text, std::string_view keep = "");

/// The beginning of a text that a message quotes, with its length where more follows: files are not trusted to have short lines. It ends
/// with a whole character.
std::string shortened(std::string_view text, size_t most = 120);

/// The first `most` lines of a text, as a diagnostic's notes.
std::vector<std::string> first_lines(std::string_view text, size_t most);

/// A number of bytes: "4096", "64K", "1.5 GB" (steps of 1000), "64KiB", "2GiB" (steps of 1024). Nullopt for other text,
/// fractions of a byte and what int64 does not hold.
std::optional<int64_t> parse_bytes(std::string_view text);
inline constexpr std::string_view kByteUnits = "bytes, or with K, M, G (1000), KiB, MiB, GiB (1024)";

/// Returns the text of an errno. If a limit is reached, the text names the limit and its value, as in
/// "Too many open files: the limit is 1024 for a process (ulimit -n)".
std::string reason_of(int problem);

}  // namespace nabla
