#include "runtime/checkpoint/checksum.h"

#include <zlib.h>

namespace nabla::checkpoint {

uint32_t checksum(uint32_t before, format::Bytes bytes) {
  return static_cast<uint32_t>(::crc32_z(before, bytes.data(), bytes.size()));
}

}  // namespace nabla::checkpoint
