#include "runtime/nccl/meeting.h"

#include <cstdio>

namespace nabla::nccl {

Meeting by_store(Put put, Get get, double timeout_s) {
  return [=](const std::string& key, const std::vector<uint32_t>&, uint32_t me, const std::string& text) -> Result<std::string> {
    if (me > 0) return get(key, timeout_s);
    (void)NABLA_TRY(put(key, text));
    return text;
  };
}

Meeting by_messages(std::shared_ptr<comm::Transport> transport, double timeout_s) {
  return [=](const std::string& key, const std::vector<uint32_t>& members, uint32_t me, const std::string& text) -> Result<std::string> {
    constexpr uint32_t kTag = comm::Transport::kMostTag - 1;
    char message[512] = "";
    comm::Transport& t = *transport;
    if (me > 0) {
      (void)NABLA_TRY(comm::finish(t, t.recv(members[0], kTag, message, sizeof message), timeout_s, key));
      return std::string(message);
    }
    if (text.size() >= sizeof message) return error(Code::kTransportFailed, "{}: {} bytes are no id", key, text.size());
    std::snprintf(message, sizeof message, "%s", text.c_str());
    for (size_t i = 1; i < members.size(); ++i)
      (void)NABLA_TRY(comm::finish(t, t.send(members[i], kTag, message, sizeof message), timeout_s, key));
    return text;
  };
}

}  // namespace nabla::nccl
