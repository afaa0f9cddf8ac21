// Checkpoints whose writers are killed at each step of their two phases (F18 of the fault matrix): the run goes on from the newest that
// was committed, to the bits of one that was not interrupted, and nothing of the unfinished one is left.
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <filesystem>
#include <functional>

#include "tests/ranks/digits.h"
#include "tests/ranks/expect.h"
#include "tests/ranks/job.h"

namespace nabla::tests {
namespace {

using Words = std::vector<std::string>;

constexpr int kSteps = 12;  // with a checkpoint after 4, 8 and 12, of which the newest stays: the second one is broken

struct Point {
  std::string name, at;  ///< as kill_at.c reads it
  bool committed = false;
};

std::string shard(int rank) { return "step-00000008.tmp/rank-" + std::to_string(rank) + ".safetensors"; }
std::string at(int rank, const std::string& call, const std::string& of) { return std::to_string(rank) + " " + call + " " + of; }

/// The first phase, which every process goes through. Of the four ranks 0 and 1 have pieces to write.
std::vector<Point> of_writing(int rank) {
  return {{"the folder is made", at(rank, "after mkdir 1", "step-00000008.tmp")},
          {"a shard has its header", at(rank, "before write 2", shard(rank))},
          {"a shard is half written", at(rank, "half write 2", shard(rank))},
          {"a shard is written", at(rank, "after write 2", shard(rank))},
          {"the disk has the shard", at(rank, "after fsync 1", shard(rank))}};
}

/// The second phase, which is that of rank 0. `dir`: of the checkpoints, which is synced at each.
std::vector<Point> of_committing(const std::string& dir) {
  const std::string folder = "step-00000008.tmp", manifest = folder + "/manifest.json", old = "step-00000004";
  return {{"before the manifest", at(0, "before write 1", manifest)},
          {"the manifest is half written", at(0, "half write 1", manifest)},
          {"the manifest is written", at(0, "after write 1", manifest)},
          {"the disk has the manifest", at(0, "after fsync 1", manifest)},
          {"before the rename", at(0, "before renameat2 1", folder)},
          {"after the rename", at(0, "after renameat2 1", folder), true},
          {"before the folder of checkpoints is synced", at(0, "before fsync 2", dir), true},
          {"the commit is done", at(0, "after fsync 2", dir), true},
          {"the older one has lost its manifest", at(0, "after unlink 1", old + "/manifest.json"), true},
          {"the older one is empty", at(0, "before rmdir 1", old), true},
          {"the older one is gone", at(0, "after rmdir 1", old), true}};
}

class Commits : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    write_digits();
    compile_digits("dp=2,tp=2", "four");
    compile_digits("dp=1,tp=1", "one");
    for (const char* name : {"one", "four"}) {
      Outcome o = Job(kProgram, train_digits(name, kSteps, {"--save-state", path(std::string("clean-") + name)})).wait();
      ASSERT_EQ(o.code, 0) << o.err;
    }
  }
  /// A new folder of checkpoints.
  void begin() {
    static int number = 0;
    dir_ = path("commits-" + std::to_string(number++));
  }
  Words every(Words more = {}) const {
    more.insert(more.begin(), {"--checkpoint-dir", dir_, "--checkpoint-every", "4"});
    return more;
  }
  Words on_mpi(const Words& more = {}) const {
    Words out = every({"--checkpoint-keep", "1", "--engine", "mpi", "--heartbeat", "0.2", "--reports", path("reports")});
    out.insert(out.end(), more.begin(), more.end());
    return out;
  }
  static Outcome train(const std::string& name, const Words& more, const std::string& kill_at = "") {
    Job::Options options;
    if (!kill_at.empty())
      options.environment = {"KILL_AT=" + kill_at, "LD_PRELOAD=" + std::filesystem::absolute("tests/ranks/libkill_at.so").string()};
    return Job(kProgram, train_digits(name, kSteps, more), options).wait();
  }
  std::vector<std::string> entries() const {
    std::vector<std::string> out;
    for (const auto& entry : std::filesystem::directory_iterator(dir_)) out.push_back(entry.path().filename());
    std::sort(out.begin(), out.end());
    return out;
  }
  bool has(const std::string& name) const { return std::filesystem::exists(dir_ + "/" + name); }

  /// What the interrupted run has left is there, and the same line goes on from it.
  void goes_on(const std::string& name, bool committed, const Words& line) {
    EXPECT_EQ(has("step-00000008/manifest.json"), committed);
    EXPECT_TRUE(committed || has("step-00000004/manifest.json"));
    EXPECT_FALSE(has("step-00000012"));
    std::filesystem::remove(path("resumed"));
    Words more = line;
    more.insert(more.end(), {"--resume", "latest", "--save-state", path("resumed")});
    Outcome rest = train(name, more);
    ASSERT_EQ(rest.code, 0) << rest.err;
    EXPECT_HAS(rest.err, "resumed from " + dir_ + (committed ? "/step-00000008\n" : "/step-00000004\n"));
    EXPECT_EQ(rest.err.find("warning"), std::string::npos) << rest.err;
    expect_same_file("clean-" + name, "resumed");
    EXPECT_EQ(entries(), (Words{".lock", "step-00000012"}));
  }

  /// Calls `die` in turn for all points of writing rank `r`'s part of a checkpoint and of committing it.
  void at_every_point(int r, const std::function<void(const Point&)>& die) {
    size_t points = 0;
    for (size_t i = 0; points == 0 || i < points; ++i) {
      begin();
      std::vector<Point> all = of_writing(r), second = of_committing(std::filesystem::path(dir_).filename());
      all.insert(all.end(), second.begin(), second.end());
      points = all.size();
      SCOPED_TRACE(all[i].name);
      die(all[i]);
    }
  }

  static constexpr const char* kProgram = "cli/nabla-run";
  std::string dir_;
};

TEST_F(Commits, OfOneProcessAreWholeOrNotThere) {
  at_every_point(0, [&](const Point& p) {
    Outcome o = train("one", every({"--checkpoint-keep", "1"}), p.at);
    EXPECT_EQ(o.code, 128 + SIGKILL) << o.err;
    goes_on("one", p.committed, every({"--checkpoint-keep", "1"}));
  });
}

// The ranks that go on from it are threads, which have the bits of processes.
TEST_F(Commits, OfSeveralProcessesAreThoseOfAll) {
  at_every_point(1, [&](const Point& p) {
    Outcome o = train("four", on_mpi(), p.at);
    EXPECT_EQ(o.code, 10) << o.err;
    EXPECT_MATCHES(o.err, "error\\[E0610\\]: rank " + p.at.substr(0, 1) + " .*was killed by signal 9");
    EXPECT_LT(o.seconds, 12);
    EXPECT_EQ(o.survivors, 0);
    goes_on("four", p.committed, every({"--checkpoint-keep", "1"}));
  });
}

TEST_F(Commits, WhereSeveralRanksDieTooTheyAreThoseOfAll) {
  auto each = [](const std::string& call, std::initializer_list<int> ranks) {
    std::string out;
    for (int r : ranks) out += (out.empty() ? "" : ";") + at(r, call, shard(r));
    return out;
  };
  for (const std::string& points : {each("half write 2", {0, 1}), each("after fsync 1", {0, 2}), each("before fsync 1", {0, 1, 2, 3}),
                                    each("after fsync 1", {1}) + ";" + at(0, "half write 2", shard(0))}) {
    SCOPED_TRACE(points);
    begin();
    Outcome o = train("four", on_mpi(), points);
    EXPECT_EQ(o.code, 10) << o.err;
    EXPECT_HAS(o.err, "was killed by signal 9");
    EXPECT_EQ(o.survivors, 0);
    goes_on("four", false, on_mpi());
  }
}

TEST_F(Commits, AreWrittenAgainByTheNextStart) {
  auto renamed = at(0, "after renameat2 1", "step-00000008.tmp"), removed = at(0, "after unlink 1", "step-00000004/manifest.json");
  for (const auto& [point, from] : {std::pair{at(1, "half write 2", shard(1)), "4\n"},
                                    {at(0, "half write 1", "step-00000008.tmp/manifest.json"), "4\n"},
                                    {at(0, "before renameat2 1", "step-00000008.tmp"), "4\n"},
                                    {renamed, "8\n"},
                                    {removed, "8\n"}}) {
    SCOPED_TRACE(point);
    begin();
    std::filesystem::remove(path("restarted"));
    Outcome o = train("four", on_mpi({"--max-restarts", "1", "--save-state", path("restarted")}), point);
    EXPECT_EQ(o.code, 0) << o.err;
    EXPECT_HAS(o.err, "note: start 2 of at most 2\n");
    EXPECT_HAS(o.err, "resumed from " + dir_ + "/step-0000000" + from);
    expect_same_file("clean-four", "restarted");
    EXPECT_EQ(entries(), (Words{".lock", "step-00000012"}));
    EXPECT_EQ(o.survivors, 0);
  }
}

// A run that went back to 4 comes to 8 again: the folder gets its name in one step, and what had it goes then.
TEST_F(Commits, ThatReplaceOneLeaveOneOfThem) {
  const std::string folder = "step-00000008.tmp";
  for (const Point& p : {Point{"before the exchange", at(0, "before renameat2 2", folder)},
                         Point{"after the exchange", at(0, "after renameat2 2", folder)},
                         Point{"what had the name has lost its manifest", at(0, "after unlink 1", folder + "/manifest.json")},
                         Point{"what had the name is empty", at(0, "before rmdir 1", folder)}}) {
    SCOPED_TRACE(p.name);
    begin();
    Job first(kProgram, train_digits("one", 8, every()));
    ASSERT_EQ(first.wait().code, 0);
    Outcome o = train("one", every({"--resume", "4"}), p.at);
    EXPECT_EQ(o.code, 128 + SIGKILL) << o.err;
    EXPECT_TRUE(has(folder));
    goes_on("one", true, every({"--checkpoint-keep", "1"}));
  }
}

}  // namespace
}  // namespace nabla::tests
