#include "cli/nabla_run/exposition.h"

#include <arpa/inet.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>

#include "runtime/base/option_error.h"
#include "runtime/base/system.h"

namespace nabla::cli {
namespace {

constexpr size_t kMostRequest = 4096, kMostClients = 64;
constexpr int64_t kClientUs = 1'000'000, kWindowUs = 1'000'000;

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

std::string shown(double value) {
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
  if (fd < 0 || ::bind(fd, address, size) != 0 || ::listen(fd, SOMAXCONN) != 0 || ::getsockname(fd, address, &size) != 0) {
    int problem = errno;
    if (fd >= 0) ::close(fd);
    return option_error("take another port", "--prometheus: port {} of 127.0.0.1 cannot be had: {}", port, std::strerror(problem));
  }
  std::unique_ptr<Exposition> out(new Exposition(fd, ntohs(at.sin_port), std::move(ranks)));
  (void)NABLA_TRY(start_thread(out->thread_, "answers --prometheus", [e = out.get()] { e->serve(); }));
  return out;
}

Exposition::Exposition(int listener, uint16_t port, std::vector<Rank> ranks)
    : listener_(listener), port_(port), ranks_(std::move(ranks)), since_us_(comm::steady_us()) {}

Exposition::~Exposition() {
  quit_ = true;
  ::shutdown(listener_, SHUT_RDWR);  // wakes the thread
  if (thread_.joinable()) thread_.join();
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
    out += fmt::format("nabla_steps_per_second {}\n", shown(per_second_));
    if (!metrics_.empty()) begin("nabla_metric", "gauge", "Scalar outputs of the step that was done last.");
    for (const auto& [name, value] : metrics_) out += fmt::format("nabla_metric{{name=\"{}\"}} {}\n", label(name), shown(value));
  }
  if (ranks_.empty()) return out;
  begin("nabla_exchanged_bytes_total", "counter", "Payload of the exchanges that a rank has begun.");
  for (const Rank& r : ranks_)
    out += fmt::format("nabla_exchanged_bytes_total{{rank=\"{}\"}} {}\n", r.rank, r.board->exchanged_bytes.load());
  begin("nabla_rank_wait_seconds_total", "counter", "How long a rank has waited in exchanges.");
  for (const Rank& r : ranks_)
    out += fmt::format("nabla_rank_wait_seconds_total{{rank=\"{}\"}} {}\n", r.rank,
                       shown(static_cast<double>(r.board->waited_us.load()) / 1e6));
  return out;
}

void Exposition::serve() {
  std::vector<Client> clients;
  std::vector<pollfd> set;
  while (!quit_) {
    set.assign(1, {listener_, POLLIN, 0});
    int64_t now = comm::steady_us(), end_us = now + 1'000'000;
    for (const Client& c : clients) {
      set.push_back({c.fd, static_cast<short>(c.reply.empty() ? POLLIN : POLLOUT), 0});
      end_us = std::min(end_us, c.end_us);
    }
    (void)::poll(set.data(), set.size(), static_cast<int>(std::max<int64_t>(0, end_us - now) / 1000 + 1));
    now = comm::steady_us();
    for (size_t i = 0; i < clients.size(); ++i) {
      Client& c = clients[i];
      bool goes_on = set[i + 1].revents == 0 || serve(c);
      if (goes_on && now < c.end_us) continue;
      ::close(c.fd), c.fd = -1;
    }
    std::erase_if(clients, [](const Client& c) { return c.fd < 0; });
    if (!quit_ && set[0].revents != 0) accept(clients);
  }
  for (const Client& c : clients) ::close(c.fd);
}

// A client sends its request when it connects. If there are too many clients, or no free descriptors, the oldest ones are closed.
void Exposition::accept(std::vector<Client>& clients) const {
  for (size_t i = 0; i < kMostClients / 4; ++i) {
    int fd = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
    bool full = fd < 0 ? errno == EMFILE || errno == ENFILE : clients.size() >= kMostClients;
    if (full && !clients.empty()) ::close(clients.front().fd), clients.erase(clients.begin());
    if (fd < 0 && full) ::usleep(10'000);  // it would be asked again at once
    if (fd < 0) return;
    clients.push_back({fd, comm::steady_us() + kClientUs});
  }
}

bool Exposition::serve(Client& c) const {
  char bytes[1024];
  while (c.reply.empty()) {
    ssize_t n = ::recv(c.fd, bytes, sizeof bytes, 0);
    if (n < 0) return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR;
    c.request.append(bytes, static_cast<size_t>(n));
    bool whole = c.request.find("\r\n\r\n") != c.request.npos;
    if (whole) c.reply = answer(c.request.substr(0, c.request.find("\r\n")));
    else if (n == 0 || c.request.size() >= kMostRequest) c.reply = answer("");
  }
  while (c.sent < c.reply.size()) {
    ssize_t n = ::send(c.fd, c.reply.data() + c.sent, c.reply.size() - c.sent, MSG_NOSIGNAL);
    if (n < 0) return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR;
    c.sent += static_cast<size_t>(n);
  }
  return false;
}

std::string Exposition::answer(const std::string& line) const {
  std::string method = line.substr(0, line.find(' ')), path = line.substr(std::min(method.size() + 1, line.size()));
  path = path.substr(0, path.find(' '));
  if (line.empty() || path.empty()) return response("400 Bad Request", "no request\n");
  if (method != "GET") return response("405 Method Not Allowed", "only GET\n", "Allow: GET\r\n");
  if (path != "/metrics") return response("404 Not Found", "only /metrics\n");
  return response("200 OK", text());
}

}  // namespace nabla::cli
