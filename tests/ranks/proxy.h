// What stands between two ends of connections of this machine, and can break them off.
#pragma once

#include <atomic>
#include <thread>
#include <utility>
#include <vector>

namespace nabla::tests {

class Proxy {
 public:
  /// Hands what comes to its own port on to another, and back.
  explicit Proxy(int to);
  ~Proxy();
  Proxy(const Proxy&) = delete;
  Proxy& operator=(const Proxy&) = delete;

  int port() const { return port_; }
  /// Resets what is connected, at both ends; who comes later is let through.
  void reset() { reset_ = true; }
  /// Holds back the bytes of the client, or of the other end, or of both. When both are false, all of these bytes are sent on.
  void hold(bool from_here, bool from_there) { hold_here_ = from_here, hold_there_ = from_there; }

 private:
  void serve();
  void accept();
  static bool hand_on(int from, int to);

  int listener_ = -1, port_ = 0, to_;
  std::vector<std::pair<int, int>> pairs_;
  std::atomic<bool> reset_{false}, hold_here_{false}, hold_there_{false}, quit_{false};
  std::thread thread_;
};

/// A port of this machine that nobody has just now.
int free_port();

}  // namespace nabla::tests
