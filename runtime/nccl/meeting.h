// How the members of a communicator find each other: the first of them has an id of NCCL, which the others have to be told.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "runtime/comm/transport.h"

namespace nabla::nccl {

/// The text of the first of the members, to all of them, who call it in the same order; `me` is this one's place among them. `key` is
/// that of no other call of the job. May fail in any way.
using Meeting = std::function<Result<std::string>(const std::string& key, const std::vector<uint32_t>& members, uint32_t me,
                                                  const std::string& text)>;

using Put = std::function<Status(const std::string& key, const std::string& value)>;
using Get = std::function<Result<std::string>(const std::string& key, double timeout_s)>;
/// By a store of all ranks.
Meeting by_store(Put put, Get get, double timeout_s);

/// By messages; texts of 500 bytes at most. E0611 when one has not come in time.
Meeting by_messages(std::shared_ptr<comm::Transport> transport, double timeout_s);

}  // namespace nabla::nccl
