#include "runtime/control/crowd.h"

#include <poll.h>
#include <sys/socket.h>

#include <chrono>
#include <functional>

#include "runtime/control/coordinator.h"
#include "runtime/control/wire.h"

namespace nabla::control {
namespace {

constexpr double kPatienceS = 120;  // far above what is measured

struct Client {
  Socket socket;
  Frames frames;
  size_t starts = 0, values = 0, ends = 0;
  Status send(const MessageT& m) const {
    if (write_all(socket, frame(m), kPatienceS)) return Ok{};
    return error(Code::kCoordinatorLost, "the coordinator takes nothing more");
  }
};

Status take(Client& c) {
  char bytes[16384];
  ssize_t n = 0;
  while ((n = ::recv(c.socket.fd(), bytes, sizeof bytes, 0)) > 0) {
    c.frames.add({bytes, static_cast<size_t>(n)});
    while (std::optional<MessageT> m = NABLA_TRY(c.frames.next())) {
      if (m->kind == Kind::Verdict) return diagnostic_of(*m);
      c.starts += m->kind == Kind::Start, c.values += m->kind == Kind::Value, c.ends += m->kind == Kind::Over;
    }
  }
  return n == 0 ? Status(error(Code::kCoordinatorLost, "the coordinator has closed a connection")) : Ok{};
}

/// Reads the messages of the coordinator until all clients are served.
Status until(std::vector<Client>& clients, const std::function<bool(const Client&)>& served, const char* what) {
  for (auto begin = Clock::now();;) {
    std::vector<pollfd> set;
    std::vector<Client*> waiting;
    for (Client& c : clients)
      if (!served(c)) set.push_back({c.socket.fd(), POLLIN, 0}), waiting.push_back(&c);
    if (set.empty()) return Ok{};
    if (std::chrono::duration<double>(Clock::now() - begin).count() > kPatienceS)
      return error(Code::kTooLate, "{} of {} ranks have no {} after {} s", set.size(), clients.size(), what, kPatienceS);
    (void)::poll(set.data(), set.size(), 1000);
    for (size_t i = 0; i < set.size(); ++i)
      if (set[i].revents != 0) (void)NABLA_TRY(take(*waiting[i]));
  }
}

}  // namespace

Result<double> meet(uint32_t ranks, uint32_t keys) {
  auto begin = Clock::now();
  CoordinatorOptions options{.token = "secret", .ranks = ranks, .join_s = kPatienceS};
  options.lost_s = kPatienceS;
  auto coordinator = NABLA_TRY(Coordinator::start(options));
  std::vector<Client> clients(ranks);
  MessageT hello{.kind = Kind::Hello, .token = "secret", .ranks = ranks, .pid = 1, .host = "host", .bundle = "aa11", .mesh = "dp"};
  for (hello.rank = 0; hello.rank < ranks; ++hello.rank) {
    clients[hello.rank].socket = NABLA_TRY(connect_to(coordinator->address(), kPatienceS));
    (void)NABLA_TRY(clients[hello.rank].send(hello));
  }
  (void)NABLA_TRY(until(clients, [](const Client& c) { return c.starts > 0; }, "start"));
  auto key = [](const char* what, uint32_t i) { return fmt::format("{}/{}", what, i); };
  for (uint32_t r = 1; r < ranks; ++r) {
    for (uint32_t k = 0; k < keys; ++k) (void)NABLA_TRY(clients[r].send({.kind = Kind::Get, .key = key("of-rank-0", k)}));
    (void)NABLA_TRY(clients[r].send({.kind = Kind::Put, .key = key("asked", r), .value = "yes"}));
  }
  // Rank 0 hears that all have asked, one after the other, and then puts what they have asked for.
  Client& first = clients[0];
  for (uint32_t r = 1; r < ranks; ++r) {
    (void)NABLA_TRY(first.send({.kind = Kind::Get, .key = key("asked", r)}));
    auto answered = [&](const Client& c) { return &c != &first || c.values == r; };
    (void)NABLA_TRY(until(clients, answered, "answer"));
  }
  for (uint32_t k = 0; k < keys; ++k) (void)NABLA_TRY(first.send({.kind = Kind::Put, .key = key("of-rank-0", k), .value = "here"}));
  (void)NABLA_TRY(until(clients, [&](const Client& c) { return &c == &first || c.values == keys; }, "answer"));
  for (const Client& c : clients) (void)NABLA_TRY(c.send({.kind = Kind::Bye}));
  (void)NABLA_TRY(until(clients, [](const Client& c) { return c.ends > 0; }, "goodbye"));
  (void)NABLA_TRY(coordinator->wait());
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

}  // namespace nabla::control
