#include "runtime/comm/checked_transport.h"

#include <cstring>
#include <map>
#include <vector>

#include "runtime/format/zip.h"

namespace nabla::comm {
namespace {

using Trailer = uint32_t;

Trailer sum_of(const void* data, uint64_t bytes) {
  return format::crc32_of({static_cast<const uint8_t*>(data), static_cast<size_t>(bytes)});
}

class Checked final : public Transport {
 public:
  explicit Checked(std::shared_ptr<Transport> to) : to_(std::move(to)) {}

  std::string name() const override { return to_->name(); }
  uint32_t rank() const override { return to_->rank(); }
  uint32_t ranks() const override { return to_->ranks(); }
  Status close() override { return to_->close(); }

  Result<Request> send(uint32_t to, uint32_t tag, const void* from, uint64_t bytes) override {
    Message m = fresh(bytes);
    if (bytes > 0) std::memcpy(m.room.data(), from, bytes);
    Trailer sum = sum_of(from, bytes);
    std::memcpy(m.room.data() + bytes, &sum, sizeof sum);
    Request request = NABLA_TRY(to_->send(to, tag, m.room.data(), m.room.size()));
    return open(request, std::move(m));
  }
  Result<Request> recv(uint32_t from, uint32_t tag, void* to, uint64_t bytes) override {
    Message m = fresh(bytes);
    m.from = from, m.to = to, m.comes = true;
    Request request = NABLA_TRY(to_->recv(from, tag, m.room.data(), m.room.size()));
    return open(request, std::move(m));
  }

  Result<bool> test(Request request) override {
    if (!NABLA_TRY(to_->test(request))) return false;
    auto it = open_.find(request);
    Message m = std::move(it->second);
    open_.erase(it);
    size_t bytes = m.room.size() - sizeof(Trailer);
    Trailer sent = 0, come = sum_of(m.room.data(), bytes);
    std::memcpy(&sent, m.room.data() + bytes, sizeof sent);
    if (m.comes && sent != come)
      return error(Code::kPayloadCorrupt, "a message of {} bytes from rank {} came to rank {} damaged: its checksum is {:08x}, not {:08x}",
                   bytes, m.from, rank(), come, sent);
    if (m.comes && bytes > 0) std::memcpy(m.to, m.room.data(), bytes);
    rooms_.push_back(std::move(m.room));
    return true;
  }

 private:
  struct Message {
    std::vector<char> room;  ///< the bytes and their sum; where it lies does not change while the message is under way
    uint32_t from = 0;
    void* to = nullptr;
    bool comes = false;
  };

  Message fresh(uint64_t bytes) {
    Message m;
    if (!rooms_.empty()) m.room = std::move(rooms_.back()), rooms_.pop_back();
    m.room.resize(bytes + sizeof(Trailer));
    return m;
  }
  Request open(Request request, Message m) {
    open_[request] = std::move(m);
    return request;
  }

  std::shared_ptr<Transport> to_;
  std::map<Request, Message> open_;
  std::vector<std::vector<char>> rooms_;  ///< to be used again
};

}  // namespace

std::unique_ptr<Transport> checked(std::shared_ptr<Transport> transport) { return std::make_unique<Checked>(std::move(transport)); }

}  // namespace nabla::comm
