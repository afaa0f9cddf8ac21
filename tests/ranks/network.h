// A few machines in network namespaces: a front and hosts, on a bridge.
#pragma once

#include <string>
#include <vector>

namespace nabla::tests {

class Network {
 public:
  explicit Network(int hosts);
  ~Network();
  Network(const Network&) = delete;
  Network& operator=(const Network&) = delete;

  /// Why there is none: only root may make namespaces, and not everywhere. Empty: there is one.
  const std::string& problem() const { return problem_; }
  /// Words before a program that is to run on the front.
  std::vector<std::string> front() const;
  /// Variables with which mpirun reaches the hosts.
  std::vector<std::string> environment() const;
  /// A hosts file with so many slots on each.
  std::string hosts_file(int slots) const;

  void link(int host, bool up) const;
  /// Limits what a host may send.
  void limit(int host, const std::string& rate) const;
  /// Resets a machine's connections that a filter of `ss` finds (0: the front). False: there are none, or the kernel cannot.
  bool reset(int machine, const std::string& filter) const;
  std::string address(int machine) const;
  /// Kills everything on a host at once.
  void crash(int host) const;

 private:
  int in(int machine, const std::string& command) const;

  std::string folder_, problem_;
  std::vector<int> machines_;  ///< processes that hold their namespaces; the front is the first
};

}  // namespace nabla::tests
