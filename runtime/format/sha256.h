// SHA-256 (FIPS 180-4), for the hashes in a bundle's manifest.
#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace nabla::format {

/// The digest as 64 lower-case hexadecimal digits.
std::string sha256_hex(std::span<const uint8_t> bytes);

}  // namespace nabla::format
