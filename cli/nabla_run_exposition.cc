#include "cli/nabla_run_exposition.h"

#include <arpa/inet.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>

#include "runtime/base/option_error.h"

namespace nabla::cli {
namespace {

constexpr size_t kMostRequest = 4096;
constexpr int64_t kClientUs = 1'000'000, kWindowUs = 1'000'000;

/// Waits until `fd` is ready for `what`; false: not before `end_us`.
bool ready(int fd, short what, int64_t end_us) {
  int64_t left_ms = (end_us - comm::steady_us()) / 1000;
  pollfd p{fd, what, 0};
  return left_ms > 0 && ::poll(&p, 1, static_cast<int>(left_ms)) == 1;
}

/// The first line of a request whose head has come whole; empty: it has not, in time or at all.
std::string request_line(int client, int64_t end_us) {
  std::string head;
  char bytes[1024];
  while (head.size() < kMostRequest && ready(client, POLLIN, end_us)) {
    ssize_t n = ::recv(client, bytes, sizeof bytes, MSG_DONTWAIT);
    if (n <= 0) return "";
    head.append(bytes, static_cast<size_t>(n));
    if (head.find("\r\n\r\n") != head.npos) return head.substr(0, head.find("\r\n"));
  }
  return "";
}

std::string response(const char* status, const std::string& body, const char* more = "") {
  return fmt::format("HTTP/1.0 {}\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\nContent-Length: {}\r\n{}"
                     "Connection: close\r\n\r\n{}", status, body.size(), more, body);
}

/// A label's value: backslash, quote and end of line are escaped.
std::string label(const std::string& text) {
  std::string out;
  for (char c : text) out += c == '\\' ? "\\\\" : c == '"' ? "\\\"" : c == '\n' ? "\\n" : std::string(1, c);
  return out;
}

std::string number(double value) {
  if (std::isnan(value)) return "NaN";
  return std::isinf(value) ? (value > 0 ? "+Inf" : "-Inf") : fmt::format("{:.9g}", value);
}

}  // namespace

Result<std::unique_ptr<Exposition>> Exposition::start(uint16_t port, std::vector<Rank> ranks) {
  int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), on = 1;
  sockaddr_in at{};
  at.sin_family = AF_INET, at.sin_port = htons(port), at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof at;
  auto* address = reinterpret_cast<sockaddr*>(&at);
  if (fd >= 0) ::setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (fd < 0 || ::bind(fd, address, size) != 0 || ::listen(fd, 8) != 0 || ::getsockname(fd, address, &size) != 0) {
    int problem = errno;
    if (fd >= 0) ::close(fd);
    return option_error("take another port", "--prometheus: port {} of 127.0.0.1 cannot be had: {}", port, std::strerror(problem));
  }
  return std::unique_ptr<Exposition>(new Exposition(fd, ntohs(at.sin_port), std::move(ranks)));
}

Exposition::Exposition(int listener, uint16_t port, std::vector<Rank> ranks)
    : listener_(listener), port_(port), ranks_(std::move(ranks)), since_us_(comm::steady_us()), thread_([this] { serve(); }) {}

Exposition::~Exposition() {
  quit_ = true;
  ::shutdown(listener_, SHUT_RDWR);  // wakes the thread
  thread_.join();
  ::close(listener_);
}

void Exposition::update(int64_t step, const std::vector<Metric>& metrics) {
  std::lock_guard lock(mutex_);
  step_ = step;
  for (const Metric& m : metrics) metrics_[m.name] = m.value;
  ++counted_;
  int64_t now = comm::steady_us(), window = now - since_us_;
  if (window < kWindowUs) return;
  per_second_ = static_cast<double>(counted_) * 1e6 / static_cast<double>(window);
  since_us_ = now, counted_ = 0;
}

std::string Exposition::text() const {
  std::string out;
  auto begin = [&](const char* name, const char* kind, const char* help) {
    out += fmt::format("# HELP {} {}\n# TYPE {} {}\n", name, help, name, kind);
  };
  {
    std::lock_guard lock(mutex_);
    begin("nabla_step", "gauge", "The step that was done last.");
    out += fmt::format("nabla_step {}\n", step_);
    begin("nabla_steps_per_second", "gauge", "Over the last second or more.");
    out += fmt::format("nabla_steps_per_second {}\n", number(per_second_));
    if (!metrics_.empty()) begin("nabla_metric", "gauge", "Scalar outputs of the step that was done last.");
    for (const auto& [name, value] : metrics_) out += fmt::format("nabla_metric{{name=\"{}\"}} {}\n", label(name), number(value));
  }
  if (ranks_.empty()) return out;
  begin("nabla_exchanged_bytes_total", "counter", "Payload of the exchanges that a rank has begun.");
  for (const Rank& r : ranks_)
    out += fmt::format("nabla_exchanged_bytes_total{{rank=\"{}\"}} {}\n", r.rank, r.board->exchanged_bytes.load());
  begin("nabla_rank_wait_seconds_total", "counter", "How long a rank has waited in exchanges.");
  for (const Rank& r : ranks_)
    out += fmt::format("nabla_rank_wait_seconds_total{{rank=\"{}\"}} {}\n", r.rank,
                       number(static_cast<double>(r.board->waited_us.load()) / 1e6));
  return out;
}

void Exposition::serve() {
  while (!quit_) {
    pollfd p{listener_, POLLIN, 0};
    if (::poll(&p, 1, 1000) != 1 || quit_) continue;
    int client = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (client < 0) {
      ::usleep(10'000);  // out of descriptors: it would be asked again at once
      continue;
    }
    answer(client);
    ::close(client);
  }
}

void Exposition::answer(int client) const {
  int64_t end_us = comm::steady_us() + kClientUs;
  std::string line = request_line(client, end_us), reply;
  std::string method = line.substr(0, line.find(' ')), path = line.substr(std::min(method.size() + 1, line.size()));
  path = path.substr(0, path.find(' '));
  if (line.empty() || path.empty()) reply = response("400 Bad Request", "no request\n");
  else if (method != "GET") reply = response("405 Method Not Allowed", "only GET\n", "Allow: GET\r\n");
  else if (path != "/metrics") reply = response("404 Not Found", "only /metrics\n");
  else reply = response("200 OK", text());
  for (size_t sent = 0; sent < reply.size() && ready(client, POLLOUT, end_us);) {
    ssize_t n = ::send(client, reply.data() + sent, reply.size() - sent, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n < 0) return;
    sent += static_cast<size_t>(n);
  }
}

}  // namespace nabla::cli
