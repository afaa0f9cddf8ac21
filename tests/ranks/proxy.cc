#include "tests/ranks/proxy.h"

#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

namespace nabla::tests {
namespace {

sockaddr_in here(int port) {
  sockaddr_in out{};
  out.sin_family = AF_INET, out.sin_addr.s_addr = htonl(INADDR_LOOPBACK), out.sin_port = htons(static_cast<uint16_t>(port));
  return out;
}

/// A socket of a port that is free; -1: there is none.
int bound(int& port) {
  int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in at = here(0);
  socklen_t size = sizeof at;
  if (::bind(fd, reinterpret_cast<sockaddr*>(&at), size) != 0 || ::getsockname(fd, reinterpret_cast<sockaddr*>(&at), &size) != 0) return -1;
  port = ntohs(at.sin_port);
  return fd;
}

void break_off(int fd) {
  linger at_once{1, 0};  // the other end gets a reset instead of an end
  ::setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
  ::close(fd);
}

}  // namespace

int free_port() {
  int port = 0;
  ::close(bound(port));
  return port;
}

Proxy::Proxy(int to) : to_(to) {
  listener_ = bound(port_);
  ::listen(listener_, 16);
  thread_ = std::thread([this] { serve(); });
}

Proxy::~Proxy() {
  quit_ = true;
  thread_.join();
  for (auto [a, b] : pairs_) ::close(a), ::close(b);
  ::close(listener_);
}

void Proxy::serve() {
  while (!quit_) {
    std::vector<pollfd> set{{listener_, POLLIN, 0}};
    // An end that is held back is not read. Its bytes stay in the system's buffers, as if the network were cut.
    for (auto [a, b] : pairs_) set.insert(set.end(), {{hold_here_ ? -1 : a, POLLIN, 0}, {hold_there_ ? -1 : b, POLLIN, 0}});
    ::poll(set.data(), set.size(), 20);
    if (reset_.exchange(false)) {
      for (auto [a, b] : pairs_) break_off(a), break_off(b);
      pairs_.clear();
      continue;
    }
    std::vector<std::pair<int, int>> left;
    for (size_t i = 0; i < pairs_.size(); ++i) {
      auto [a, b] = pairs_[i];
      bool open = (set[2 * i + 1].revents == 0 || hand_on(a, b)) && (set[2 * i + 2].revents == 0 || hand_on(b, a));
      if (open)
        left.push_back(pairs_[i]);
      else
        ::close(a), ::close(b);
    }
    pairs_ = std::move(left);
    if (set[0].revents != 0) accept();
  }
}

void Proxy::accept() {
  int a = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC), b = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in at = here(to_);
  bool met = false;
  while (a >= 0 && !quit_ && !(met = ::connect(b, reinterpret_cast<sockaddr*>(&at), sizeof at) == 0)) {
    ::usleep(10'000);  // who listens there may still begin
    if (reset_) break;
  }
  if (met)
    pairs_.emplace_back(a, b);
  else
    ::close(a), ::close(b);
}

bool Proxy::hand_on(int from, int to) {
  char bytes[16384];
  ssize_t n = ::recv(from, bytes, sizeof bytes, 0), sent = 0;
  for (ssize_t w = 0; sent < n && (w = ::send(to, bytes + sent, static_cast<size_t>(n - sent), MSG_NOSIGNAL)) > 0;) sent += w;
  return n > 0 && sent == n;
}

}  // namespace nabla::tests
