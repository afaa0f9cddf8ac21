#include "tests/ranks/network.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>

namespace nabla::tests {
namespace {

/// A process with network, host name and processes of its own; 0: it may not be.
pid_t hold(int machine) {
  int ends[2];
  if (::pipe(ends) != 0) return 0;
  pid_t pid = ::fork();
  if (pid == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    std::string name = "nb" + std::to_string(machine);
    bool ok = ::unshare(CLONE_NEWNET | CLONE_NEWUTS) == 0 && ::sethostname(name.c_str(), name.size()) == 0;
    (void)!::write(ends[1], ok ? "y" : "n", 1);
    for (;;) ::pause();
  }
  char answer = 'n';
  (void)!::read(ends[0], &answer, 1);
  ::close(ends[0]), ::close(ends[1]);
  if (answer == 'y') return pid;
  ::kill(pid, SIGKILL);
  ::waitpid(pid, nullptr, 0);
  return 0;
}

}  // namespace

Network::Network(int hosts) : folder_(testing::TempDir() + "network-" + std::to_string(::getpid())) {
  ::mkdir(folder_.c_str(), 0777);
  for (int m = 0; m <= hosts && problem_.empty(); ++m) {
    pid_t pid = hold(m);
    if (pid == 0)
      problem_ = "network namespaces cannot be made here";
    else
      machines_.push_back(pid), std::ofstream(folder_ + "/" + address(m)) << pid;
  }
  if (!problem_.empty()) return;
  std::ofstream(folder_ + "/agent") << "#!/bin/sh\nhost=$1\nshift\nexec nsenter -t $(cat " << folder_
                                    << "/$host) -n -u -- sh -c \"$*\"\n";
  ::chmod((folder_ + "/agent").c_str(), 0755);
  bool fine = in(0, "ip link add br0 type bridge && ip link set lo up && ip addr add " + address(0) +
                        "/24 dev br0 && ip link set br0 up") == 0;
  for (int h = 1; h <= hosts && fine; ++h) {
    std::string v = "v" + std::to_string(h);
    std::string pid = std::to_string(machines_[static_cast<size_t>(h)]);
    fine = in(0, "ip link add " + v + " type veth peer name eth0 netns " + pid + " && ip link set " + v + " master br0 up") == 0 &&
           in(h, "ip addr add " + address(h) + "/24 dev eth0 && ip link set eth0 up && ip link set lo up") == 0;
  }
  if (!fine) problem_ = "a bridge between network namespaces cannot be made here";
}

Network::~Network() {
  for (int pid : machines_) ::kill(pid, SIGKILL), ::waitpid(pid, nullptr, 0);
}

std::string Network::address(int machine) const { return "10.77.0." + std::to_string(machine + 1); }

int Network::in(int machine, const std::string& command) const {
  std::string pid = std::to_string(machines_[static_cast<size_t>(machine)]);
  return std::system(("nsenter -t " + pid + " -n -u -- sh -c 'export PATH=$PATH:/usr/sbin:/sbin; " + command + "'").c_str());
}

std::vector<std::string> Network::front() const { return {"nsenter", "-t", std::to_string(machines_[0]), "-n", "-u", "--"}; }

std::vector<std::string> Network::environment() const { return {"OMPI_MCA_plm_rsh_agent=" + folder_ + "/agent"}; }

std::string Network::hosts_file(int slots) const {
  std::ofstream file(folder_ + "/hosts");
  for (size_t h = 1; h < machines_.size(); ++h) file << address(static_cast<int>(h)) << ":" << slots << "\n";
  return folder_ + "/hosts";
}

void Network::link(int host, bool up) const { in(0, "ip link set v" + std::to_string(host) + (up ? " up" : " down")); }

void Network::limit(int host, const std::string& rate) const {
  EXPECT_EQ(in(host, "tc qdisc add dev eth0 root tbf rate " + rate + " burst 16kb latency 400ms"), 0);
}

bool Network::reset(int machine, const std::string& filter) const {
  // It prints what it has closed; the other end gets a packet that says so.
  return in(machine, "[ $(ss -H -t -K state established " + filter + " | wc -l) -gt 0 ]") == 0;
}

void Network::crash(int host) const {
  link(host, false);
  // All processes of its network namespace.
  in(host, "for p in /proc/[0-9]*; do [ \"$(readlink $p/ns/net)\" = \"$(readlink /proc/self/ns/net)\" ] && [ ${p#/proc/} != $$ ] && "
           "kill -9 ${p#/proc/}; done 2> /dev/null");
}

}  // namespace nabla::tests
