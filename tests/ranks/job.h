// A run of several processes, from outside: what tests of ranks start, disturb and look at.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

namespace nabla::tests {

struct Outcome {
  int code = -1;         ///< 128 + signal where one ended it; -1: it was still there at the limit, and was killed
  double seconds = 0;    ///< since `mark`
  std::string out, err;
  int survivors = 0;     ///< processes of the job that did not go after it
};

class Job {
 public:
  struct Options {
    std::string fault;                        ///< NABLA_FAULT
    std::vector<std::string> before;          ///< words before the program: of mpirun
    std::vector<std::string> environment;     ///< "NAME=VALUE"
    uint64_t address_space = 0;               ///< bytes; 0: no limit
  };
  /// Starts PROGRAM ARGS in the current folder.
  Job(const std::string& program, const std::vector<std::string>& args, const Options& options);
  Job(const std::string& program, const std::vector<std::string>& args) : Job(program, args, Options()) {}
  ~Job();
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;

  /// The process that was started.
  pid_t pid() const { return pid_; }
  /// That of a rank, and of who keeps it; 0 where it does not come within 10 s.
  pid_t rank(uint32_t r) const { return find(r, true); }
  pid_t keeper(uint32_t r) const { return find(r, false); }
  /// That of a rank in MPI_Init, after it has connected to mpirun; 0 where it does not come so far. A process that dies while it
  /// connects leaves PMIx 4.2 with a locked mutex, and mpirun itself then never ends.
  pid_t connected_rank(uint32_t r) const;
  /// Sends a signal to every process of the job, as a service manager, scancel or a terminal does.
  void signal_all(int signal) const;
  /// Waits until stdout or stderr holds the text. False after 20 s.
  bool said(const std::string& text) const;
  /// Times count from here.
  void mark();
  /// Survivors are given `leave_s` to go.
  Outcome wait(double limit_s = 40, double leave_s = 5);

 private:
  struct Process {
    pid_t pid, parent;
    int rank;  // -1: of none
  };
  std::vector<Process> processes() const;
  pid_t find(uint32_t rank, bool leaf) const;

  std::string id_, folder_;
  pid_t pid_ = -1;
  double marked_ = 0;
};

}  // namespace nabla::tests
