// How a run is doing, as text for Prometheus: GET /metrics of HTTP/1.0 on 127.0.0.1.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "cli/nabla_run/report.h"
#include "runtime/base/diagnostic.h"
#include "runtime/comm/recorder.h"

namespace nabla::cli {

/// Serves clients from a thread of its own. A client has one second, so that an idle client does not delay the others.
class Exposition {
 public:
  /// Of a rank of this process; outlives the exposition.
  struct Rank {
    uint32_t rank;
    const comm::Board* board;
  };

  /// Port 0 takes a free one. E0901 when the port cannot be had.
  static Result<std::unique_ptr<Exposition>> start(uint16_t port, std::vector<Rank> ranks);
  ~Exposition();
  Exposition(const Exposition&) = delete;
  Exposition& operator=(const Exposition&) = delete;

  uint16_t port() const { return port_; }
  /// After each run that counts as a step; waits for no client.
  void update(int64_t step, const std::vector<Metric>& metrics);
  /// What a client gets.
  std::string text() const;

 private:
  Exposition(int listener, uint16_t port, std::vector<Rank> ranks);
  /// A connection, with the bytes of its request that were received, or those of its answer that must still be sent.
  struct Client {
    int fd = -1;
    int64_t end_us = 0;
    std::string request, reply;
    size_t sent = 0;
  };
  void serve();
  void accept(std::vector<Client>& clients) const;
  /// Takes it as far as it goes now. False: it is over.
  bool serve(Client& client) const;
  std::string answer(const std::string& request_line) const;

  int listener_;
  uint16_t port_;
  std::vector<Rank> ranks_;
  std::atomic<bool> quit_{false};
  mutable std::mutex mutex_;
  int64_t step_ = 0, counted_ = 0, since_us_ = 0;  ///< updates since then
  double per_second_ = 0;
  std::map<std::string, double> metrics_;
  std::thread thread_;
};

}  // namespace nabla::cli
