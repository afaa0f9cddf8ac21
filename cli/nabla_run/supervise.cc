#include "cli/nabla_run/supervise.h"

#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <cstring>

#include "cli/exit_codes.h"
#include "cli/nabla_run/job.h"
#include "cli/nabla_run/starter.h"
#include "cli/nabla_run/waits.h"
#include "runtime/base/option_error.h"
#include "runtime/control/keeper.h"
#include "runtime/control/wire.h"
#include "runtime/comm/recorder.h"

namespace nabla::cli {
namespace {

constexpr double kKillS = 4;  // for mpirun to end, after the ranks have

Diagnostic advised(Diagnostic d, std::string help) {
  d.help = std::move(help);
  return d;
}

/// What the starter's end means where no rank has said why.
Diagnostic silent_end(int code, bool alone) {
  const std::string who = alone ? "all processes have" : "mpirun has";
  if (code > 128 && code < 160)
    return error(Code::kPeerLost, "{} ended with exit code {} before the ranks were done: a process of the job was killed by signal {} "
                 "({})", who, code, code - 128, strsignal(code - 128));
  return error(Code::kPeerLost, "{} ended with exit code {} before the ranks were done; what {} said stands above", who, code,
               alone ? "they" : "it");
}

/// Waits for the starter and for the coordinator's word, whichever tells of an end first. Returns the starter's exit code.
int supervise(control::Coordinator& coordinator, Starter& starter, bool alone) {
  int asked = 0;
  int64_t over_at = 0;
  bool told = false;  // mpirun was, to stop
  int64_t looked_at = 0;
  LiveLine live;
  bool printing = false;
  for (std::optional<int> code; !(code = starter.ended()); printing = starter.hand_on(10)) {
    if (!told && comm::seconds_since(looked_at) > 0.2) {
      looked_at = comm::steady_us(), told = starter.was_told_to_stop();
      if (told && asked == 0) {
        std::fprintf(stderr, "note: stopping: %s was asked to\n", alone ? "the process that started the ranks" : "mpirun");
        coordinator.ask_to_stop();
      }
    }
    if (signals() > asked) {
      asked = signals();
      if (asked == 1) coordinator.ask_to_stop();
      if (asked > 1) coordinator.fail(error(Code::kInterrupted, "stopped by a second signal, at once"));
    }
    if (!coordinator.over()) {
      live.draw(coordinator);
      continue;
    }
    live.clear();
    // mpirun does not end before its output is taken, and somebody may read that slowly.
    if (over_at == 0 || printing) over_at = comm::steady_us();
    // It would not bear a signal to stop while it ends its processes; their keepers notice its end.
    if (comm::seconds_since(over_at) > kKillS || (printing && signals() > 1)) starter.kill(SIGKILL);
  }
  int code = *starter.ended();
  for (int64_t end = comm::steady_us(); !coordinator.over() && comm::seconds_since(end) < 1;) ::usleep(1000);  // what ranks said last
  if (!coordinator.over()) coordinator.fail(silent_end(code, alone));
  return code;
}

/// The exit code of a job whose ranks have all left in order. What breaks a process after that takes nothing away.
int after_all_work(int code, bool alone) {
  if (code == 0 || code == exit_code(Code::kRanksDisagree, true)) return code;  // which they give when they have left
  std::fprintf(stderr, "warning: %s ended with exit code %d after all ranks had done their work\n",
               alone ? "a process of the job" : "mpirun", code);
  return 0;
}

bool worth_another_start(Code code) {
  return code == Code::kPeerLost || code == Code::kTooLate || code == Code::kCoordinatorLost || code == Code::kPayloadCorrupt ||
         code == Code::kTransportFailed;
}

std::string own_path() {
  char path[4096];
  ssize_t n = ::readlink("/proc/self/exe", path, sizeof path);
  return n > 0 ? std::string(path, static_cast<size_t>(n)) : "nabla-run";
}

Result<std::vector<Host>> hosts_of(const RunOptions& options, uint32_t ranks) {
  std::vector<Host> hosts;
  if (ranks < 2)
    return advised(error(Code::kRanksDisagree, "{} is for one rank, which needs no --engine {}", options.bundle,
                         options.ranks.engine->name),
                   "leave --engine out, or compile the bundle for several ranks (nablac compile --mesh)");
  if (options.ranks.np.value_or(ranks) != ranks)
    return advised(error(Code::kRanksDisagree, "{} is for {} ranks, and --np says {}", options.bundle, ranks, *options.ranks.np),
                   fmt::format("say --np {}, or leave it out", ranks));
  if (options.ranks.hosts.empty()) return hosts;
  if (const comm::Engine& engine = *options.ranks.engine; engine.starts_alone)
    return option_error(fmt::format("on several machines let mpirun, srun or torchrun start `nabla-run --engine {}`", engine.name),
                        "--hosts: --engine {} starts processes on this machine alone", engine.name);
  hosts = NABLA_TRY(read_hosts(options.ranks.hosts));
  uint32_t slots = 0;
  for (const Host& h : hosts) slots += h.slots;
  if (slots < ranks)
    return advised(error(Code::kRanksDisagree, "{} has {} slots for {} ranks", options.ranks.hosts, slots, ranks),
                   fmt::format("add hosts, or give them {} more slots (HOST:SLOTS)", ranks - slots));
  return hosts;
}

std::string host_names(const std::vector<Host>& hosts) {
  std::string out;
  for (const Host& h : hosts) out += (out.empty() ? "" : ", ") + h.name;
  return out;
}

/// One start of all ranks. Returns the exit code of a run that came to its end.
Result<int> start_once(const RunOptions& options, const std::vector<std::string>& args, uint32_t ranks, uint32_t epoch) {
  std::vector<Host> hosts = NABLA_TRY(hosts_of(options, ranks));
  std::string token = control::new_token(), folder = reports_folder(options.ranks.reports, token);
  control::clear_reports(folder);
  std::string here = "127.0.0.1:0";
  if (!options.ranks.flags.rendezvous.empty())
    here = options.ranks.flags.rendezvous;
  else if (std::string own = hosts.empty() ? "" : control::address_towards(hosts.back().name); !own.empty())
    here = own + ":0";
  auto coordinator = NABLA_TRY(start_coordinator(options, {.address = here, .token = token, .ranks = ranks, .epoch = epoch}));
  MpirunOptions settings{.ranks = ranks, .hosts = hosts, .root = ::geteuid() == 0};
  auto pass = [&](const char* name, const std::string& value) {
    ::setenv(name, value.c_str(), 1);
    settings.pass.push_back(name);
  };
  pass("NABLA_CONTROL", coordinator->address());
  pass("NABLA_TOKEN", token);
  pass("NABLA_EPOCH", std::to_string(epoch));
  pass("NABLA_REPORTS", folder);
  if (std::getenv("NABLA_PLUGINS") != nullptr) settings.pass.push_back("NABLA_PLUGINS");
  const bool alone = options.ranks.engine->starts_alone;  // without mpirun
  std::vector<std::string> command = mpirun_command(settings, own_path(), args);
  if (alone) command = args, command.insert(command.begin(), own_path());
  Starter starter = NABLA_TRY(Starter::start(command, alone ? ranks : 0));
  int code = supervise(*coordinator, starter, alone);
  Status printed = starter.finish_output([] { return signals() > 1; });
  Status cause = cause_of(*coordinator, folder);
  Starter::end_leftovers();
  // Ranks whose mpirun is gone stop as if they had been asked to.
  bool stopped = !cause.ok() && cause.errors().front().code == Code::kInterrupted;
  if (int by = starter.foreign_signal(); by != 0 && stopped && signals() == 0)
    return error(Code::kPeerLost, "{} was killed by signal {} ({}), and its ranks stopped",
                 alone ? "the process that started the ranks" : "mpirun", by, strsignal(by));
  const std::vector<control::RankView> views = coordinator->view();
  bool came = std::all_of(views.begin(), views.end(), [](const control::RankView& v) { return v.state.has_joined(); });
  Code why = cause.ok() ? Code::kInterrupted : cause.errors().front().code;
  if (!hosts.empty() && (why == Code::kRanksDisagree || (why == Code::kPeerLost && !came)))
    cause.errors().front().notes.push_back("they were to run on " + host_names(hosts) +
                                            ": `ssh HOST true` must come back, and nabla-run be there");
  (void)NABLA_TRY(std::move(cause));
  (void)NABLA_TRY(std::move(printed));
  return after_all_work(code, alone);
}

}  // namespace

double grace_s(double heartbeat_s) { return std::max(2.0, 10 * heartbeat_s); }

Result<std::unique_ptr<control::Coordinator>> start_coordinator(const RunOptions& options, control::CoordinatorOptions o) {
  o.join_s = options.ranks.join_s;
  o.heartbeat_s = options.ranks.heartbeat_s;
  o.lost_s = 5 * o.heartbeat_s;
  if (options.comm_timeout_s) o.progress_s = *options.comm_timeout_s;
  o.grace_s = grace_s(options.ranks.heartbeat_s) + 2;  // a rank that is ended hard still leaves its report
  o.warn = [](const std::string& line) { std::fputs((line + "\n").c_str(), stderr); };
  return control::Coordinator::start(o);
}

std::string meeting_place(const Launched& launched) {
  return launched.rendezvous.empty() ? control::meeting_place(launched.local_ranks.value_or(0), launched.ranks) : launched.rendezvous;
}

std::string reports_folder(const std::string& wanted, const std::string& token) {
  if (!wanted.empty()) return wanted;
  const char* temporary = std::getenv("TMPDIR");
  return fmt::format("{}/nabla-{}", temporary == nullptr || *temporary == 0 ? "/tmp" : temporary, token.substr(0, 8));
}

Status cause_of(control::Coordinator& coordinator, const std::string& folder) {
  Status ended = coordinator.wait();
  if (ended.ok() || ended.errors().front().code == Code::kInterrupted)
    if (std::string waits = waits_line(coordinator.view()); !waits.empty()) std::fputs((waits + "\n").c_str(), stderr);
  if (ended.ok()) return ended;
  Diagnostic why = ended.errors().front();
  if (why.code != Code::kInterrupted && control::write_cause(why, folder).ok())
    why.notes.push_back(fmt::format("what each rank was at: nabla-run --postmortem {}", folder));
  return why;
}

int run_ranks(const RunOptions& options, const std::vector<std::string>& args, uint32_t ranks) {
  for (uint32_t epoch = 0;; ++epoch) {
    Result<int> ended = start_once(options, args, ranks, epoch);
    if (ended.ok()) return *ended;
    Code code = ended.errors().front().code;
    bool told = code == Code::kInterrupted && signals() < 2;  // by rank 0, at the end of its work
    if (!told) std::fputs(to_string(ended.errors()).c_str(), stderr);
    bool used_up = epoch >= static_cast<uint32_t>(options.ranks.max_restarts);
    if (!worth_another_start(code) || used_up || signals() > 0) {
      if (used_up && epoch > 0) std::fprintf(stderr, "note: all %d restarts are used up\n", options.ranks.max_restarts);
      return exit_code(code, true);
    }
    std::fprintf(stderr, "note: start %u of at most %d\n", epoch + 2, options.ranks.max_restarts + 1);
  }
}

}  // namespace nabla::cli
