#include "cli/nabla_run/starter.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>

#include "cli/nabla_run/leftovers.h"
#include "runtime/base/system.h"
#include "runtime/comm/recorder.h"
#include "runtime/format/process.h"

namespace nabla::cli {
namespace {

/// The signals to stop are for this process and for the ranks: what stands between them would end by one, and they with it.
void heed_stops(bool heed) {
  sigset_t stops;
  sigemptyset(&stops);
  for (int signal : {SIGINT, SIGTERM, SIGHUP}) sigaddset(&stops, signal);
  ::sigprocmask(heed ? SIG_UNBLOCK : SIG_BLOCK, &stops, nullptr);
}

/// Becomes the program; returns where it cannot, with errno.
void become(const std::vector<std::string>& command) {
  std::vector<char*> argv;
  for (const std::string& word : command) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  ::execvp(argv[0], argv.data());
}

/// A process per rank of this machine, which end with this one: it is what mpirun is elsewhere. Does not return.
[[noreturn]] void start_here(uint32_t ranks, const std::vector<std::string>& command) {
  pid_t parent = ::getpid();
  ::setenv("NABLA_WORLD_SIZE", std::to_string(ranks).c_str(), 1);
  ::setenv("NABLA_LOCAL_WORLD_SIZE", std::to_string(ranks).c_str(), 1);
  for (uint32_t r = 0; r < ranks; ++r) {
    if (::fork() != 0) continue;
    ::prctl(PR_SET_PDEATHSIG, SIGTERM);
    heed_stops(true);
    for (const char* name : {"NABLA_RANK", "NABLA_LOCAL_RANK"}) ::setenv(name, std::to_string(r).c_str(), 1);
    if (::getppid() == parent) become(command);
    ::_exit(127);
  }
  int code = 0;
  for (int status = 0; ::wait(&status) > 0 || errno == EINTR;) {
    int ended = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    if (code == 0) code = ended;
  }
  ::_exit(code);
}

/// The process that is to become the starter, which writes to `output`; returns where it cannot, with errno.
void become_starter(pid_t parent, const std::vector<std::string>& command, uint32_t here, int problems, int output) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  ::setpgid(0, 0);  // signals of the terminal come to the parent alone
  heed_stops(false);  // of mpirun's children it unblocks all
  for (int signal : {SIGINT, SIGTERM, SIGHUP}) ::signal(signal, SIG_DFL);
  if (int null = ::open("/dev/null", O_RDONLY); null >= 0) ::dup2(null, 0);
  if (here == 0) ::dup2(output, STDOUT_FILENO);
  if (::getppid() != parent) return;
  if (here > 0) ::close(problems), start_here(here, command);
  become(command);
}

}  // namespace

Result<Starter> Starter::start(const std::vector<std::string>& command, uint32_t here) {
  int problems[2], output[2];
  if (::pipe2(problems, O_CLOEXEC) != 0 || ::pipe2(output, O_CLOEXEC | O_NONBLOCK) != 0)
    return refused_by_system("a pipe to mpirun", errno);
  ::fcntl(output[1], F_SETFL, 0);      // mpirun waits where its output is not taken
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);  // what mpirun leaves behind becomes this process's: an ssh that gets no answer
  pid_t parent = ::getpid(), child = ::fork();
  if (child == 0) {
    become_starter(parent, command, here, problems[1], output[1]);
    int problem = errno;
    (void)!::write(problems[1], &problem, sizeof problem);
    ::_exit(127);
  }
  ::close(problems[1]), ::close(output[1]);
  int problem = 0;
  bool failed = child < 0 || ::read(problems[0], &problem, sizeof problem) == sizeof problem;
  ::close(problems[0]);
  if (!failed) return Starter(child, output[0]);
  ::close(output[0]);
  if (child > 0) ::waitpid(child, nullptr, 0);
  if (child < 0) return refused_by_system("a process for mpirun", errno);
  Diagnostic d = error(Code::kMissingLibrary, "mpirun cannot be started: {}", std::strerror(problem));
  d.help = "install Open MPI 4.1, or run all ranks in one process, without --engine";
  return d;
}

std::optional<int> Starter::ended() {
  int status = 0;
  if (!code_ && ::waitpid(pid_, &status, WNOHANG) == pid_) {
    code_ = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    if (WIFSIGNALED(status) && !killed_) signal_ = WTERMSIG(status);
  }
  return code_;
}

void Starter::kill(int signal) {
  if (!ended()) killed_ = true, ::kill(-pid_, signal);
}

bool Starter::was_told_to_stop() const {
  std::ifstream status(fmt::format("/proc/{}/status", pid_));
  for (std::string line; std::getline(status, line);) {
    if (!line.starts_with("ShdPnd:")) continue;
    uint64_t pending = std::strtoull(line.c_str() + 7, nullptr, 16);
    for (int signal : {SIGINT, SIGTERM, SIGHUP})
      if ((pending >> (signal - 1) & 1) != 0) return true;
  }
  return false;
}

bool Starter::hand_on(int wait_ms) {
  if (output_ < 0) return ::poll(nullptr, 0, wait_ms), false;
  pollfd out{STDOUT_FILENO, POLLOUT, 0};
  for (int i = 0; i < 64; ++i) {
    if (!failed_ && ::poll(&out, 1, i == 0 ? wait_ms : 0) != 1) return true;  // a signal ends it, too
    if (!pass_on(i == 0 ? wait_ms : 0)) return i > 0;
  }
  return true;
}

Status Starter::finish_output(const std::function<bool()>& give_up) {
  while (hand_on(10))
    if (!failed_ && give_up())
      failed_ = error(Code::kWriteFailed, "the output of rank 0 was given up: nobody read it before the second signal");
  if (killed_ || signal_ != 0) remove_session(pid_);
  if (output_ >= 0) ::close(std::exchange(output_, -1));  // what it has left behind may hold the other end
  return failed_ ? Status(*failed_) : Status(Ok{});
}

bool Starter::pass_on(int wait_ms) {
  char bytes[PIPE_BUF];  // written at once where poll says that there is room
  pollfd in{output_, POLLIN, 0};
  if (output_ < 0 || ::poll(&in, 1, wait_ms) != 1) return false;
  ssize_t n = ::read(output_, bytes, sizeof bytes);
  if (n < 0 && (errno == EAGAIN || errno == EINTR)) return false;
  if (n <= 0) {
    ::close(std::exchange(output_, -1));
    return false;
  }
  if (failed_) return true;
  std::fwrite(bytes, 1, static_cast<size_t>(n), stdout);
  if (Status written = format::flush_stdout(); !written.ok()) failed_ = written.errors().front();
  return true;
}

void Starter::end_leftovers() {
  for (int64_t begin = comm::steady_us(); ; ::usleep(10'000)) {
    while (::waitpid(-1, nullptr, WNOHANG) > 0) {
    }
    std::ifstream children(fmt::format("/proc/self/task/{}/children", ::getpid()));
    std::vector<pid_t> left;
    for (pid_t pid; children >> pid;) left.push_back(pid);
    if (left.empty() || comm::seconds_since(begin) > 3) return;
    if (comm::seconds_since(begin) > 1)
      for (pid_t pid : left) ::kill(pid, SIGKILL);
  }
}

}  // namespace nabla::cli
