#include "runtime/control/coordinator.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <csignal>
#include <cstring>
#include <map>
#include <mutex>
#include <thread>
#include <utility>

#include "runtime/base/system.h"
#include "runtime/control/stragglers.h"
#include "runtime/control/wire.h"

namespace nabla::control {
namespace {

constexpr double kStrangerS = 5;   // a connection that has not said who it is by then is closed
constexpr double kSecondLookS = 1; // so long a better cause may come for what only follows from one
constexpr size_t kStrangers = 64;  // connections of nobody, at once
constexpr int kWarnings = 16;      // of connections that were closed
constexpr size_t kQuestions = 4096;  // that one rank may have asked the store and not been answered, as only a broken one does

struct Connection {
  Socket socket;
  Frames frames;
  Clock::time_point opened = Clock::now();
  Peer peer = Peer::kStranger;
  std::optional<uint32_t> rank;  // of one that has said hello, also after it is closed
  std::vector<std::string> asks;  // keys of the store that nobody has put yet

  bool is_closed() const { return peer == Peer::kClosed; }
};

struct Rank : RankView {
  bool warned = false;
  int broken = 0;  // errno of its connection; 0: that was closed
  Clock::time_point heard = Clock::now(), gone_at;

  void meets(RankEvent event) {
    const bool before = state.is_gone();
    state = after(state, event);
    if (!before && state.is_gone()) gone_at = Clock::now();
  }
};
enum class Answer : uint8_t { kNone, kYes, kNo };

std::string plural(const std::vector<uint32_t>& ranks) {
  std::string out = ranks.size() == 1 ? "rank " : "ranks ";
  for (size_t i = 0; i < ranks.size() && i < 16; ++i) out += fmt::format("{}{}", i ? ", " : "", ranks[i]);
  return ranks.size() > 16 ? out + ", ..." : out;
}

}  // namespace

class Coordinator::Server {
 public:
  explicit Server(const CoordinatorOptions& o) : options_(o) {
    if (o.ranks > 0) ranks_.resize(o.ranks);
  }
  ~Server() {
    {
      std::lock_guard lock(mutex_);
      quit_ = true;
    }
    wake();
    if (thread_.joinable()) thread_.join();
  }

  Status open() {
    raise_open_files();
    listener_ = NABLA_TRY(listen_at(options_.address));
    int ends[2];
    if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0) return refused_by_system("a pipe of the coordinator", errno);
    wake_read_ = Socket(ends[0]), wake_write_ = Socket(ends[1]);
    return start_thread(thread_, "watches the ranks", [this] { serve(); });
  }

  const std::string& address() const { return options_.address; }
  Status wait() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return state_ == JobState::kOver; });
    if (cause_) return *cause_;
    if (stop_ == StopState::kStopped) return error(Code::kInterrupted, "all ranks were stopped before their work was done");
    return Ok{};
  }
  void fail(const Diagnostic& why) {
    {
      std::lock_guard lock(mutex_);
      asked_failure_ = why;
    }
    wake();
  }
  void ask_to_stop() {
    {
      std::lock_guard lock(mutex_);
      stop_ = after(stop_, StopEvent::kAsk);
    }
    wake();
  }
  std::vector<RankView> view() const {
    std::lock_guard lock(mutex_);
    return {ranks_.begin(), ranks_.end()};
  }
  bool over() const {
    std::lock_guard lock(mutex_);
    return state_ == JobState::kOver;
  }

 private:
  void wake() {
    char c = 0;
    (void)!::write(wake_write_.fd(), &c, 1);
  }

  void serve() {
    auto pulse = Clock::now();
    for (;;) {
      std::vector<pollfd> set{{listener_.fd(), POLLIN, 0}, {wake_read_.fd(), POLLIN, 0}};
      for (const auto& c : connections_) set.push_back({c->socket.fd(), POLLIN, 0});
      ::poll(set.data(), set.size(), static_cast<int>(std::clamp(options_.heartbeat_s * 250, 5.0, 100.0)));
      std::lock_guard lock(mutex_);
      if (quit_) return;
      char sink[64];
      while (::read(wake_read_.fd(), sink, sizeof sink) > 0) {}
      for (size_t i = 2; i < set.size(); ++i)
        if (set[i].revents != 0) read(*connections_[i - 2]);
      if (set[0].revents != 0) accept();
      if (asked_failure_) settle(*asked_failure_);
      if (seconds_since(pulse) >= options_.heartbeat_s) {
        pulse = Clock::now();
        tell_all({.kind = Kind::Pulse});
        if (options_.warn && state_ == JobState::kRunning)
          if (std::string slow = slow_.look({ranks_.begin(), ranks_.end()}, 10 * options_.heartbeat_s); !slow.empty()) options_.warn(slow);
      }
      look();
      std::erase_if(connections_, [](const auto& c) { return c->is_closed(); });
    }
  }

  // Ranks say at once who they are: where strangers come faster than they are closed, those that came first make room. Between
  // two handfuls of them others are listened to.
  void accept() {
    for (size_t i = 0; i < kStrangers / 4; ++i) {
      int fd = ::accept4(listener_.fd(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
      if (fd < 0) return no_connection(errno);
      auto is_stranger = [](const auto& c) { return c->peer == Peer::kStranger; };
      auto strangers = std::count_if(connections_.begin(), connections_.end(), is_stranger);
      if (static_cast<size_t>(strangers) >= kStrangers + ranks_.size())
        (*std::find_if(connections_.begin(), connections_.end(), is_stranger))->peer = Peer::kClosed;
      auto c = std::make_unique<Connection>();
      c->socket = Socket(fd);
      c->frames.allow(kMostHello);
      connections_.push_back(std::move(c));
    }
  }

  // If no descriptor is free, ranks that connect cannot be accepted. They would wait until the time for joining is over, without a reason.
  void no_connection(int problem) {
    if (problem != EMFILE && problem != ENFILE) return;
    auto nobody = std::find_if(connections_.begin(), connections_.end(),
                               [](const auto& c) { return c->peer == Peer::kStranger || c->peer == Peer::kKeeper; });
    if (nobody != connections_.end()) return void((*nobody)->peer = Peer::kClosed);
    auto come = std::count_if(ranks_.begin(), ranks_.end(), [](const Rank& r) { return r.state.has_joined(); });
    if (state_ == JobState::kJoining)
      return settle(refused_by_system(fmt::format("a connection to each of {} ranks ({} have come)", ranks_.size(), come), problem));
    ::usleep(1000);  // it would be asked again at once
  }

  void read(Connection& c) {
    char bytes[16384];
    ssize_t n = 0;
    while (!c.is_closed() && (n = ::recv(c.socket.fd(), bytes, sizeof bytes, 0)) > 0) {
      c.frames.add({bytes, static_cast<size_t>(n)});
      for (;;) {
        Result<std::optional<MessageT>> message = c.frames.next();
        if (!message.ok()) return stranger(c, message.errors()[0].message);
        if (!*message) break;
        take(c, **message);
        if (c.is_closed()) return;
      }
    }
    if (n == 0 || (n < 0 && errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR)) closed(c, n == 0 ? 0 : errno);
  }

  void stranger(Connection& c, const std::string& why) {
    if (options_.warn && ++warnings_ <= kWarnings)
      options_.warn(fmt::format("warning: a connection to the coordinator was closed: {}{}", why,
                                warnings_ == kWarnings ? "; no more of them are told" : ""));
    closed(c);
  }

  void closed(Connection& c, int why = 0) {
    const Peer peer = std::exchange(c.peer, Peer::kClosed);
    for (const std::string& key : c.asks) std::erase(askers_[key], &c);
    c.asks.clear();
    if (peer != Peer::kRank) return;
    Rank& r = ranks_[*c.rank];
    if (!r.state.is_gone()) r.broken = why;
    r.meets(RankEvent::kClosed);
  }

  void take(Connection& c, const MessageT& m) {
    if (c.peer == Peer::kKeeper) return stranger(c, "it has said all that it may say");
    if (c.peer == Peer::kStranger) return m.kind == Kind::Obituary ? obituary(c, m) : hello(c, m);
    Rank& r = ranks_[*c.rank];
    r.heard = Clock::now();
    switch (m.kind) {
      case Kind::Beat:
        r.run = m.run, r.sequence = m.sequence, r.waiting_us = m.waiting_us, r.what = m.what, r.bytes = m.bytes;
        r.running_us = m.running_us, r.waited_us = m.waited_us, r.exchanged_bytes = m.exchanged_bytes, r.says = m.text;
        return;
      case Kind::Report: {
        Diagnostic d = diagnostic_of(m);
        r.meets(RankEvent::kReport);
        d.notes.push_back(fmt::format("on {}", name(*c.rank)));
        return follows(d.code) ? suspect(d) : settle(d);
      }
      case Kind::Bye:
        r.meets(RankEvent::kGoodbye);
        if (m.agreed) stop_ = after(stop_, StopEvent::kLeave);
        // A launcher kills the others when one ends with another code than 0: they end together.
        if (all_left()) tell_all({.kind = Kind::Over});
        return;
      case Kind::Answer:
        return answer(*c.rank, m);
      case Kind::Stop:
        stop_ = after(stop_, StopEvent::kAsk);
        return;
      case Kind::Put:
        return put(m);
      case Kind::Get:
        if (store_.count(m.key) > 0) return tell(c, {.kind = Kind::Value, .key = m.key, .value = store_[m.key]});
        if (c.asks.size() == kQuestions)
          return stranger(c, fmt::format("{} has {} questions", name(*c.rank), kQuestions));
        c.asks.push_back(m.key), askers_[m.key].push_back(&c);
        return;
      default:
        return stranger(c, fmt::format("{} sends {}", name(*c.rank), EnumNameKind(m.kind)));
    }
  }

  void put(const MessageT& m) {
    store_[m.key] = m.value;
    auto asked = askers_.extract(m.key);
    if (asked.empty()) return;
    std::string answer = frame({.kind = Kind::Value, .key = m.key, .value = m.value});
    for (Connection* c : asked.mapped()) {
      std::erase(c->asks, m.key);
      if (!c->is_closed() && !write_all(c->socket, answer, 1)) closed(*c);
    }
  }

  // What other ranks notice when one of them breaks: the break itself is a better cause.
  static bool follows(Code code) {
    return code == Code::kTransportFailed || code == Code::kTooLate || code == Code::kRanksDiverge || code == Code::kPeerLost ||
           code == Code::kCoordinatorLost;
  }

  bool known(Connection& c, const MessageT& m) {
    if (!same_token(options_.token, m.token)) {
      if (m.kind == Kind::Hello) {
        Diagnostic d = error(Code::kRanksDisagree, "the coordinator does not take the token of rank {}, which is another than its own",
                             m.rank);
        d.help = "set NABLA_TOKEN to the same secret for all ranks";
        tell(c, verdict_of(d)), other_token_ = m.rank;
      }
      stranger(c, "it does not know the token");
      return false;
    }
    if (m.epoch == options_.epoch) return true;
    tell(c, verdict_of(error(Code::kPeerLost, "rank {} belongs to start {} of this job, which is now at start {}", m.rank,
                             m.epoch, options_.epoch)));
    c.peer = Peer::kClosed;
    return false;
  }

  void hello(Connection& c, const MessageT& m) {
    if (m.kind != Kind::Hello) return stranger(c, "it does not say who it is");
    if (!known(c, m)) return;
    if (ranks_.empty() && m.ranks > 0) ranks_.resize(std::min(m.ranks, 65536u));
    c.frames.allow(kMostBytes);
    std::optional<Diagnostic> wrong = misfit(m);
    if (wrong) {
      tell(c, verdict_of(*wrong));
      c.peer = Peer::kClosed;
      // Who comes when all are there is none of them, whatever it knows: a process of an earlier start, or of another job.
      return has_started(state_) ? stranger(c, wrong->message) : settle(*wrong);
    }
    Rank& r = ranks_[m.rank];
    r.meets(RankEvent::kHello);
    r.pid = m.pid, r.host = m.host, r.heard = Clock::now();
    r.clock_offset_us = m.clock_us - wall_us();
    c.peer = Peer::kRank, c.rank = m.rank;
    tell(c, {.kind = Kind::Welcome, .clock_us = wall_us()});
    if (cause_) return tell(c, verdict_of(*cause_));
    if (std::all_of(ranks_.begin(), ranks_.end(), [](const Rank& k) { return k.state.has_joined(); })) {
      state_ = after(state_, JobEvent::kAllJoined);
      tell_all({.kind = Kind::Start});
    }
  }

  std::optional<Diagnostic> misfit(const MessageT& m) {
    if (m.ranks != ranks_.size())
      return error(Code::kRanksDisagree, "rank {} on {} is one of {} ranks, and {} were started", m.rank, m.host, m.ranks,
                   ranks_.size());
    if (m.rank >= ranks_.size())
      return error(Code::kRanksDisagree, "there is no rank {} among {} ranks", m.rank, ranks_.size());
    const Rank& r = ranks_[m.rank];
    if (r.state.has_joined())
      return error(Code::kRanksDisagree, "rank {} was started twice: process {} on {} and process {} on {}", m.rank, r.pid, r.host,
                   m.pid, m.host);
    if (bundle_.empty()) bundle_ = m.bundle, mesh_ = m.mesh, job_ = m.job, bundle_of_ = m.rank;
    if (bundle_ != m.bundle)
      return error(Code::kRanksDisagree, "rank {} has bundle {} ({}), rank {} has bundle {} ({})", bundle_of_, bundle_, mesh_,
                   m.rank, m.bundle, m.mesh);
    if (job_ != m.job) return other_job(bundle_of_, job_, m.rank, m.job);
    return std::nullopt;
  }
  void obituary(Connection& c, const MessageT& m) {
    if (!known(c, m)) return;
    c.peer = Peer::kKeeper;  // which waits until this end closes
    if (m.rank >= ranks_.size()) return stranger(c, "there is no such rank");
    Rank& r = ranks_[m.rank];
    if (has_started(state_) && (m.pid != r.pid || m.host != r.host))
      return stranger(c, fmt::format("process {} on {} has ended, which was not rank {} of this job", m.pid, m.host, m.rank));
    std::string how = m.signal != 0 ? fmt::format("was killed by signal {} ({})", m.signal, strsignal(m.signal))
                                    : fmt::format("ended with exit code {}", m.exit);
    r.meets(RankEvent::kObituary);
    // Where all have said that they are done, nothing is lost with a process; before that the others may still need it.
    if (cause_ || (r.state.has_left() && (m.signal == 0 || all_left()))) return;
    // It ends with a code of its own because of what it has reported, or of another's end.
    if (m.signal == 0 && suspected_) return;
    Diagnostic d = error(Code::kPeerLost, "{} {}{}", name(m.rank), how, place(m.run, m.sequence, m.what));
    if (m.signal == SIGKILL) d.notes.push_back("the system kills a process so when memory runs out: see its log");
    add_last_lines(d, m.text);
    settle(d);
  }

  static void add_last_lines(Diagnostic& d, const std::string& text) {
    constexpr size_t kLines = 6;
    std::vector<std::string> lines;
    for (size_t at = 0; at < text.size();) {
      size_t end = std::min(text.find('\n', at), text.size());
      std::string line = text.substr(at, end - at);
      if (line.find_first_not_of(" \t\r") != line.npos) lines.push_back(std::move(line));
      at = end + 1;
    }
    if (!lines.empty()) d.notes.push_back("it wrote last:");
    for (size_t i = lines.size() > kLines ? lines.size() - kLines : 0; i < lines.size(); ++i) d.notes.push_back("  " + lines[i]);
  }

  // " in run 3, at exchange 17: all_reduce over dp ..."
  static std::string place(uint64_t run, uint64_t sequence, const std::string& what) {
    if (run == 0) return " before its first run";
    if (sequence == 0) return fmt::format(" in run {}", run);
    return fmt::format(" in run {}, at exchange {}: {}", run, sequence, what);
  }
  std::string place(uint32_t rank) const {
    const Rank& r = ranks_[rank];
    return place(r.run, r.sequence, r.what);
  }
  std::string name(uint32_t rank) const {
    const Rank& r = ranks_[rank];
    return r.pid == 0 ? fmt::format("rank {}", rank) : fmt::format("rank {} (process {} on {})", rank, r.pid, r.host);
  }

  // ---- What time tells

  void look() {
    for (const auto& c : connections_)
      if (c->peer == Peer::kStranger && seconds_since(c->opened) > kStrangerS) stranger(*c, "it has not said who it is");
    if (!cause_) look_for_cause();
    if (state_ == JobState::kRunning && stop_ == StopState::kAsked) propose();
    // Who is silent once the cause is known may never end.
    bool left = !ranks_.empty() && std::all_of(ranks_.begin(), ranks_.end(), [&](const Rank& r) {
      const bool is_told = r.state.process == RankState::Process::kEnded;
      bool ended = r.state.is_gone() && (is_told || seconds_since(r.gone_at) > kSecondLookS);  // its keeper may have a word to say
      return r.state.has_left() || ended || (cause_ && r.state.has_joined() && seconds_since(r.heard) > options_.lost_s);
    });
    bool joined = std::any_of(ranks_.begin(), ranks_.end(), [](const Rank& r) { return r.state.has_joined(); });
    // A connection that was closed just now still counts: the keeper of its rank has a report to write before the job is over.
    bool alone = std::none_of(connections_.begin(), connections_.end(), [](const auto& c) { return c->rank.has_value(); });
    bool unwatched = cause_ && alone && (has_started(state_) || seconds_since(caused_at_) > 1);
    bool late = cause_ && seconds_since(caused_at_) > options_.grace_s;
    bool known = cause_ || (has_started(state_) && !pending() && !suspected_);
    if ((left && joined && known) || unwatched || late) {
      state_ = after(state_, JobEvent::kAllGone);
      changed_.notify_all();
      for (const auto& c : connections_)
        if (c->peer == Peer::kKeeper) c->peer = Peer::kClosed;
    }
  }
  bool all_left() const {
    return std::all_of(ranks_.begin(), ranks_.end(), [](const Rank& r) { return r.state.has_left(); });
  }
  // Somebody is gone, and why is not known yet.
  bool pending() const {
    return !cause_ && std::any_of(ranks_.begin(), ranks_.end(), [](const Rank& r) { return r.state.is_missed(); });
  }

  void look_for_cause() {
    if (!has_started(state_) && seconds_since(opened_) > options_.join_s) {
      std::vector<uint32_t> missing;
      for (uint32_t r = 0; r < ranks_.size(); ++r)
        if (!ranks_[r].state.has_joined()) missing.push_back(r);
      Diagnostic d = error(Code::kRanksDisagree, "no rank has come in {} s", options_.join_s);
      if (!ranks_.empty())
        d.message = fmt::format("{} of {} {} not come in {} s", plural(missing), ranks_.size(), missing.size() == 1 ? "has" : "have",
                                options_.join_s);
      if (other_token_)
        d.notes.push_back(fmt::format("rank {} has come with another token: is NABLA_TOKEN the same for all?", *other_token_));
      return settle(d);
    }
    for (uint32_t r = 0; r < ranks_.size(); ++r) {
      const Rank& k = ranks_[r];
      if (k.state.is_missed() && seconds_since(k.gone_at) > kSecondLookS)
        return settle(error(Code::kPeerLost, "{} is gone{}: its connection has ended: {}", name(r), place(r),
                            k.broken == 0 ? "it was closed" : std::strerror(k.broken)));
      if (k.state.has_joined() && !k.state.is_gone() && !k.state.has_left() && seconds_since(k.heard) > options_.lost_s)
        return settle(error(Code::kPeerLost, "{} is unresponsive: nothing was heard of it for {:.1f} s{}", name(r),
                            seconds_since(k.heard), place(r)));
    }
    if (suspected_ && !pending() && seconds_since(suspected_at_) > kSecondLookS) return settle(*suspected_);
    if (has_started(state_)) look_for_progress();
  }

  void look_for_progress() {
    // The rank with the least progress keeps the others waiting.
    uint64_t least = UINT64_MAX;
    int64_t least_waiting_us = INT64_MAX;
    for (const Rank& r : ranks_)
      if (!r.state.has_left()) least = std::min(least, r.sequence), least_waiting_us = std::min(least_waiting_us, r.waiting_us);
    for (uint32_t w = 0; w < ranks_.size(); ++w) {
      Rank& waits = ranks_[w];
      double waited = static_cast<double>(waits.waiting_us) / 1e6;
      double allowed = options_.progress_s + static_cast<double>(waits.bytes) / (1 << 20);
      if (waits.state.has_left() || waited < allowed / 4) {
        waits.warned = false;
        continue;
      }
      // No rank computes, and all have waited nearly as long as this one. So no further rank will take part in its exchange.
      if (least_waiting_us >= waits.waiting_us / 2) return look_at_stuck(least, waited > allowed);
      if (waits.warned && waited <= allowed) continue;
      std::vector<uint32_t> late;
      for (uint32_t r = 0; r < ranks_.size(); ++r)
        if (const Rank& k = ranks_[r];
            !k.state.has_left() && k.sequence == least && (k.waiting_us == 0 || least < waits.sequence))
          late.push_back(r);
      // The last report of a process that is stopped is old. By that report it may seem to wait, like the others.
      std::vector<uint32_t> silent;
      for (uint32_t r = 0; r < ranks_.size(); ++r)
        if (!ranks_[r].state.has_left() && seconds_since(ranks_[r].heard) > options_.lost_s / 2) silent.push_back(r);
      if (!silent.empty()) late = silent;
      if (late.empty() && waited <= allowed) continue;
      if (late.empty()) late.push_back(w);
      std::string text = fmt::format("rank {} waits since {:.1f} s in run {} for exchange {}: {} ({} bytes); {} {} not come: ", w,
                                     waited, waits.run, waits.sequence, waits.what, waits.bytes, plural(late),
                                     late.size() == 1 ? "has" : "have");
      const Rank& first = ranks_[late[0]];
      if (!silent.empty())
        text += fmt::format("nothing was heard of it for {:.1f} s, when it was", seconds_since(first.heard)) + place(late[0]);
      else
        text += first.waiting_us > 0 ? "it waits" + place(late[0])
                                   : fmt::format("it computes in run {}, after exchange {}", first.run, first.sequence);
      if (waited > allowed) return settle(error(Code::kTooLate, "{}", text));
      if (!waits.warned && options_.warn) options_.warn("warning: " + text);
      waits.warned = true;
    }
  }

  void look_at_stuck(uint64_t least, bool over) {
    const Rank& r = *std::find_if(ranks_.begin(), ranks_.end(), [&](const Rank& k) { return !k.state.has_left() && k.sequence == least; });
    if (r.warned && !over) return;
    auto rank = static_cast<uint32_t>(&r - ranks_.data());
    Diagnostic d = error(Code::kTransportFailed, "all ranks wait, and what they send each other does not come: rank {} waits since {:.1f} "
                         "s{} ({} bytes)", rank, static_cast<double>(r.waiting_us) / 1e6, place(rank), r.bytes);
    d.help = "look at the network between them; --comm-timeout lets them wait longer";
    if (over) return settle(d);
    if (options_.warn) options_.warn("warning: " + d.message);
    for (Rank& k : ranks_) k.warned = true;
  }

  void suspect(const Diagnostic& d) {
    if (suspected_ || cause_) return;
    suspected_ = d, suspected_at_ = Clock::now();
  }

  // The first cause is that of all.
  void settle(const Diagnostic& why) {
    if (cause_) return;
    cause_ = why, caused_at_ = Clock::now();
    state_ = after(state_, JobEvent::kCause);
    tell_all(verdict_of(why));
  }
  static MessageT verdict_of(const Diagnostic& d) {
    MessageT m{.kind = Kind::Verdict};
    fill(m, d);
    return m;
  }

  // ---- Stopping together: all promise not to go beyond a run, or another one is proposed

  void propose() {
    uint64_t most = 0;
    for (const Rank& r : ranks_) most = std::max(most, r.run);
    // Fast ranks are further by the time that they hear of it: each try looks further ahead.
    proposed_run_ = std::max(most, proposed_run_) + ahead_;
    ahead_ *= 2;
    ++proposals_;
    stop_ = after(stop_, StopEvent::kPropose);
    answers_.assign(ranks_.size(), Answer::kNone);
    tell_all({.kind = Kind::Propose, .run = proposed_run_, .number = proposals_});
  }
  void answer(uint32_t rank, const MessageT& m) {
    if (stop_ != StopState::kProposed || m.number != proposals_) return;
    answers_[rank] = m.agreed ? Answer::kYes : Answer::kNo;
    proposed_run_ = std::max(proposed_run_, m.agreed ? 0 : m.run);
    bool all = true, agreed = true;
    for (uint32_t r = 0; r < ranks_.size(); ++r) {
      bool out = ranks_[r].state.has_left() || ranks_[r].state.is_gone();
      all = all && (answers_[r] != Answer::kNone || out), agreed = agreed && (answers_[r] == Answer::kYes || out);
    }
    if (!all) return;
    tell_all({.kind = Kind::Decide, .run = m.run, .number = proposals_, .agreed = agreed});
    // An agreement is for good: some may have stopped there when another is asked to.
    stop_ = after(stop_, agreed ? StopEvent::kAgree : StopEvent::kRefuse);
  }

  void tell(Connection& c, const MessageT& m) {
    if (!c.is_closed() && !write_all(c.socket, frame(m), 1)) closed(c);
  }
  void tell_all(const MessageT& m) {
    std::string bytes = frame(m);
    for (const auto& c : connections_)
      if (c->peer == Peer::kRank && !write_all(c->socket, bytes, 1)) closed(*c);
  }

  CoordinatorOptions options_;
  Socket listener_, wake_read_, wake_write_;
  std::thread thread_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  bool quit_ = false;  // the thread is to end
  JobState state_ = JobState::kJoining;
  StopState stop_ = StopState::kNotAsked;
  Clock::time_point opened_ = Clock::now(), caused_at_, suspected_at_;
  std::vector<std::unique_ptr<Connection>> connections_;
  std::vector<Rank> ranks_;
  std::string bundle_, mesh_, job_;
  uint32_t bundle_of_ = 0;
  std::optional<Diagnostic> cause_, suspected_, asked_failure_;
  std::map<std::string, std::string> store_;
  std::map<std::string, std::vector<Connection*>> askers_;  // by key
  std::optional<uint32_t> other_token_;  // the rank that somebody without the right one has said to be
  int warnings_ = 0;
  SlowRanks slow_;
  uint64_t proposals_ = 0, proposed_run_ = 0, ahead_ = 1;
  std::vector<Answer> answers_;  // by rank, to the last proposal
};

Coordinator::Coordinator(std::unique_ptr<Server> server) : server_(std::move(server)) {}
Coordinator::~Coordinator() = default;

Result<std::unique_ptr<Coordinator>> Coordinator::start(const CoordinatorOptions& options) {
  auto server = std::make_unique<Server>(options);
  (void)NABLA_TRY(server->open());
  return std::unique_ptr<Coordinator>(new Coordinator(std::move(server)));
}
const std::string& Coordinator::address() const { return server_->address(); }
Status Coordinator::wait() { return server_->wait(); }
void Coordinator::fail(const Diagnostic& why) { server_->fail(why); }
void Coordinator::ask_to_stop() { server_->ask_to_stop(); }
std::vector<RankView> Coordinator::view() const { return server_->view(); }
bool Coordinator::over() const { return server_->over(); }

}  // namespace nabla::control
