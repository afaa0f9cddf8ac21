#include "runtime/control/wire.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <cstring>

#include "runtime/base/option_error.h"
#include "runtime/base/system.h"

namespace nabla::control {
namespace {

Clock::time_point after(double seconds) {
  return Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
}
int ms_until(Clock::time_point t) {
  auto left = std::chrono::duration_cast<std::chrono::milliseconds>(t - Clock::now()).count();
  return left < 0 ? 0 : static_cast<int>(left) + 1;
}

struct HostPort {
  std::string host, port;
};
Result<HostPort> split(const std::string& address) {
  size_t colon = address.rfind(':');
  bool digits = colon != address.npos && colon + 1 < address.size() &&
                address.find_first_not_of("0123456789", colon + 1) == address.npos && address.size() - colon <= 6;
  if (!digits || colon == 0 || std::stoul(address.substr(colon + 1)) > 65535)
    return option_error("such as 10.0.0.1:29500, with a port up to 65535", "`{}` is no address: HOST:PORT is one", address);
  return HostPort{address.substr(0, colon), address.substr(colon + 1)};
}

struct Addresses {
  addrinfo* list = nullptr;
  ~Addresses() {
    if (list != nullptr) freeaddrinfo(list);
  }
};
Status resolve(const HostPort& at, int flags, Addresses& out) {
  addrinfo hints{};
  hints.ai_family = AF_INET, hints.ai_socktype = SOCK_STREAM, hints.ai_flags = flags;
  if (int code = getaddrinfo(at.host.c_str(), at.port.c_str(), &hints, &out.list))
    return error(Code::kCoordinatorLost, "the host `{}` is unknown: {}", at.host, gai_strerror(code));
  return Ok{};
}

}  // namespace

Result<std::optional<MessageT>> Frames::next() {
  uint32_t size = 0;
  if (buffer_.size() < sizeof size) return std::optional<MessageT>();
  std::memcpy(&size, buffer_.data(), sizeof size);
  if (size < 8 || size > most_) return error(Code::kCorrupt, "a control message of {} bytes; at most {} are allowed", size, most_);
  if (buffer_.size() < sizeof size + size) return std::optional<MessageT>();
  std::vector<uint8_t> bytes(buffer_.begin() + sizeof size, buffer_.begin() + static_cast<long>(sizeof size + size));
  buffer_.erase(0, sizeof size + size);
  flatbuffers::Verifier verifier(bytes.data(), bytes.size());
  if (!VerifyMessageBuffer(verifier) || GetMessage(bytes.data())->kind() > Kind::MAX)
    return error(Code::kCorrupt, "a control message of {} bytes is damaged", size);
  std::optional<MessageT> out(std::in_place);
  GetMessage(bytes.data())->UnPackTo(&*out);
  return out;
}

std::string frame(const MessageT& message) {
  flatbuffers::FlatBufferBuilder builder(256);
  FinishMessageBuffer(builder, Message::Pack(builder, &message));
  uint32_t size = builder.GetSize();
  std::string out(reinterpret_cast<const char*>(&size), sizeof size);
  return out.append(reinterpret_cast<const char*>(builder.GetBufferPointer()), size);
}

void fill(MessageT& into, const Diagnostic& why) {
  into.code = static_cast<uint16_t>(why.code), into.text = why.message;
  for (const std::string& note : why.notes) into.text += "\n" + note;
  if (into.text.size() > kMostBytes / 2) into.text.resize(kMostBytes / 2);
  into.help = why.help.substr(0, kMostBytes / 4);
}

Diagnostic diagnostic_of(const MessageT& m) {
  size_t end = std::min(m.text.find('\n'), m.text.size());
  const CodeInfo* known = find_code(m.code);  // a rank of another version may know others
  Diagnostic out = error(known != nullptr ? known->code : Code::kPeerLost, "{}", m.text.substr(0, end));
  while (end < m.text.size()) {
    size_t at = end + 1;
    end = std::min(m.text.find('\n', at), m.text.size());
    out.notes.push_back(m.text.substr(at, end - at));
  }
  out.help = m.help;
  return out;
}

bool same_token(std::string_view a, std::string_view b) {
  unsigned differ = a.size() == b.size() ? 0 : 1;
  for (size_t i = 0; i < a.size() && !b.empty(); ++i) differ |= static_cast<unsigned>(a[i] ^ b[i % b.size()]);
  return differ == 0 && !a.empty();
}

std::string new_token() {
  unsigned char bytes[16] = {};
  NABLA_CHECK(getrandom(bytes, sizeof bytes, 0) == sizeof bytes, "the system gives no random bytes");
  std::string out;
  for (unsigned char b : bytes) out += fmt::format("{:02x}", b);
  return out;
}

int64_t wall_us() {
  auto since = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::microseconds>(since).count();
}

Socket& Socket::operator=(Socket&& o) noexcept {
  if (this != &o) {
    if (fd_ >= 0) ::close(fd_);
    fd_ = std::exchange(o.fd_, -1);
  }
  return *this;
}
Socket::~Socket() {
  if (fd_ >= 0) ::close(fd_);
}

Status check_address(const std::string& address) {
  HostPort at = NABLA_TRY(split(address));
  if (std::stoul(at.port) == 0)
    return option_error(fmt::format("give a port from 1 on, such as {}:29500", at.host),
                        "ranks cannot meet at {}: a free port is one that nobody knows", address);
  return Ok{};
}

Result<Socket> listen_at(std::string& address) {
  HostPort at = NABLA_TRY(split(address));
  Addresses found;
  (void)NABLA_TRY(resolve(at, AI_PASSIVE, found));
  Socket socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket) return refused_by_system("a socket for the coordinator", errno);
  int yes = 1;
  setsockopt(socket.fd(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  if (::bind(socket.fd(), found.list->ai_addr, found.list->ai_addrlen) != 0 || ::listen(socket.fd(), 65535) != 0) {
    Diagnostic d = error(Code::kCoordinatorLost, "{}: no coordinator can listen there: {}", address, std::strerror(errno));
    d.help = "let the ranks meet at another port, or at an address of this machine";
    return d;
  }
  sockaddr_in name{};
  socklen_t size = sizeof name;
  getsockname(socket.fd(), reinterpret_cast<sockaddr*>(&name), &size);
  address = fmt::format("{}:{}", at.host, ntohs(name.sin_port));
  return socket;
}

Result<Socket> connect_to(const std::string& address, double timeout_s) {
  HostPort at = NABLA_TRY(split(address));
  Clock::time_point deadline = after(timeout_s);
  std::string why;
  do {
    Addresses found;
    if (Status known = resolve(at, 0, found); !known.ok()) {
      why = known.errors()[0].message;  // names of hosts that are just starting come later
    } else {
      Socket socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
      if (!socket) return refused_by_system("a connection to the coordinator", errno);
      int yes = 1, failed = 0;
      socklen_t size = sizeof failed;
      setsockopt(socket.fd(), IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
      if (::connect(socket.fd(), found.list->ai_addr, found.list->ai_addrlen) == 0) return socket;
      pollfd ready{socket.fd(), POLLOUT, 0};
      if (errno == EINPROGRESS && ::poll(&ready, 1, ms_until(deadline)) == 1) {
        getsockopt(socket.fd(), SOL_SOCKET, SO_ERROR, &failed, &size);
        if (failed == 0) return socket;
      } else {
        failed = errno == EINPROGRESS ? ETIMEDOUT : errno;
      }
      why = std::strerror(failed);
    }
    usleep(50000);
  } while (Clock::now() < deadline);
  return error(Code::kCoordinatorLost, "the coordinator at {} does not answer in {} s: {}", address, timeout_s, why);
}

std::string host_name() {
  char name[256] = "";
  ::gethostname(name, sizeof name - 1);
  return name;
}

std::string address_towards(const std::string& host) {
  addrinfo wanted{}, *found = nullptr;
  wanted.ai_family = AF_INET, wanted.ai_socktype = SOCK_DGRAM;
  if (::getaddrinfo(host.c_str(), "9", &wanted, &found) != 0) return "";
  std::string out;
  int fd = ::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  sockaddr_in own{};
  socklen_t size = sizeof own;
  char text[INET_ADDRSTRLEN];
  if (fd >= 0 && ::connect(fd, found->ai_addr, found->ai_addrlen) == 0 &&
      ::getsockname(fd, reinterpret_cast<sockaddr*>(&own), &size) == 0 &&
      ::inet_ntop(AF_INET, &own.sin_addr, text, sizeof text) != nullptr)
    out = text;
  if (fd >= 0) ::close(fd);
  ::freeaddrinfo(found);
  return out;
}

std::string meeting_place(uint32_t local_ranks, uint32_t ranks) {
  if (local_ranks == ranks) return "127.0.0.1:0";
  std::string own = address_towards(host_name());
  return (own.empty() ? "127.0.0.1" : own) + ":0";
}

bool write_all(const Socket& to, std::string_view bytes, double timeout_s) {
  Clock::time_point deadline = after(timeout_s);
  while (!bytes.empty()) {
    ssize_t n = ::send(to.fd(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (n > 0) {
      bytes.remove_prefix(static_cast<size_t>(n));
      continue;
    }
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno != EAGAIN && errno != EWOULDBLOCK) return false;
    pollfd ready{to.fd(), POLLOUT, 0};
    if (::poll(&ready, 1, ms_until(deadline)) != 1) return false;
  }
  return true;
}

}  // namespace nabla::control
