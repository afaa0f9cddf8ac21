// What the coordinator and its ranks do where the system refuses descriptors or threads.
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <fstream>
#include <thread>

#include "runtime/base/system.h"
#include "runtime/control/coordinator.h"
#include "runtime/control/crowd.h"
#include "runtime/control/member.h"
#include "runtime/control/stragglers.h"
#include "runtime/control/wire.h"
#include "tests/ranks/proxy.h"

namespace nabla::control {
namespace {

std::unique_ptr<Coordinator> coordinator_of(uint32_t ranks) {
  auto made = Coordinator::start({.token = "secret", .ranks = ranks});
  NABLA_CHECK(made.ok(), "{}", made.errors()[0].message);
  return std::move(*made);
}

/// A lower limit of this process, until the object is gone.
class Limit {
 public:
  Limit(__rlimit_resource resource, rlim_t value) : resource_(resource) {
    ::getrlimit(resource, &before_);
    rlimit now{value, before_.rlim_max};
    ::setrlimit(resource, &now);
  }
  ~Limit() { ::setrlimit(resource_, &before_); }

 private:
  __rlimit_resource resource_;
  rlimit before_{};
};

/// The number that the next descriptor gets.
rlim_t next_descriptor() {
  int fd = ::dup(0);
  ::close(fd);
  return static_cast<rlim_t>(fd);
}

TEST(System, DescriptorsThatRunOutAreNamedWithTheirLimit) {
  {
    // The hard limit too: the coordinator takes that by itself.
    pid_t child = ::fork();
    if (child == 0) {
      rlimit few{next_descriptor() + 1, next_descriptor() + 1};
      ::setrlimit(RLIMIT_NOFILE, &few);
      auto none = Coordinator::start({.token = "secret", .ranks = 2});
      std::string expected = fmt::format("a pipe of the coordinator cannot be had: Too many open files: the limit is {} for a process "
                                         "(ulimit -n)", few.rlim_cur);
      ::_exit(!none.ok() && none.errors()[0].code == Code::kOutOfMemory && none.errors()[0].message == expected ? 0 : 1);
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    EXPECT_EQ(status, 0);
  }
  auto coordinator = coordinator_of(2);
  Limit few(RLIMIT_NOFILE, next_descriptor());
  EXPECT_EQ(connect_to(coordinator->address(), 0.1).errors()[0].code, Code::kOutOfMemory);
}

TEST(System, TheLimitOfDescriptorsIsRaisedToTheHardLimit) {
  rlimit before{}, after{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  Limit few(RLIMIT_NOFILE, next_descriptor() + 20);
  auto coordinator = coordinator_of(2);
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &after), 0);
  EXPECT_EQ(after.rlim_cur, before.rlim_max);
  EXPECT_EQ(after.rlim_max, before.rlim_max);
}

// Without this error the ranks that are not accepted would wait until the time for joining is over.
TEST(System, ACoordinatorWithoutDescriptorsSaysHowManyRanksHaveCome) {
  auto coordinator = coordinator_of(8);
  std::vector<Socket> clients;
  for (int i = 0; i < 4; ++i) {
    auto made = connect_to(coordinator->address(), 1);
    ASSERT_TRUE(made.ok()) << to_string(made.errors());
    clients.push_back(std::move(*made));
  }
  MessageT hello{.kind = Kind::Hello, .token = "secret", .ranks = 8, .pid = 1, .host = "h", .bundle = "aa11", .mesh = "dp=2"};
  for (hello.rank = 0; hello.rank < 4; ++hello.rank) ASSERT_TRUE(write_all(clients[hello.rank], frame(hello), 1));
  for (int i = 0; i < 100 && !coordinator->view()[3].state.has_joined(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  Socket late(::socket(AF_INET, SOCK_STREAM, 0)), last(::socket(AF_INET, SOCK_STREAM, 0));
  {
    Limit few(RLIMIT_NOFILE, next_descriptor());
    sockaddr_in at{};
    std::string address = coordinator->address();
    at.sin_family = AF_INET, at.sin_port = htons(static_cast<uint16_t>(std::stoi(address.substr(address.rfind(':') + 1))));
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    ASSERT_EQ(::connect(late.fd(), reinterpret_cast<sockaddr*>(&at), sizeof at), 0);
    Status ended = coordinator->wait();
    ASSERT_FALSE(ended.ok());
    EXPECT_EQ(ended.errors()[0].code, Code::kOutOfMemory);
    EXPECT_TRUE(ended.errors()[0].message.starts_with("a connection to each of 8 ranks (4 have come) cannot be had: Too many open files: "
                                                      "the limit is ")) << ended.errors()[0].message;
  }
}

// 100 ranks with 60 questions each are more at once than a store of 4,096 askers has room for.
TEST(System, EveryQuestionToTheStoreIsAnswered) {
  const char* many = std::getenv("NABLA_RANKS");  // for measuring by hand
  Result<double> seconds = meet(many == nullptr ? 100 : static_cast<uint32_t>(std::atoi(many)), many == nullptr ? 60 : 2);
  ASSERT_TRUE(seconds.ok()) << to_string(seconds.errors());
  EXPECT_LT(*seconds, 20);
}

TEST(System, AThreadThatCannotBeHadIsAnError) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "sanitizers need address space of their own";
#endif
  auto working = coordinator_of(1);
  comm::Board board;
  std::atomic<bool> over{false};
  std::vector<std::thread> holders;  // of the stacks that the C library keeps from earlier threads
  std::ifstream statm("/proc/self/statm");
  rlim_t pages = 0;
  statm >> pages;
  Status refused = Ok{};
  {
    Limit little(RLIMIT_AS, pages * 4096 + (4 << 20));
    while (refused.ok() && holders.size() < 64) {
      refused = start_thread(holders.emplace_back(), "holds a stack", [&] {
        while (!over) ::usleep(1000);
      });
    }
    auto coordinator = Coordinator::start({.token = "secret", .ranks = 1});
    ASSERT_FALSE(coordinator.ok());
    EXPECT_EQ(coordinator.errors()[0].code, Code::kOutOfMemory);
    auto member = Member::join({.address = working->address(), .token = "secret", .ranks = 1, .bundle = "aa11"}, board);
    ASSERT_FALSE(member.ok());
    EXPECT_EQ(member.errors()[0].code, Code::kOutOfMemory);
    EXPECT_TRUE(member.errors()[0].message.starts_with("a thread that tells the coordinator that the rank lives cannot be had: "));
  }
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.errors()[0].code, Code::kOutOfMemory);
  EXPECT_NE(refused.errors()[0].help.find("ulimit -u"), std::string::npos) << refused.errors()[0].str();
  over = true;
  for (std::thread& t : holders)
    if (t.joinable()) t.join();
}

// ---- Rows of the fault matrix, of the connection between a rank and its coordinator

/// Two ranks, of which the second one's connection can be broken. A rank is lost after 0.6 s.
struct Broken {
  std::unique_ptr<Coordinator> coordinator;
  std::unique_ptr<tests::Proxy> proxy;
  std::vector<comm::Board> boards = std::vector<comm::Board>(2);
  std::unique_ptr<Member> members[2];

  explicit Broken(double progress_s = 60) {
    CoordinatorOptions o{.token = "secret", .ranks = 2};
    o.heartbeat_s = 0.1, o.lost_s = 0.6, o.progress_s = progress_s, o.grace_s = 1;
    auto made = Coordinator::start(o);
    NABLA_CHECK(made.ok(), "{}", made.errors()[0].message);
    coordinator = std::move(*made);
    std::string address = coordinator->address();
    proxy = std::make_unique<tests::Proxy>(std::stoi(address.substr(address.rfind(':') + 1)));
    std::thread other([&] { members[0] = join(0, address); });
    members[1] = join(1, fmt::format("127.0.0.1:{}", proxy->port()));
    other.join();
  }
  std::unique_ptr<Member> join(uint32_t rank, const std::string& address) {
    MemberOptions o{.address = address, .token = "secret", .rank = rank, .ranks = 2, .bundle = "aa11"};
    o.heartbeat_s = 0.1, o.lost_s = 0.6, o.grace_s = 1;
    auto made = Member::join(o, boards[rank]);
    EXPECT_TRUE(made.ok()) << to_string(made.errors());
    return std::move(*made);
  }
  /// The error that a rank receives within `seconds`. Nothing if its run continues.
  std::optional<Diagnostic> told(int rank, double seconds) const {
    for (int i = 0; i < seconds * 100; ++i) {
      if (auto v = members[rank]->verdict()) return v;
      ::usleep(10'000);
    }
    return std::nullopt;
  }
};

// F10: the messages from the rank are lost, or those to it, or both.
TEST(Matrix, ARankThatIsCutOffIsNamedAndEnds) {
  for (auto [from_rank, to_rank] : {std::pair{true, true}, {true, false}, {false, true}}) {
    Broken job;
    job.proxy->hold(from_rank, to_rank);
    auto cut = job.told(1, 5);
    job.members[1].reset();  // its process ends
    auto other = job.told(0, 5);
    ASSERT_TRUE(other && cut) << from_rank << to_rank;
    EXPECT_EQ(other->code, Code::kPeerLost) << other->str();
    EXPECT_NE(other->message.find("rank 1"), std::string::npos) << other->message;
    EXPECT_EQ(cut->code, to_rank ? Code::kCoordinatorLost : Code::kPeerLost) << cut->str();
  }
}

// F11: shorter than what counts as lost.
TEST(Matrix, AnInterruptionIsWaitedFor) {
  Broken job;
  for (int i = 0; i < 3; ++i) {
    job.proxy->hold(true, true);
    ::usleep(250'000);
    job.proxy->hold(false, false);
    ::usleep(200'000);
  }
  EXPECT_FALSE(job.told(0, 0.3) || job.told(1, 0));
  EXPECT_TRUE(job.members[1]->put("after", "it").ok());
  EXPECT_EQ(*job.members[0]->get("after", 5), "it");
}

// F12
TEST(Matrix, AConnectionThatIsResetEndsAll) {
  Broken job;
  job.proxy->reset();
  auto other = job.told(0, 5), cut = job.told(1, 5);
  ASSERT_TRUE(other && cut);
  EXPECT_EQ(other->code, Code::kPeerLost);
  EXPECT_NE(other->message.find("rank 1"), std::string::npos) << other->message;
  EXPECT_EQ(cut->code, Code::kCoordinatorLost);
}

// F9: the deadline of an exchange grows with its bytes.
TEST(Matrix, ADeadlineIsThatOfTheBytes) {
  for (uint64_t mebibytes : {0, 60}) {
    Broken job(0.3);
    for (int r : {0, 1}) {
      comm::Board& board = job.boards[static_cast<size_t>(r)];
      board.run = 1;
      board.events[1] = {.sequence = 1, .run = 1, .bytes = mebibytes << 20};
      board.sequence = 1, board.waiting_for = 1;
      if (r == 0) board.waiting_since = comm::steady_us();
    }
    EXPECT_EQ(job.told(0, 1.5).has_value(), mebibytes == 0) << mebibytes;
  }
}

// F6: a process of an earlier start of the job still runs after the job was started again.
TEST(Matrix, ARankOfAnEarlierStartIsToldAndLeavesNoTrace) {
  auto now = Coordinator::start({.token = "secret", .ranks = 1, .epoch = 1});
  ASSERT_TRUE(now.ok());
  comm::Board board;
  auto stale = Member::join({.address = (*now)->address(), .token = "secret", .epoch = 0, .ranks = 1, .bundle = "aa11"}, board);
  ASSERT_FALSE(stale.ok());
  EXPECT_EQ(stale.errors()[0].message, "rank 0 belongs to start 0 of this job, which is now at start 1");
  EXPECT_FALSE((*now)->over());
  auto fresh = Member::join({.address = (*now)->address(), .token = "secret", .epoch = 1, .ranks = 1, .bundle = "aa11"}, board);
  ASSERT_TRUE(fresh.ok()) << to_string(fresh.errors());
  (*fresh)->leave();
  EXPECT_TRUE((*now)->wait().ok());
}

// F8: nothing fails where a rank is slow.
TEST(Matrix, ASlowRankIsNamedOnce) {
  auto at = [](int64_t seconds, std::vector<double> shares) {
    std::vector<RankView> out;
    for (double share : shares) {
      RankView& r = out.emplace_back();
      r.host = "node", r.running_us = seconds * 1'000'000;
      r.waited_us = static_cast<int64_t>(share * static_cast<double>(r.running_us));
    }
    return out;
  };
  SlowRanks slow;
  EXPECT_EQ(slow.look(at(0, {0, 0, 0}), 10), "");
  EXPECT_EQ(slow.look(at(9, {0.9, 0, 0.8}), 10), "");  // too early
  EXPECT_EQ(slow.look(at(10, {0.5, 0.01, 0.4}), 10),
            "warning: rank 1 on node is slow: in 10.0 s it waited for others 1 % of the time, and every other rank 40 % or more");
  EXPECT_EQ(slow.look(at(20, {0.5, 0.01, 0.4}), 10), "");  // told
  SlowRanks even;
  (void)even.look(at(0, {0, 0, 0}), 10);
  EXPECT_EQ(even.look(at(10, {0.5, 0.3, 0.4}), 10), "");  // as ranks of different work are
  EXPECT_EQ(even.look(at(20, {0.5, 0.0, 0.0}), 10), "");  // two hold the third up: which of them is not known
}

}  // namespace
}  // namespace nabla::control
