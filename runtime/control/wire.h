// Messages of the control plane on TCP connections. Whatever a stranger sends ends his connection and nothing else.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/diagnostic.h"
#include "runtime/control/message_generated.h"

namespace nabla::control {

constexpr uint32_t kMostBytes = 64 << 10;  ///< of one message
constexpr uint32_t kMostHello = 4 << 10;   ///< of the first, before its sender is known

using Clock = std::chrono::steady_clock;
inline double seconds_since(Clock::time_point t) { return std::chrono::duration<double>(Clock::now() - t).count(); }

/// Takes bytes as they come and gives the messages in them.
class Frames {
 public:
  /// Messages may be `most` bytes long from now on.
  void allow(uint32_t most) { most_ = most; }
  void add(std::string_view bytes) { buffer_.append(bytes); }
  /// The next whole message, if there is one. E0104 for one that is too long or no message: nothing follows it.
  Result<std::optional<MessageT>> next();

 private:
  std::string buffer_;
  uint32_t most_ = kMostBytes;
};

/// Size and bytes.
std::string frame(const MessageT& message);

/// An error as the code and text of a message, and back: the notes are lines of the text.
void fill(MessageT& into, const Diagnostic& why);
Diagnostic diagnostic_of(const MessageT& message);

/// Are both texts the same? Takes as long wherever they differ.
bool same_token(std::string_view a, std::string_view b);
/// 32 hexadecimal digits of the system's randomness.
std::string new_token();
int64_t wall_us();

/// A file descriptor, closed with it.
class Socket {
 public:
  Socket() = default;
  explicit Socket(int fd) : fd_(fd) {}
  Socket(Socket&& o) noexcept : fd_(std::exchange(o.fd_, -1)) {}
  Socket& operator=(Socket&& o) noexcept;
  ~Socket();
  int fd() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }

 private:
  int fd_ = -1;
};

/// Can ranks meet there? E0901 for what is no HOST:PORT, and for port 0, which nobody can know.
Status check_address(const std::string& address);
/// Listens at "HOST:PORT"; port 0 takes a free one. `address` becomes where it listens. E0612 says why it cannot: the
/// port is taken, the host is not this one.
Result<Socket> listen_at(std::string& address);
/// E0612 when nobody answers within the time.
Result<Socket> connect_to(const std::string& address, double timeout_s);
/// Of this machine.
std::string host_name();
/// The address of this machine by which packets to `host` leave it; empty: it is not known.
std::string address_towards(const std::string& host);
/// Where a coordinator on this machine listens for so many ranks, of which so many are here: "127.0.0.1:0" where all are.
std::string meeting_place(uint32_t local_ranks, uint32_t ranks);
/// Writes all of it, waiting `timeout_s` at most. False: the other end is gone.
bool write_all(const Socket& to, std::string_view bytes, double timeout_s);

}  // namespace nabla::control
