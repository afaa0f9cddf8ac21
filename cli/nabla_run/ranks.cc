#include "cli/nabla_run/ranks.h"

#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <fstream>

#include "cli/exit_codes.h"
#include "cli/nabla_run/alike.h"
#include "cli/nabla_run/job.h"
#include "cli/nabla_run/leftovers.h"
#include "cli/nabla_run/supervise.h"
#include "runtime/base/option_error.h"
#include "runtime/comm/checked_transport.h"
#include "runtime/comm/peers.h"
#include "runtime/comm/plugin_transport.h"
#include "runtime/control/coordinator.h"
#include "runtime/control/wire.h"
#include "runtime/device/cpu.h"
#include "runtime/format/sha256.h"
#include "runtime/nccl/ranks.h"

namespace nabla::cli {
namespace {

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

template <size_t N>
void copy(char (&to)[N], const std::string& from) {
  std::snprintf(to, N, "%s", from.c_str());
}

/// Open MPI's daemon on a machine that is cut off from mpirun's would wait for ever, without ranks.
void end_daemon() {
  pid_t parent = ::getppid();
  std::ifstream file(fmt::format("/proc/{}/comm", parent));
  if (std::string name; std::getline(file, name) && name == "orted") ::kill(parent, SIGTERM);
}

/// Ends a rank whose own thread cannot.
std::function<void(const Diagnostic&)> end_hard(uint32_t rank) {
  return [rank](const Diagnostic& why) {
    std::string line = fmt::format("rank {}: {}: it is ended where it stands\n", rank, code_name(why.code));
    (void)!::write(2, line.data(), line.size());
    ::_exit(exit_code(why.code, true));
  };
}

/// What the ranks of one start need to know of each other, as rank 0 hands it to the others.
struct Meeting {
  char address[256], token[64], folder[1024];
};

/// Of a secret that people have chosen, for names that others may see.
std::string digest_of(const char* token) { return format::sha256_hex(format::as_bytes(token)); }

/// Is the coordinator known to who started the ranks?
bool supervised() { return !variable("NABLA_CONTROL").empty(); }

/// Do ranks find each other by MPI? An engine that can meet at an address still uses MPI if no address is known.
bool meets_by_mpi(const RunOptions& options, const Launched& launched) {
  const comm::Engine* engine = options.ranks.engine;
  return !engine || !engine->meets_alone || (!supervised() && !launched.meets(engine));
}

/// MPI_Init comes back when all have come to it, and before that no rank can say or hear a word: the keeper of one that
/// waits there for too long ends it. A second earlier it says so of one that was stopped, which is what the others wait for.
std::function<std::optional<int>(bool)> give_up_joining(const RunOptions& options, const Launched& launched, control::Shared& shared) {
  return [&options, &launched, &shared, begin = comm::steady_us()](bool stands) -> std::optional<int> {
    const double waited = comm::seconds_since(begin), allowed = options.ranks.join_s;
    if (shared.met || waited < allowed + (stands ? 0 : 1)) return std::nullopt;
    Diagnostic d = error(Code::kRanksDisagree, "rank {} has waited in MPI_Init for {} s: not all of the {} processes have come to it",
                         launched.rank, allowed, launched.ranks);
    d.help = fmt::format("{} starts {} processes, each of which has to be nabla-run, and none may stand still; --join-timeout S "
                         "lets them wait longer", launched.by, launched.ranks);
    if (stands) {
      d.message = fmt::format("rank {} stands still since it was stopped (SIGSTOP), before MPI_Init, and the other ranks wait for it there",
                              launched.rank);
      d.help = "let it go on (kill -CONT), or start the job again";
    }
    std::fputs(to_string({d}).c_str(), stderr);
    return exit_code(d.code, true);
  };
}

}  // namespace

Status check_meeting(const RunOptions& options, const Launched& launched) {
  if (supervised()) return Ok{};
  const RankOptions& r = options.ranks;
  if (r.max_restarts > 0 || !r.hosts.empty() || r.np.value_or(launched.ranks) != launched.ranks) {
    Diagnostic d = error(Code::kBadOption, "{}: {} has started the {} ranks, and nabla-run starts none beside them",
                         r.max_restarts > 0 ? "--max-restarts" : !r.hosts.empty() ? "--hosts" : fmt::format("--np {}", *r.np),
                         launched.by, launched.ranks);
    d.help = r.max_restarts > 0 ? "let it start them again, with --resume latest" : "leave it out";
    return d;
  }
  if (!launched.meets(r.engine)) return Ok{};
  if (launched.rendezvous.empty())
    return option_error("give --rendezvous HOST:PORT, or set NABLA_RENDEZVOUS, or MASTER_ADDR and MASTER_PORT",
                        "{} has started {} processes and does not say where rank 0 is", launched.by, launched.ranks);
  (void)NABLA_TRY(control::check_address(launched.rendezvous));
  constexpr size_t kMost = sizeof control::Shared::token - 1;
  size_t size = variable("NABLA_TOKEN").size();
  if (size > kMost)
    return option_error(fmt::format("set it to a secret of 8 to {} characters", kMost),
                        "NABLA_TOKEN has {} characters: at most {} fit", size, kMost);
  if (size >= 8) return Ok{};
  return option_error("set NABLA_TOKEN to a secret of at least 8 characters, the same for all of them",
                      "the ranks meet at {}, where nobody else may come, and {}", launched.rendezvous,
                      size == 0 ? "NABLA_TOKEN is not set" : fmt::format("NABLA_TOKEN has {} characters", size));
}

Result<bool> keep(const RunOptions& options, const Launched& launched, control::Shared& shared, int& ends_with) {
  shared.rank = launched.rank;
  shared.epoch = launched.epoch;
  std::string address = variable("NABLA_CONTROL");
  copy(shared.folder, options.ranks.reports.empty() ? variable("NABLA_REPORTS") : options.ranks.reports);
  copy(shared.token, variable("NABLA_TOKEN"));
  bool meets = launched.meets(options.ranks.engine);
  if (address.empty() && meets && launched.rank > 0) {
    address = launched.rendezvous;
    if (shared.folder[0] == 0) copy(shared.folder, reports_folder("", digest_of(shared.token)));
  }
  control::KeepOptions keeping{.lost = exit_code(Code::kPeerLost, true),
                               .stopped = exit_code(Code::kInterrupted, true),
                               .deaf = exit_code(Code::kCoordinatorLost, true)};
  if (!supervised() && meets_by_mpi(options, launched)) keeping.give_up = give_up_joining(options, launched, shared);
  std::unique_ptr<control::Coordinator> coordinator;
  if (!address.empty()) {
    copy(shared.address, address);
  } else if (launched.rank == 0) {
    if (!meets) copy(shared.token, control::new_token());
    copy(shared.folder, reports_folder(options.ranks.reports, meets ? digest_of(shared.token) : std::string(shared.token)));
    control::clear_reports(shared.folder);
    keeping.begin = [&] {
      Result<std::unique_ptr<control::Coordinator>> started = start_coordinator(
          options, {.address = meeting_place(launched), .token = shared.token, .ranks = launched.ranks, .epoch = shared.epoch});
      if (started.ok())
        coordinator = std::move(*started), copy(shared.address, coordinator->address());
      else
        std::fputs(to_string(started.errors()).c_str(), stderr);
      shared.meeting = coordinator ? 1 : 2;
    };
    keeping.end = [&] {
      Status cause = coordinator ? cause_of(*coordinator, shared.folder) : Status(Ok{});
      if (!cause.ok()) std::fputs(to_string(cause.errors()).c_str(), stderr);
    };
  }
  const pid_t launcher = ::getppid();
  bool rank = NABLA_TRY(control::keep_rank(shared, keeping, ends_with));
  if (!rank && ends_with != 0) {
    // What has ended the coordinator may be ending the launcher at this moment.
    for (int i = 0; i < 50 && ends_with == keeping.deaf && ::getppid() == launcher; ++i) ::usleep(10'000);
    remove_rank_leftovers();
    if (::getppid() != launcher) remove_session(launcher);
  }
  if (!rank && ends_with == keeping.deaf) end_daemon();
  return rank;
}

RankProcess::~RankProcess() = default;

Result<std::unique_ptr<RankProcess>> RankProcess::begin(const RunOptions& options, const Launched& launched,
                                                        const Hooks& hooks, control::Shared& shared, const std::string& digest,
                                                        const std::string& mesh) {
  std::unique_ptr<RankProcess> out(new RankProcess(options, launched, hooks, shared));
  bool mpi = meets_by_mpi(options, launched);
  if (mpi) out->transport_ = NABLA_TRY(comm::open_transport("mpi"));
  shared.met = true;
  if (mpi && hooks.transport) out->transport_ = hooks.transport(out->transport_);
  if (mpi && (out->transport_->ranks() != launched.ranks || out->transport_->rank() != launched.rank)) {
    Diagnostic d = error(Code::kRanksDisagree, "{} says that this is rank {} of {}, and MPI that it is rank {} of {}", launched.by,
                         launched.rank, launched.ranks, out->transport_->rank(), out->transport_->ranks());
    d.help = "MPI knows ranks that mpirun or srun has started: take one of them, or --engine nccl";
    return d;
  }
  (void)NABLA_TRY(out->meet());
  control::MemberOptions member{.address = shared.address,
                                .token = shared.token,
                                .epoch = shared.epoch,
                                .rank = launched.rank,
                                .ranks = launched.ranks,
                                .bundle = digest.substr(0, 16),
                                .mesh = mesh,
                                .job = job_of(options),
                                .join_s = options.ranks.join_s,
                                .heartbeat_s = options.ranks.heartbeat_s,
                                .lost_s = 5 * options.ranks.heartbeat_s,
                                .grace_s = grace_s(options.ranks.heartbeat_s)};
  member.end_hard = end_hard(launched.rank);
  out->member_ = NABLA_TRY(control::Member::join(member, shared.board));
  // Now all are known to do so.
  if (options.ranks.check_messages) out->transport_ = comm::checked(out->transport_);
  return out;
}

// Where nobody else has said where the coordinator is, rank 0 knows, whose keeper it is.
Status RankProcess::meet() {
  if (supervised() || (transport_ == nullptr && launched_.rank > 0)) return Ok{};
  Meeting meeting{};
  constexpr uint32_t kTag = comm::Transport::kMostTag;
  constexpr const char* kName = "meeting rank 0";
  if (launched_.rank > 0) {
    comm::Transport& t = *transport_;
    (void)NABLA_TRY(comm::finish(t, t.recv(0, kTag, &meeting, sizeof meeting), options_.ranks.join_s, kName));
    copy(shared_.address, meeting.address), copy(shared_.token, meeting.token), copy(shared_.folder, meeting.folder);
    return Ok{};
  }
  while (shared_.meeting == 0) ::usleep(1000);
  if (shared_.meeting == 2) return error(Code::kCoordinatorLost, "rank 0 has no coordinator, which could not listen");
  if (transport_ == nullptr) return Ok{};
  comm::Transport& t = *transport_;
  copy(meeting.address, shared_.address), copy(meeting.token, shared_.token), copy(meeting.folder, shared_.folder);
  for (uint32_t r = 1; r < launched_.ranks; ++r)
    (void)NABLA_TRY(comm::finish(t, t.send(r, kTag, &meeting, sizeof meeting), options_.ranks.join_s, kName));
  return Ok{};
}

void RankProcess::apply(exec::SessionOptions& s) const {
  int here = static_cast<int>(launched_.local_ranks.value_or(1)), cpus = static_cast<int>(device::allowed_cpus().size());
  if (s.threads == 0) s.threads = std::max(1, cpus / std::max(1, here));
  // Who shares a CPU must leave it while it waits, and nobody may be bound to one that others compute on.
  bool crowded = s.threads * here > cpus;
  if (here > 1) s.pin_caller = false;
  auto verdict = [member = member_.get()] { return member->verdict(); };
  if (options_.ranks.engine && options_.ranks.engine->kind == comm::Engine::Kind::kNccl) {
    nccl::RankOptions ranks{.rank = launched_.rank, .ranks = launched_.ranks, .local_ranks = launched_.local_ranks.value_or(1)};
    ranks.deadline_s = 2 * s.comm_timeout_s, ranks.prefix = fmt::format("nccl/{}", epoch());
    ranks.abort_s = grace_s(options_.ranks.heartbeat_s), ranks.verdict = verdict, ranks.end_hard = end_hard(launched_.rank);
    ranks.meet = nccl::by_store([member = member_.get()](const auto& key, const auto& value) { return member->put(key, value); },
                                [member = member_.get()](const auto& key, double timeout_s) { return member->get(key, timeout_s); },
                                ranks.deadline_s);
    s.world = nccl::over_nccl(std::move(ranks));
  } else {
    s.world = comm::peers_over(transport_, {.deadline_s = 2 * s.comm_timeout_s, .yield = crowded, .verdict = verdict});
  }
  s.board = [board = &shared_.board](uint32_t) { return board; };
  s.stop = nullptr;  // all ranks stop together, between two runs
  s.gpu = launched_.local_rank;
  s.traces_together = true;
}

bool RankProcess::may_run() {
  if (signals() > 0 && !asked_) asked_ = true, member_->ask_to_stop();
  uint64_t run = shared_.board.run.load() + 1;
  if (!member_->may_run(run)) stopped_ = true;
  if (hooks_.before_run && !stopped_) hooks_.before_run(launched_.rank, run);
  return !stopped_;
}

void RankProcess::say(const std::string& metrics) const { copy(shared_.board.says, metrics); }

Diagnostic RankProcess::failed(const Diagnostic& why) {
  std::optional<Diagnostic> known = member_->verdict();
  return known ? *known : member_->report(why);
}

Status RankProcess::end(int code) {
  member_->leave(stopped_);
  if (std::optional<Diagnostic> why = member_->verdict()) return *why;
  shared_.ends_with = code;
  return transport_ == nullptr ? Status(Ok{}) : transport_->close();
}

}  // namespace nabla::cli
