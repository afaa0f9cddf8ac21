#include "runtime/control/member.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <cstring>
#include <map>
#include <mutex>
#include <thread>

#include "runtime/base/system.h"
#include "runtime/control/wire.h"

namespace nabla::control {
class Member::Client {
 public:
  Client(const MemberOptions& o, const comm::Board& board) : options_(o), board_(board) {}
  ~Client() {
    quit_ = true;
    if (thread_.joinable()) thread_.join();
  }

  Status join() {
    (void)NABLA_TRY(introduce());
    (void)NABLA_TRY(start_thread(thread_, "tells the coordinator that the rank lives", [this] { serve(); }));
    std::unique_lock lock(mutex_);
    // The coordinator says who is missing: this rank alone cannot know.
    auto allowed = std::chrono::duration<double>(options_.join_s + options_.lost_s + 5);
    changed_.wait_for(lock, allowed, [&] { return started_ || verdict_.has_value(); });
    if (verdict_) return *verdict_;
    if (!started_) return error(Code::kCoordinatorLost, "the coordinator at {} does not start the run", options_.address);
    return Ok{};
  }

  std::optional<Diagnostic> verdict() const {
    if (!over_.load(std::memory_order_acquire)) return std::nullopt;
    std::lock_guard lock(mutex_);
    return verdict_;
  }

  Diagnostic report(const Diagnostic& why) {
    MessageT m{.kind = Kind::Report};
    fill(m, why);
    send(m);
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, std::chrono::duration<double>(options_.lost_s), [&] { return verdict_.has_value(); });
    return verdict_.value_or(why);
  }

  void leave(bool stopped) {
    beat();  // the totals of the whole run
    send({.kind = Kind::Bye, .agreed = stopped});
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return ended_ || verdict_; });
  }

  bool may_run(uint64_t run) {
    std::unique_lock lock(mutex_);
    beginning_ = run;
    changed_.wait(lock, [&] { return run <= limit_ || decided_ || verdict_; });
    return run <= limit_;
  }
  void ask_to_stop() { send({.kind = Kind::Stop}); }

  Status put(const std::string& key, const std::string& value) {
    return send({.kind = Kind::Put, .key = key, .value = value}) ? Status(Ok{}) : lost(kDeaf);
  }
  Result<std::string> get(const std::string& key, double timeout_s) {
    if (!send({.kind = Kind::Get, .key = key})) return lost(kDeaf);
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, std::chrono::duration<double>(timeout_s), [&] { return store_.count(key) > 0 || verdict_; });
    if (store_.count(key) > 0) return store_[key];
    if (verdict_) return *verdict_;
    return error(Code::kTooLate, "no rank has put `{}` into the store in {} s", key, timeout_s);
  }

 private:
  static constexpr int kTries = 10;  // to be heard, in a second
  static constexpr const char* kDeaf = "it takes nothing that is sent";
  Diagnostic lost(const char* why) const {
    if (!answered_) {
      Diagnostic d = error(Code::kCoordinatorLost, "what listens at {} does not answer rank {} as a coordinator of ranks does: {}",
                           options_.address, options_.rank, why);
      d.help = "the rendezvous is an address of rank 0's machine, with a port that nothing else uses there";
      return d;
    }
    return error(Code::kCoordinatorLost, "rank {} has lost the coordinator at {}: {}", options_.rank, options_.address, why);
  }

  // A coordinator that strangers flood closes connections on which nothing was said yet, and this rank's may be one: it tries
  // again. Whoever closes each of them is no coordinator, which `serve` says.
  Status introduce() {
    MessageT hello{.kind = Kind::Hello};
    hello.token = options_.token, hello.epoch = options_.epoch, hello.rank = options_.rank, hello.ranks = options_.ranks;
    hello.pid = getpid(), hello.host = host_name(), hello.bundle = options_.bundle, hello.mesh = options_.mesh, hello.job = options_.job;
    socket_ = NABLA_TRY(connect_to(options_.address, options_.join_s));
    for (int tries = 1;; ++tries) {
      hello.clock_us = wall_us();
      send(hello);
      pollfd answer{socket_.fd(), POLLIN, 0};
      char byte = 0;
      if (::poll(&answer, 1, static_cast<int>(options_.lost_s * 1000)) != 1) return Ok{};
      if (tries == kTries || ::recv(socket_.fd(), &byte, 1, MSG_PEEK | MSG_DONTWAIT) > 0) return Ok{};
      ::usleep(20'000 * static_cast<unsigned>(tries));
      Result<Socket> again = connect_to(options_.address, 1);
      if (!again.ok()) return Ok{};
      socket_ = std::move(*again);
    }
  }

  bool send(const MessageT& m) {
    std::lock_guard lock(writing_);
    return write_all(socket_, frame(m), 1);
  }

  void beat() {
    MessageT m{.kind = Kind::Beat};
    m.run = board_.run.load(), m.sequence = comm::reached(board_);
    int64_t since = board_.waiting_since.load();
    if (since > 0) m.waiting_us = std::max<int64_t>(1, comm::steady_us() - since), m.sequence = board_.waiting_for.load();
    m.what = comm::text_of(board_, m.sequence), m.bytes = board_.events[m.sequence % comm::Board::kEvents].bytes;
    m.clock_us = wall_us();
    if (int64_t started = started_us_.load(); started > 0) m.running_us = comm::steady_us() - started;
    m.waited_us = board_.waited_us.load(), m.exchanged_bytes = board_.exchanged_bytes.load();
    m.text = std::string(board_.says, strnlen(board_.says, comm::Board::kTextBytes));
    send(m);
  }

  void serve() {
    auto heard = Clock::now(), beaten = Clock::now();
    std::optional<Clock::time_point> over;
    while (!quit_) {
      pollfd ready{socket_.fd(), POLLIN, 0};
      const char* gone = nullptr;
      if (::poll(&ready, 1, static_cast<int>(std::clamp(options_.heartbeat_s * 250, 5.0, 100.0))) == 1) gone = read(heard);
      if (seconds_since(beaten) >= options_.heartbeat_s && gone == nullptr) {
        beaten = Clock::now();
        beat();
      }
      // A process that was stopped hears nothing either: what has come meanwhile is read first.
      bool open = gone == nullptr;
      if (open && seconds_since(heard) > options_.lost_s) gone = "nothing was heard of it for five heartbeats";
      if (gone != nullptr) settle(lost(gone));  // after the end nobody asks
      if (!over && over_) over = Clock::now();
      if (over && seconds_since(*over) > options_.grace_s && options_.end_hard) options_.end_hard(*verdict());
      if (!open) usleep(20000);
    }
  }

  // Why the other end is gone; null: it is not.
  const char* read(Clock::time_point& heard) {
    char bytes[16384];
    ssize_t n = 0;
    while ((n = ::recv(socket_.fd(), bytes, sizeof bytes, 0)) > 0) {
      heard = Clock::now();
      frames_.add({bytes, static_cast<size_t>(n)});
      for (;;) {
        Result<std::optional<MessageT>> message = frames_.next();
        if (!message.ok()) return "what it sends is damaged";
        if (!*message) break;
        if ((*message)->kind < Kind::Welcome) return "it sends what ranks send";
        answered_ = true;
        take(**message);
      }
    }
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)) return nullptr;
    return n == 0 ? "it has closed the connection" : std::strerror(errno);
  }

  void take(const MessageT& m) {
    if (m.kind == Kind::Verdict) return settle(diagnostic_of(m));
    if (m.kind == Kind::Propose) {
      bool agreed = false;
      uint64_t beginning = 0;
      {
        std::lock_guard lock(mutex_);
        beginning = beginning_, agreed = beginning <= m.run;
        if (agreed) limit_ = m.run, decided_ = false;
      }
      send({.kind = Kind::Answer, .run = agreed ? m.run : beginning, .number = m.number, .agreed = agreed});
      return;
    }
    std::lock_guard lock(mutex_);
    if (m.kind == Kind::Start) started_ = true, started_us_ = comm::steady_us();
    if (m.kind == Kind::Over) ended_ = true;
    if (m.kind == Kind::Value) store_[m.key] = m.value;
    if (m.kind == Kind::Decide && m.agreed) decided_ = true;
    if (m.kind == Kind::Decide && !m.agreed) limit_ = UINT64_MAX;
    changed_.notify_all();
  }

  void settle(const Diagnostic& why) {
    std::lock_guard lock(mutex_);
    if (verdict_) return;
    verdict_ = why;
    over_.store(true, std::memory_order_release);
    changed_.notify_all();
  }

  MemberOptions options_;
  const comm::Board& board_;
  Socket socket_;
  Frames frames_;
  std::thread thread_;
  std::atomic<bool> quit_{false}, over_{false};
  std::atomic<int64_t> started_us_{0};
  mutable std::mutex mutex_;
  std::mutex writing_;
  std::condition_variable changed_;
  bool answered_ = false;  // of the thread
  bool started_ = false, decided_ = false, ended_ = false;
  uint64_t beginning_ = 0, limit_ = UINT64_MAX;
  std::optional<Diagnostic> verdict_;
  std::map<std::string, std::string> store_;
};

Member::Member(std::unique_ptr<Client> client) : client_(std::move(client)) {}
Member::~Member() = default;

Result<std::unique_ptr<Member>> Member::join(const MemberOptions& options, const comm::Board& board) {
  auto client = std::make_unique<Client>(options, board);
  (void)NABLA_TRY(client->join());
  return std::unique_ptr<Member>(new Member(std::move(client)));
}
std::optional<Diagnostic> Member::verdict() const { return client_->verdict(); }
Diagnostic Member::report(const Diagnostic& why) { return client_->report(why); }
void Member::leave(bool stopped) { client_->leave(stopped); }
bool Member::may_run(uint64_t run) { return client_->may_run(run); }
void Member::ask_to_stop() { client_->ask_to_stop(); }
Status Member::put(const std::string& key, const std::string& value) { return client_->put(key, value); }
Result<std::string> Member::get(const std::string& key, double timeout_s) { return client_->get(key, timeout_s); }

}  // namespace nabla::control
