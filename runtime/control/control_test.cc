// What the coordinator makes of ranks that come, run, stop, hang, lie and go.
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <set>
#include <thread>

#include "runtime/control/coordinator.h"
#include "runtime/control/keeper.h"
#include "runtime/control/member.h"
#include "runtime/control/wire.h"

namespace nabla::control {
namespace {

/// A coordinator with short times, and its ranks.
class Job {
 public:
  explicit Job(uint32_t ranks, double join_s = 5) {
    CoordinatorOptions o{.token = "secret", .ranks = ranks, .join_s = join_s};
    o.heartbeat_s = 0.05, o.lost_s = 0.5, o.progress_s = 0.6, o.grace_s = 1;
    o.warn = [this](const std::string& line) {
      std::lock_guard lock(mutex_);
      lines_.push_back(line);
    };
    auto made = Coordinator::start(o);
    NABLA_CHECK(made.ok(), "{}", made.errors()[0].message);
    coordinator = std::move(*made);
    boards = std::vector<comm::Board>(ranks);
  }

  MemberOptions of(uint32_t rank) const {
    MemberOptions o{.address = coordinator->address(), .token = "secret", .rank = rank, .ranks = static_cast<uint32_t>(boards.size())};
    o.bundle = "aa11", o.mesh = "dp=2", o.join_s = 5, o.heartbeat_s = 0.05, o.lost_s = 0.5, o.grace_s = 1;
    return o;
  }
  Result<std::unique_ptr<Member>> join(const MemberOptions& o) { return Member::join(o, boards[o.rank]); }
  Socket connect() const {
    auto made = connect_to(coordinator->address(), 1);
    NABLA_CHECK(made.ok(), "{}", made.errors()[0].message);
    return std::move(*made);
  }
  // All ranks, which wait for each other.
  std::vector<std::unique_ptr<Member>> join_all() {
    std::vector<std::unique_ptr<Member>> out(boards.size());
    std::vector<std::thread> threads;
    for (uint32_t r = 0; r < boards.size(); ++r)
      threads.emplace_back([&, r] {
        auto m = join(of(r));
        EXPECT_TRUE(m.ok()) << m.errors()[0].message;
        if (m.ok()) out[r] = std::move(*m);
      });
    for (auto& t : threads) t.join();
    return out;
  }
  std::vector<std::string> lines() {
    std::lock_guard lock(mutex_);
    return lines_;
  }

  std::unique_ptr<Coordinator> coordinator;
  std::vector<comm::Board> boards;

 private:
  std::mutex mutex_;
  std::vector<std::string> lines_;
};

void leave_all(std::vector<std::unique_ptr<Member>>& ranks) {
  std::vector<std::thread> threads;
  for (auto& r : ranks) threads.emplace_back([&r] { r->leave(); });
  for (auto& t : threads) t.join();
}

std::string after_a_while(const Member& m) {
  for (int i = 0; i < 400; ++i) {
    if (auto v = m.verdict()) return v->message;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return "";
}

void exchange_at(comm::Board& board, uint64_t run, uint64_t sequence, bool waits) {
  board.run = run;
  std::snprintf(board.texts[0], comm::Board::kTextBytes, "all_reduce over dp, train.py:12");
  board.texts_used = 1;
  board.events[sequence % comm::Board::kEvents] = {.sequence = sequence, .run = run, .bytes = 64, .text = 0};
  board.sequence = sequence, board.waiting_for = sequence, board.waiting_since = waits ? comm::steady_us() : 0;
}

TEST(Control, AllComeAndLeave) {
  Job job(3);
  auto ranks = job.join_all();
  EXPECT_EQ(job.coordinator->view()[2].host.empty(), false);
  job.boards[1].waited_us = 70'000, job.boards[1].exchanged_bytes = 4096;
  std::snprintf(job.boards[1].says, comm::Board::kTextBytes, "loss 0.5");
  leave_all(ranks);
  Status over = job.coordinator->wait();
  EXPECT_TRUE(over.ok()) << over.errors()[0].message;
  control::RankView last = job.coordinator->view()[1];  // what it said last, with its goodbye
  EXPECT_EQ(last.waited_us, 70'000);
  EXPECT_EQ(last.exchanged_bytes, 4096u);
  EXPECT_EQ(last.says, "loss 0.5");
  EXPECT_GT(last.running_us, 0);
}

TEST(Control, WhoIsMissingIsNamed) {
  Job job(4, 0.3);
  Result<std::unique_ptr<Member>> first = error(Code::kMisuse, "");
  std::thread a([&] { first = job.join(job.of(0)); });
  auto third = job.join(job.of(2));
  a.join();
  ASSERT_FALSE(third.ok());
  EXPECT_EQ(third.errors()[0].code, Code::kRanksDisagree);
  EXPECT_EQ(third.errors()[0].message, "ranks 1, 3 of 4 have not come in 0.3 s");
  EXPECT_EQ(first.errors()[0].message, third.errors()[0].message);
  EXPECT_EQ(job.coordinator->wait().errors()[0].code, Code::kRanksDisagree);
}

TEST(Control, RanksThatDoNotFitAreRefused) {
  {
    Job job(2);
    MemberOptions other = job.of(1);
    other.bundle = "bb22", other.mesh = "dp=2, other";
    Result<std::unique_ptr<Member>> first = error(Code::kMisuse, "");
    std::thread a([&] { first = job.join(job.of(0)); });
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    auto second = job.join(other);
    a.join();
    ASSERT_FALSE(second.ok());
    EXPECT_EQ(second.errors()[0].message, "rank 0 has bundle aa11 (dp=2), rank 1 has bundle bb22 (dp=2, other)");
    EXPECT_EQ(first.errors()[0].message, second.errors()[0].message);
  }
  for (auto [ours, theirs, message] :
       {std::tuple{"--entry\tstep\n--seed\t0\n", "--entry\tstep\n--seed\t7\n",
                   "rank 1 was started with --seed 7, rank 0 with --seed 0"},
        {"--entry\tstep\n", "--entry\tstep\n--epochs\t2\n", "rank 1 was started with --epochs 2, rank 0 without it"},
        {"--entry\tstep\n--check-messages\n", "--entry\tstep\n", "rank 0 was started with --check-messages, rank 1 without it"},
        {"--entry\ta\n--entry\tb\n--seed\t1\n", "--entry\ta\n--skip\t1\n--entry\tb\n--seed\t1\n",
         "rank 1 was started with --skip 1, rank 0 without it"},
        {"--entry\ta\n--skip\t1\n--entry\tb\n", "--entry\ta\n--entry\tb\n", "rank 0 was started with --skip 1, rank 1 without it"},
        {"--data\tof 1 bytes (content aa)\n--data\tof 2 bytes (content bb)\n",
         "--data\tof 1 bytes (content aa)\n--data\tof 3 bytes (content cc)\n",
         "rank 1 was started with --data of 3 bytes (content cc), rank 0 with --data of 2 bytes (content bb): every rank needs the same "
         "file"}}) {
    Job job(2);
    MemberOptions one = job.of(0), other = job.of(1);
    one.job = ours, other.job = theirs;
    Result<std::unique_ptr<Member>> first = error(Code::kMisuse, "");
    std::thread a([&] { first = job.join(one); });
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    auto second = job.join(other);
    a.join();
    ASSERT_FALSE(second.ok());
    EXPECT_EQ(second.errors()[0].code, Code::kRanksDisagree);
    EXPECT_EQ(second.errors()[0].message, message);
    EXPECT_EQ(second.errors()[0].help, "start every rank with the same options and the same files");
  }
  {
    Job job(2);
    MemberOptions wrong = job.of(1);
    wrong.ranks = 3;
    EXPECT_NE(job.join(wrong).errors()[0].message.find("is one of 3 ranks, and 2 were started"), std::string::npos);
  }
  {
    Job job(2);
    std::thread a([&] { EXPECT_FALSE(job.join(job.of(0)).ok()); });
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    EXPECT_NE(job.join(job.of(0)).errors()[0].message.find("rank 0 was started twice"), std::string::npos);
    a.join();
  }
  {
    Job job(2);
    MemberOptions stale = job.of(0);
    stale.epoch = 7;
    EXPECT_EQ(job.join(stale).errors()[0].message, "rank 0 belongs to start 7 of this job, which is now at start 0");
  }
}

TEST(Control, WhoGoesWithoutGoodbyeIsTheCause) {
  Job job(3);
  auto ranks = job.join_all();
  exchange_at(job.boards[1], 7, 41, false);
  std::this_thread::sleep_for(std::chrono::milliseconds(150));
  ranks[1].reset();
  std::string why = after_a_while(*ranks[0]);
  EXPECT_NE(why.find("rank 1 (process "), std::string::npos) << why;
  EXPECT_NE(why.find("is gone in run 7, at exchange 41: all_reduce over dp, train.py:12"), std::string::npos) << why;
  EXPECT_EQ(after_a_while(*ranks[2]), why);
  // What the others report of it is no other cause.
  EXPECT_EQ(ranks[0]->report(error(Code::kTransportFailed, "mpi: truncated")).message, why);
  ranks.clear();
  EXPECT_EQ(job.coordinator->wait().errors()[0].code, Code::kPeerLost);
}

TEST(Control, TheFirstReportIsTheCause) {
  Job job(2);
  auto ranks = job.join_all();
  Diagnostic first = ranks[1]->report(error(Code::kOutOfMemory, "no room"));
  Diagnostic second = ranks[0]->report(error(Code::kWriteFailed, "no disk"));
  EXPECT_EQ(first.code, Code::kOutOfMemory);
  EXPECT_EQ(second.code, Code::kOutOfMemory);
  EXPECT_EQ(second.message, "no room");
  EXPECT_EQ(second.notes.at(0).substr(0, 9), "on rank 1");
}

// An engine of communication that fails may follow from another's loss, but not from the end of the rank that says so.
TEST(Control, AReportExplainsTheEndOfItsRank) {
  Job job(2);
  auto ranks = job.join_all();
  Diagnostic why = error(Code::kPeerLost, "rank 1 waits in all_reduce");
  why.help = "look at the network";
  (void)ranks[1]->report(why);
  ranks[1].reset();
  EXPECT_EQ(after_a_while(*ranks[0]), "rank 1 waits in all_reduce");
  EXPECT_EQ(ranks[0]->verdict()->help, "look at the network");
}

TEST(Control, WhoSaysNothingIsUnresponsive) {
  Job job(2);
  Result<std::unique_ptr<Member>> first = error(Code::kMisuse, "");
  std::thread a([&] { first = job.join(job.of(0)); });
  Socket silent = job.connect();
  MessageT hello{.kind = Kind::Hello, .token = "secret", .rank = 1, .ranks = 2, .pid = 99, .host = "node7", .bundle = "aa11"};
  ASSERT_TRUE(write_all(silent, frame(hello), 1));
  a.join();
  ASSERT_TRUE(first.ok());
  std::string why = after_a_while(**first);
  EXPECT_EQ(why.substr(0, 66), "rank 1 (process 99 on node7) is unresponsive: nothing was heard of") << why;
}

TEST(Control, WhoDoesNotComeToAnExchangeIsNamed) {
  Job job(3);
  auto ranks = job.join_all();
  exchange_at(job.boards[0], 5, 20, true);
  exchange_at(job.boards[2], 5, 20, true);
  exchange_at(job.boards[1], 5, 19, false);
  std::string why = after_a_while(*ranks[2]);
  EXPECT_NE(why.find("in run 5 for exchange 20: all_reduce over dp, train.py:12 (64 bytes); rank 1 has not come: it computes in "
                     "run 5, after exchange 19"),
            std::string::npos)
      << why;
  bool warned = false;
  for (const std::string& line : job.lines()) warned = warned || line.starts_with("warning: rank 0 waits since");
  EXPECT_TRUE(warned);
}

// Messages are lost where all wait: no rank is late.
TEST(Control, WhereAllWaitNobodyIsLate) {
  Job job(3);
  auto ranks = job.join_all();
  for (uint32_t r : {0, 1, 2}) exchange_at(job.boards[r], 5, r == 0 ? 21 : 20, true);
  std::string why = after_a_while(*ranks[2]);
  EXPECT_EQ(why.substr(0, 74), "all ranks wait, and what they send each other does not come: rank 1 waits ") << why;
  EXPECT_NE(why.find(" s in run 5, at exchange 20: all_reduce over dp, train.py:12 (64 bytes)"), std::string::npos) << why;
  EXPECT_EQ(ranks[2]->verdict()->code, Code::kTransportFailed);
  ASSERT_EQ(job.lines().size(), 1u);
  EXPECT_EQ(job.lines()[0].substr(0, 25), "warning: all ranks wait, ");
}

// A connection that is broken off and not closed (F12).
void reset(Socket connection) {
  linger at_once{1, 0};
  EXPECT_EQ(setsockopt(connection.fd(), SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once), 0);
}

TEST(Control, AConnectionThatIsResetIsSaid) {
  Job job(2);
  Result<std::unique_ptr<Member>> first = error(Code::kMisuse, "");
  std::thread a([&] { first = job.join(job.of(0)); });
  Socket second = job.connect();
  MessageT hello{.kind = Kind::Hello, .token = "secret", .rank = 1, .ranks = 2, .pid = 99, .host = "node7", .bundle = "aa11"};
  ASSERT_TRUE(write_all(second, frame(hello), 1));
  a.join();
  ASSERT_TRUE(first.ok());
  reset(std::move(second));
  EXPECT_EQ(after_a_while(**first),
            "rank 1 (process 99 on node7) is gone before its first run: its connection has ended: Connection reset by peer");
  EXPECT_EQ((*first)->verdict()->code, Code::kPeerLost);

  MemberOptions o = job.of(0);
  o.address = "127.0.0.1:0";
  auto listener = listen_at(o.address);
  ASSERT_TRUE(listener.ok());
  std::thread coordinator([&] {
    pollfd ready{listener->fd(), POLLIN, 0};
    ASSERT_EQ(::poll(&ready, 1, 5000), 1);
    Socket connection(::accept(listener->fd(), nullptr, nullptr));
    EXPECT_TRUE(write_all(connection, frame({.kind = Kind::Start}), 1));
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    reset(std::move(connection));
  });
  auto member = job.join(o);
  coordinator.join();
  ASSERT_TRUE(member.ok()) << to_string(member.errors());
  EXPECT_EQ(after_a_while(**member), "rank 0 has lost the coordinator at " + o.address + ": Connection reset by peer");
  EXPECT_EQ((*member)->verdict()->code, Code::kCoordinatorLost);
}

TEST(Control, WhatListensElsewhereIsNoCoordinator) {
  Job job(1);
  MemberOptions o = job.of(0);
  o.address = "127.0.0.1:0";
  auto listener = listen_at(o.address);
  ASSERT_TRUE(listener.ok());
  std::thread other([&] {
    pollfd ready{listener->fd(), POLLIN, 0};
    ASSERT_EQ(::poll(&ready, 1, 5000), 1);
    Socket connection(::accept(listener->fd(), nullptr, nullptr));
    write_all(connection, "SSH-2.0-OpenSSH_9.2p1\r\n", 1);
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    // Another gives back what it gets.
    ASSERT_EQ(::poll(&ready, 1, 5000), 1);
    Socket echo(::accept(listener->fd(), nullptr, nullptr));
    char bytes[4096];
    for (ssize_t n = 0; (n = ::recv(echo.fd(), bytes, sizeof bytes, 0)) > 0;) write_all(echo, {bytes, static_cast<size_t>(n)}, 1);
  });
  auto member = job.join(o), echoed = job.join(o);
  other.join();
  ASSERT_FALSE(member.ok());
  ASSERT_FALSE(echoed.ok());
  EXPECT_EQ(echoed.errors()[0].message, "what listens at " + o.address + " does not answer rank 0 as a coordinator of ranks does: it "
                                        "sends what ranks send");
  EXPECT_EQ(member.errors()[0].code, Code::kCoordinatorLost);
  EXPECT_EQ(member.errors()[0].message, "what listens at " + o.address + " does not answer rank 0 as a coordinator of ranks does: what it "
                                        "sends is damaged");
  EXPECT_EQ(member.errors()[0].help, "the rendezvous is an address of rank 0's machine, with a port that nothing else uses there");
}

// The coordinator may take a rank that has not said a word yet for one of many strangers, and close its connection.
TEST(Control, WhoIsClosedBeforeAnAnswerTriesAgain) {
  Job job(1);
  MemberOptions o = job.of(0);
  o.address = "127.0.0.1:0";
  auto listener = listen_at(o.address);
  ASSERT_TRUE(listener.ok());
  std::thread other([&] {
    for (bool closes : {true, true, false}) {
      pollfd ready{listener->fd(), POLLIN, 0};
      ASSERT_EQ(::poll(&ready, 1, 5000), 1);
      Socket connection(::accept(listener->fd(), nullptr, nullptr));
      if (!closes) write_all(connection, frame({.kind = Kind::Verdict, .text = "heard"}), 1);
    }
  });
  auto member = job.join(o);
  other.join();
  ASSERT_FALSE(member.ok());
  EXPECT_EQ(member.errors()[0].message, "heard");
}

TEST(Control, ManyStrangersKeepNobodyOut) {
  Job job(3);
  std::atomic<bool> done = false;
  std::thread flood([&] {
    std::vector<Socket> open;
    for (int i = 0; !done; ++i) {
      open.push_back(job.connect());
      if (open.size() > 400) open.clear();
    }
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  auto ranks = job.join_all();
  done = true;
  flood.join();
  leave_all(ranks);
  EXPECT_TRUE(job.coordinator->wait().ok());
}

TEST(Control, StrangersEndNothing) {
  Job job(1);
  auto ranks = job.join_all();
  for (const std::string& bytes :
       {std::string("GET / HTTP/1.1\r\n\r\n"), std::string(100000, '\xff'), std::string("\x10\0\0\0aaaaaaaaaaaaaaaa", 20),
        frame({.kind = Kind::Hello, .token = "guess", .rank = 0, .ranks = 1}), frame({.kind = Kind::Bye})}) {
    Socket stranger = job.connect();
    write_all(stranger, bytes, 1);
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  EXPECT_FALSE(ranks[0]->verdict());
  EXPECT_EQ(job.lines().size(), 5u);
  ranks[0]->leave();
  EXPECT_TRUE(job.coordinator->wait().ok());
}

TEST(Control, WhoHasAnotherTokenIsTold) {
  Job job(2, 1);
  Result<std::unique_ptr<Member>> first = error(Code::kMisuse, "");
  std::thread a([&] { first = job.join(job.of(0)); });
  MemberOptions other = job.of(1);
  other.token = "a secret of another job";
  auto second = job.join(other);
  a.join();
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(second.errors()[0].code, Code::kRanksDisagree);
  EXPECT_EQ(second.errors()[0].message, "the coordinator does not take the token of rank 1, which is another than its own");
  EXPECT_EQ(second.errors()[0].help, "set NABLA_TOKEN to the same secret for all ranks");
  ASSERT_FALSE(first.ok());
  EXPECT_EQ(first.errors()[0].message, "rank 1 of 2 has not come in 1 s");
  EXPECT_EQ(first.errors()[0].notes.at(0), "rank 1 has come with another token: is NABLA_TOKEN the same for all?");
}

// They know the token: a pod that was started twice, a rank of another job with the same secret, or of an earlier start.
TEST(Control, WhoComesLateEndsNothing) {
  Job job(2);
  auto ranks = job.join_all();
  auto refused = [&](auto change) {
    MemberOptions o = job.of(1);
    change(o);
    comm::Board board;
    auto late = Member::join(o, board);
    EXPECT_FALSE(late.ok());
    return late.ok() ? "" : late.errors()[0].message;
  };
  std::string twice = refused([](MemberOptions&) {});
  EXPECT_TRUE(twice.starts_with("rank 1 was started twice: process ")) << twice;
  std::string other = refused([](MemberOptions& o) { o.rank = 3, o.ranks = 4, o.bundle = "bb22"; });
  EXPECT_NE(other.find("is one of 4 ranks, and 2 were started"), std::string::npos) << other;
  refused([](MemberOptions& o) { o.epoch = 1; });
  // Nor do their keepers, who tell of their end.
  for (auto [pid, host] : {std::pair<int64_t, std::string>{getpid(), "another"}, {1, host_name()}}) {
    Socket keeper = job.connect();
    MessageT m{.kind = Kind::Obituary, .token = "secret", .rank = 1, .pid = pid, .host = host};
    m.exit = 22;
    EXPECT_TRUE(write_all(keeper, frame(m), 1));
    pollfd ready{keeper.fd(), POLLIN, 0};
    char c = 0;
    EXPECT_EQ(::poll(&ready, 1, 2000), 1);
    EXPECT_EQ(::recv(keeper.fd(), &c, 1, 0), 0);
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  EXPECT_FALSE(ranks[0]->verdict());
  EXPECT_FALSE(ranks[1]->verdict());
  ASSERT_EQ(job.lines().size(), 4u);
  EXPECT_EQ(job.lines()[0], "warning: a connection to the coordinator was closed: " + twice);
  EXPECT_EQ(job.lines()[3], fmt::format("warning: a connection to the coordinator was closed: process 1 on {} has ended, which was not "
                                        "rank 1 of this job", host_name()));
  leave_all(ranks);
  EXPECT_TRUE(job.coordinator->wait().ok());
}

TEST(Control, ALostCoordinatorIsSaid) {
  Job job(1);
  auto ranks = job.join_all();
  job.coordinator.reset();
  EXPECT_EQ(after_a_while(*ranks[0]).substr(0, 31), "rank 0 has lost the coordinator");
}

TEST(Control, AllStopAfterTheSameRunWhoeverIsAsked) {
  for (int asked : {1, 3}) {
    Job job(3);
    auto ranks = job.join_all();
    std::vector<uint64_t> last(3);
    std::vector<std::thread> threads;
    std::atomic<bool> ask = false;
    for (uint32_t r = 0; r < 3; ++r)
      threads.emplace_back([&, r] {
        bool said = static_cast<int>(r) >= asked;
        for (uint64_t run = 1; run < 5000 && ranks[r]->may_run(run); ++run) {
          if (ask && !said) said = true, ranks[r]->ask_to_stop();
          last[r] = run, job.boards[r].run = run;
          std::this_thread::sleep_for(std::chrono::milliseconds(1 + r));
        }
        // One that has stopped already may hear of it last.
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
        if (asked == 3) ranks[r]->ask_to_stop();
      });
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    ask = true;
    for (auto& t : threads) t.join();
    EXPECT_EQ(last[0], last[1]) << asked;
    EXPECT_EQ(last[0], last[2]) << asked;
    EXPECT_LT(last[0], 4999u);
  }
}

TEST(Control, TheStoreHandsKeysOn) {
  Job job(2);
  auto ranks = job.join_all();
  std::thread later([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    EXPECT_TRUE(ranks[0]->put("nccl/0/1", "id").ok());
  });
  EXPECT_EQ(*ranks[1]->get("nccl/0/1", 3), "id");
  later.join();
  EXPECT_EQ(ranks[1]->get("other", 0.1).errors()[0].message, "no rank has put `other` into the store in 0.1 s");
}

TEST(Control, APortThatIsTakenIsSaid) {
  Job job(1);
  CoordinatorOptions o{.address = job.coordinator->address(), .token = "t"};
  auto second = Coordinator::start(o);
  ASSERT_FALSE(second.ok());
  EXPECT_NE(second.errors()[0].message.find("no coordinator can listen there: Address already in use"), std::string::npos);
  o.address = "here";
  EXPECT_EQ(Coordinator::start(o).errors()[0].code, Code::kBadOption);
}

// Each of them makes the folder and takes it away again.
TEST(Reports, RanksThatLookForTheirFolderAtOnceAllFindIt) {
  const std::string folder = testing::TempDir() + "reports_at_once";
  std::atomic<int> refused{0};
  std::vector<std::thread> ranks;
  for (int r = 0; r < 4; ++r)
    ranks.emplace_back([&] {
      for (int i = 0; i < 2000; ++i) refused += !check_reports(folder).ok();
    });
  for (std::thread& t : ranks) t.join();
  EXPECT_EQ(refused, 0);
  EXPECT_EQ(check_reports(folder + "/none/here").errors()[0].message,
            "--reports: nothing can be written into " + folder + "/none/here: No such file or directory");
}

std::string content(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

TEST(Reports, OnlyReportsAreRemovedOrReplaced) {
  const std::string folder = testing::TempDir() + "reports_and_others";
  comm::Board board;
  for (uint32_t r : {0, 12}) ASSERT_TRUE(write_board(board, r, 0, folder).ok());
  ASSERT_TRUE(write_cause(error(Code::kPeerLost, "rank 1 is gone"), folder).ok());
  ASSERT_TRUE(write_board(board, 0, 1, folder).ok());  // again
  for (const char* name : {"/rank-table.json", "/rank-.json", "/rank-1.json.bak"}) std::ofstream(folder + name) << "{}";
  EXPECT_TRUE(check_reports(folder).ok());
  // These have names of reports.
  std::ofstream(folder + "/rank-3.json") << R"({"rank": 3, "what": "mine"})";
  std::string refused = check_reports(folder).errors()[0].message;
  EXPECT_EQ(refused, folder + "/rank-3.json is no report of nabla-run, and its place is where one goes");
  EXPECT_EQ(write_board(board, 3, 0, folder).errors()[0].message, refused);
  std::filesystem::remove(folder + "/cause.json");
  std::ofstream(folder + "/cause.json") << "mine";
  EXPECT_EQ(write_cause(error(Code::kPeerLost, "x"), folder).errors()[0].help, "give another folder, or move this file away");
  clear_reports(folder);
  EXPECT_EQ(content(folder + "/cause.json"), "mine");
  EXPECT_EQ(content(folder + "/rank-3.json"), R"({"rank": 3, "what": "mine"})");
  std::set<std::string> left;
  for (const auto& e : std::filesystem::directory_iterator(folder)) left.insert(e.path().filename());
  EXPECT_EQ(left, (std::set<std::string>{"cause.json", "rank-3.json", "rank-table.json", "rank-.json", "rank-1.json.bak"}));
}

TEST(Reports, ADamagedOneHidesNoOther) {
  const std::string folder = testing::TempDir() + "reports_damaged";
  comm::Board board;
  EXPECT_EQ(postmortem(folder).errors()[0].code, Code::kNotFound);
  for (uint32_t r : {0, 1, 2, 3}) ASSERT_TRUE(write_board(board, r, 0, folder).ok());
  ASSERT_TRUE(write_cause(error(Code::kPeerLost, "rank 1 is gone"), folder).ok());
  std::filesystem::resize_file(folder + "/rank-0.json", 30);
  std::ofstream(folder + "/rank-2.json") << R"({"rank":1e300})";
  auto told = postmortem(folder);
  ASSERT_TRUE(told.ok()) << to_string(told.errors());
  const std::string damaged = " is damaged, or no report of a rank\n", ranks = "  rank 1 was in run 0, before its first exchange\n"
                                                                            "  rank 3 was in run 0, before its first exchange\n";
  const std::string notes = "note: " + folder + "/rank-0.json" + damaged + "note: " + folder + "/rank-2.json" + damaged;
  EXPECT_EQ(*told, "rank 1 is gone.\n" + ranks + notes);
  std::filesystem::resize_file(folder + "/cause.json", 9);
  EXPECT_EQ(*postmortem(folder), ranks + "note: " + folder + "/cause.json" + damaged + notes);
  std::filesystem::remove(folder + "/cause.json");
  EXPECT_EQ(*postmortem(folder), ranks + notes);
  for (const char* name : {"/rank-1.json", "/rank-2.json", "/rank-3.json"}) std::filesystem::remove(folder + name);
  EXPECT_EQ(postmortem(folder).errors()[0].message, folder + "/rank-0.json is damaged, or no report of a rank");
}

}  // namespace
}  // namespace nabla::control
