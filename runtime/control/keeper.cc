#include "runtime/control/keeper.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <new>
#include <utility>

#include "runtime/base/system.h"
#include "runtime/control/wire.h"

namespace nabla::control {
namespace {

constexpr size_t kTail = 4000;  // bytes of a rank's stderr that its obituary holds
constexpr double kKillS = 5;    // after a signal to stop
constexpr int64_t kMournS = 15;  // more than the coordinator gives the others to end

volatile sig_atomic_t came = 0, last = 0;  // signals to stop: how many, and which was the last

/// Passes signals to stop on to a rank.
class Passing {
 public:
  Passing(pid_t child, const comm::Board& board) : child_(child), board_(board), parent_(::getppid()) {}
  /// `halted`: the rank's process stands, and does not hear what it is sent.
  void look(bool halted) {
    if (int now = came; now != seen_) seen_ = now, pass(last);
    // A rank that can stop may take long for it: its step, and its checkpoint. Before its first run it has nothing to lose.
    bool deaf = halted || sent_ > 1 || board_.run.load() == 0;
    if (sent_ > 0 && deaf && seconds_since_first() > kKillS) ::kill(child_, SIGKILL);
  }

 private:
  double seconds_since_first() const { return static_cast<double>(comm::steady_us() - first_us_) / 1e6; }
  void pass(int signal) {
    bool orphaned = std::exchange(parent_, ::getppid()) != parent_;  // the starter has got it too, and has ended
    int which = sent_ == 0 ? 1 : !orphaned && seconds_since_first() > kTogetherS ? 2 : 0;
    if (which == 0) return;
    if (sent_ == 0) first_us_ = comm::steady_us();
    sent_ = which;
    sigval value{.sival_int = which};
    ::sigqueue(child_, signal, value);
  }

  pid_t child_;
  const comm::Board& board_;
  pid_t parent_;
  int seen_ = 0, sent_ = 0;
  int64_t first_us_ = 0;
};

/// Hands on what comes through the pipe and keeps its end. False: nothing more comes.
bool hand_on(int pipe, std::string& tail) {
  char bytes[4096];
  ssize_t n = ::read(pipe, bytes, sizeof bytes);
  if (n < 0 && (errno == EINTR || errno == EAGAIN)) return true;
  if (n <= 0) return false;
  for (ssize_t at = 0, w = 0; at < n && (w = ::write(2, bytes + at, static_cast<size_t>(n - at))) > 0; at += w) {}
  tail.append(bytes, static_cast<size_t>(n));
  if (tail.size() > 2 * kTail) tail.erase(0, tail.size() - kTail);
  return true;
}

/// The connection that told it.
Socket tell_coordinator(const Shared& s, pid_t child, int signal, int exit, std::string tail) {
  if (s.address[0] == 0 || s.rank.load() == UINT32_MAX) return {};
  Result<Socket> to = connect_to(s.address, 1);
  if (!to.ok()) return {};
  MessageT m{.kind = Kind::Obituary};
  m.token = s.token, m.epoch = s.epoch.load(), m.rank = s.rank.load();
  m.pid = child, m.host = host_name(), m.signal = signal, m.exit = exit;
  m.run = s.board.run.load(), m.sequence = comm::reached(s.board);
  m.what = comm::text_of(s.board, m.sequence);
  // The first message of a connection is short.
  if (size_t most = kMostHello - 1024; tail.size() > most) tail.erase(0, tail.size() - most);
  m.text = std::move(tail);
  if (!write_all(*to, frame(m), 1)) return {};
  return std::move(*to);
}

void wait_until_closed(const Socket& coordinator) {
  char bytes[256];
  for (int64_t begin = comm::steady_us(); coordinator && comm::seconds_since(begin) < kMournS;) {
    pollfd ready{coordinator.fd(), POLLIN, 0};
    if (::poll(&ready, 1, 100) == 1 && ::recv(coordinator.fd(), bytes, sizeof bytes, 0) == 0) return;
  }
}

/// Where the board goes; empty: nowhere.
std::string report_of(const Shared& s) {
  return s.folder[0] == 0 || s.rank.load() == UINT32_MAX ? "" : std::string(s.folder) + "/" + board_file(s.rank.load());
}
void write_report(const Shared& s) {
  if (!report_of(s).empty()) (void)write_board(s.board, s.rank.load(), s.epoch.load(), s.folder);
}

/// How a rank has ended.
struct End {
  int signal = 0, exit = 0;
  std::string tail;            // of its stderr
  bool early = false;          // the report was written while the rank still lived
  std::optional<int> given_up; // the exit code that KeepOptions::give_up has said
};

End wait_for(pid_t child, int pipe, const KeepOptions& options, const Shared& shared) {
  End end;
  int status = 0;
  bool open = true, halted = false;
  for (Passing passing(child, shared.board);;) {
    pollfd ready{pipe, POLLIN, 0};
    if (open && ::poll(&ready, 1, 20) == 1) open = hand_on(pipe, end.tail);
    if (!open) usleep(2000);
    if (::waitpid(child, &status, WNOHANG | WUNTRACED | WCONTINUED) == child) {
      if (!WIFSTOPPED(status) && !WIFCONTINUED(status)) break;
      halted = WIFSTOPPED(status);
      // Where the others lose it, mpirun ends all so soon that nothing can be written then.
      if (halted) end.early = true, write_report(shared);
    }
    passing.look(halted);
    if (options.give_up && !end.given_up)
      if (end.given_up = options.give_up(halted); end.given_up) ::kill(child, SIGKILL);
  }
  fcntl(pipe, F_SETFL, O_NONBLOCK);
  for (bool more = true; more && open;) {  // what others that it started still write does not count
    pollfd ready{pipe, POLLIN, 0};
    more = ::poll(&ready, 1, 0) == 1 && hand_on(pipe, end.tail);
  }
  if (WIFSIGNALED(status)) end.signal = WTERMSIG(status);
  if (WIFEXITED(status)) end.exit = WEXITSTATUS(status);
  return end;
}

}  // namespace

Result<Shared*> share() {
  void* memory = ::mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return refused_by_system(fmt::format("shared memory of {} bytes", sizeof(Shared)), errno);
  return new (memory) Shared();
}

Result<bool> keep_rank(Shared& shared, const KeepOptions& options, int& exit_code) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return refused_by_system("a pipe to the rank", errno);
  pid_t keeper = ::getpid();
  pid_t child = ::fork();
  if (child < 0) return refused_by_system("a process for the rank", errno);
  if (child == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != keeper) ::_exit(options.lost);  // it is gone already
    ::dup2(ends[1], 2);
    ::close(ends[0]), ::close(ends[1]);
    return true;
  }
  ::close(ends[1]);
  struct sigaction pass {};
  pass.sa_handler = [](int signal) { last = signal; came = came + 1; };
  pass.sa_flags = SA_RESTART;  // while the report is written too
  for (int signal : {SIGINT, SIGTERM, SIGHUP}) sigaction(signal, &pass, nullptr);
  ::prctl(PR_SET_PDEATHSIG, SIGTERM);  // of a launcher that is killed nobody would end the ranks
  if (options.begin) options.begin();
  End end = wait_for(child, ends[0], options, shared);
  exit_code = end.given_up ? *end.given_up : end.signal != 0 ? options.lost : end.exit;
  if (end.given_up) return false;
  if (int done = shared.ends_with; end.signal != 0 && done >= 0) {
    std::fprintf(stderr, "warning: rank %u was killed by signal %d (%s) after all ranks had done their work\n", shared.rank.load(),
                 end.signal, strsignal(end.signal));
    exit_code = done;
    return false;
  }
  if (end.signal != 0 || (end.exit != 0 && end.exit != options.stopped)) {
    write_report(shared);
    bool deaf = options.deaf != 0 && end.exit == options.deaf;
    Socket coordinator = deaf ? Socket() : tell_coordinator(shared, child, end.signal, end.exit, std::move(end.tail));
    // Of who is killed before it has met the others, or when they have no coordinator, nobody else hears.
    if (!deaf && !coordinator && !options.end && end.signal != 0)
      std::fprintf(stderr, "rank %u: error[%s]: its process (%d on %s) was killed by signal %d (%s)%s\n", shared.rank.load(),
                   code_name(Code::kPeerLost).c_str(), child, host_name().c_str(), end.signal, strsignal(end.signal),
                   shared.address[0] == 0 ? " before it had met the others" : ", and the coordinator cannot be told");
    if (options.end)
      options.end();
    else
      wait_until_closed(coordinator);
  } else if (end.early) {
    ::unlink(report_of(shared).c_str());
    ::rmdir(shared.folder);  // unless others are in it
  }
  return false;
}

}  // namespace nabla::control
