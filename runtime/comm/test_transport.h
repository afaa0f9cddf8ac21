// Messages between threads, for tests of what is made of messages.
#pragma once

#include <memory>
#include <vector>

#include "runtime/comm/transport.h"

namespace nabla::comm {

/// One end per rank. Small messages are done when they are sent, larger ones when they have been received, as MPI does.
std::vector<std::unique_ptr<Transport>> test_transports(uint32_t ranks);

}  // namespace nabla::comm
