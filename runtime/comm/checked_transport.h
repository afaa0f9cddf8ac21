// Messages with a checksum, for networks and memory that are not to be trusted.
#pragma once

#include <memory>

#include "runtime/comm/transport.h"

namespace nabla::comm {

/// Every message is followed by its CRC-32. `test` of a message that came otherwise: E0613 names sender and receiver. Costs a
/// copy and two passes over the bytes. All ranks have it, or none.
std::unique_ptr<Transport> checked(std::shared_ptr<Transport> transport);

}  // namespace nabla::comm
