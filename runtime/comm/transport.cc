#include "runtime/comm/transport.h"

#include <unistd.h>

#include "runtime/comm/recorder.h"

namespace nabla::comm {

Status finish(Transport& transport, Result<Transport::Request> begun, double timeout_s, const std::string& name) {
  Transport::Request waited = NABLA_TRY(std::move(begun));
  for (int64_t begin = steady_us(); !NABLA_TRY(transport.test(waited)); ::usleep(200))
    if (seconds_since(begin) > timeout_s)
      return error(Code::kTooLate, "rank {}: {} is not done in {} s", transport.rank(), name, timeout_s);
  return Ok{};
}

}  // namespace nabla::comm
