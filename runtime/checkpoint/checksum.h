// CRC-32 of bytes that come in pieces.
#pragma once

#include <cstdint>

#include "runtime/format/file.h"

namespace nabla::checkpoint {

/// Of `before` followed by `bytes`; 0 is that of nothing.
uint32_t checksum(uint32_t before, format::Bytes bytes);

}  // namespace nabla::checkpoint
