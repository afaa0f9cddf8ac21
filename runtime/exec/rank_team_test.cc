// All ranks of a bundle on threads: parts of arrays, state, messages between classes.
#include "runtime/exec/rank_team.h"

#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>

#include "runtime/exec/parts.h"
#include "runtime/exec/wholes.h"
#include "runtime/format/rank_digits.h"
#include "runtime/format/test_programs.h"

namespace nabla::exec {
namespace {

std::vector<int> numbers(int64_t count) {
  std::vector<int> out(static_cast<size_t>(count));
  std::iota(out.begin(), out.end(), 1);
  return out;
}

TEST(Parts, ThoseInOnePieceStayInPlace) {
  EXPECT_EQ(contiguous_at({{2, 0}, {2, 3}}, {4, 3}), 6);
  EXPECT_EQ(contiguous_at({{1, 2}, {1, 2}}, {4, 4}), 6);
  EXPECT_EQ(contiguous_at({{0, 2}, {2, 2}}, {4, 4}), std::nullopt);
  EXPECT_EQ(contiguous_at({{4}, {4}}, {6}), std::nullopt);  // padded
  EXPECT_EQ(contiguous_at({{}, {}}, {}), 0);
}

TEST(Parts, AreCopiedOutAndBack) {
  std::vector<int> whole = numbers(12), part(4, -1), back(12, 0);
  Box middle{{1, 2}, {2, 2}};  // of [3,4]
  copy_out(middle, {3, 4}, sizeof(int), whole.data(), part.data());
  EXPECT_EQ(part, (std::vector<int>{7, 8, 11, 12}));
  copy_back(middle, {3, 4}, sizeof(int), part.data(), back.data());
  EXPECT_EQ(back, (std::vector<int>{0, 0, 0, 0, 0, 0, 7, 8, 0, 0, 11, 12}));
  std::vector<int> padded(6, -1);
  Box edge{{2, 0}, {2, 3}};  // of [3,3]
  copy_out(edge, {3, 3}, sizeof(int), whole.data(), padded.data());
  EXPECT_EQ(padded, (std::vector<int>{7, 8, 9, 0, 0, 0}));
  std::fill(back.begin(), back.end(), 0);
  copy_back(edge, {3, 3}, sizeof(int), padded.data(), back.data());
  EXPECT_EQ(back, (std::vector<int>{0, 0, 0, 0, 0, 0, 7, 8, 9, 0, 0, 0}));
  std::vector<int> column(3, -1);
  copy_out({{0, 1}, {3, 1}}, {3, 3}, sizeof(int), whole.data(), column.data());
  EXPECT_EQ(column, (std::vector<int>{2, 5, 8}));
  int scalar = 0;
  copy_out({{}, {}}, {}, sizeof(int), whole.data(), &scalar);
  EXPECT_EQ(scalar, 1);
}

// A process of a large job stores one shard per leaf, and computes those of other ranks.
TEST(Wholes, AProcessStoresTheShardsOfItsOwnRanksAlone) {
  format::RanksT job = format::two_classes().ranks;  // the rows of state leaf 1 are sharded over the ranks of the second class
  constexpr uint32_t kOfClass = 2048;
  job.count = 2 * kOfClass, job.classes[1]->first = kOfClass;
  for (auto& of : job.classes) of->digits = {format::Digit(1, kOfClass)};
  job.state[1]->shape = {2 * kOfClass, 4}, job.state[1]->placements[0]->cuts[0]->digits = {format::Digit(1, kOfClass)};
  flatbuffers::FlatBufferBuilder builder;
  builder.Finish(format::Ranks::Pack(builder, &job));
  const format::Ranks& table = *flatbuffers::GetRoot<format::Ranks>(builder.GetBufferPointer());
  const std::vector<uint32_t> class_of = format::classes_of(table), here{kOfClass + 7};
  Whole whole(table, *table.state()->Get(1), class_of, here);
  ASSERT_EQ(whole.here.size(), 1u);
  EXPECT_EQ(whole.here[0].box({2, 4}).begin, (std::vector<int64_t>{14, 0}));
  EXPECT_EQ(whole.part(0).index, -1);
  EXPECT_FALSE(whole.owned_by(0));
  for (uint32_t i = 0; i < kOfClass; ++i) {
    ASSERT_EQ(whole.part(kOfClass + i).box({2, 4}).begin, (std::vector<int64_t>{2 * i, 0}));
    ASSERT_TRUE(whole.owned_by(kOfClass + i));
  }
}

std::unique_ptr<Session> session_of(const format::TwoClasses& classes, const SessionOptions& options = {.threads = 1}) {
  auto bundle = format::Bundle::from_bytes(format::FileBytes::copy_of(format::as_bytes(*classes.bytes())), "test");
  EXPECT_TRUE(bundle.ok()) << to_string(bundle.errors());
  auto session = Session::create(std::move(*bundle), options);
  EXPECT_TRUE(session.ok()) << (session.ok() ? "" : to_string(session.errors()));
  return std::move(*session);
}

Literal array(std::vector<int64_t> shape, double first) {
  Literal out(DType::kF32, std::move(shape));
  for (int64_t i = 0; i < out.size(); ++i) out.set(i, first + static_cast<double>(i));
  return out;
}

// Two ranks send rows to two others, which sum what they get.
void expect_two_stages(Session& s) {
  EXPECT_EQ(s.team(), "4 ranks of mesh pod (pp=2, dp=2) on this machine, 1 thread each");
  ASSERT_EQ(s.state_leaves().size(), 3u);
  EXPECT_EQ(s.state_leaves()[1].type_str(), "f32[4,4]");
  int step = s.find_entry("step"), reset = s.find_entry("reset");
  EXPECT_EQ(s.entries()[step].inputs[0].type_str(), "f32[4,4]");
  EXPECT_EQ(s.entries()[step].reads, (std::vector<int>{0, 1}));
  auto none = s.call(step, {array({4, 4}, 0)});
  ASSERT_FALSE(none.ok());
  EXPECT_EQ(none.errors()[0].message, "entry `step` reads state `stage0/w`, which has no value yet");
  ASSERT_TRUE(s.call(reset, {}).ok());
  Literal w = array({4}, 1), m = array({4, 4}, 100), got(DType::kF32, {4, 4});
  ASSERT_TRUE(s.set_state(0, w.data()).ok());
  ASSERT_TRUE(s.set_state(1, m.data()).ok());
  for (int run = 1; run <= 3; ++run) {
    auto out = s.call(step, {array({4, 4}, run)});
    ASSERT_TRUE(out.ok()) << to_string(out.errors());
    EXPECT_EQ((*out)[0].get(0), run + (run + 8));  // of rows 0 and 2
    ASSERT_TRUE(s.get_state(0, w.mutable_data()).ok());
    EXPECT_EQ(w.get(3), 4 << run);  // both ranks of a stage have it
  }
  ASSERT_TRUE(s.get_state(1, got.mutable_data()).ok());
  EXPECT_EQ(got, m);
}

TEST(RankTeam, StagesOfTwoClassesRunTogether) {
  std::unique_ptr<Session> session = session_of(format::two_classes());
  expect_two_stages(*session);
}

TEST(RankTeam, SoDoTheirVariants) {
  format::TwoClasses classes = format::two_classes();
  format::move_to_variant(*classes.front.entries[0]);
  format::move_to_variant(*classes.back.entries[1]);
  std::unique_ptr<Session> session = session_of(classes);
  expect_two_stages(*session);
}

// One track for each rank, on one clock: what the second stage waits for was sent by the first.
TEST(RankTeam, ATraceHasATrackOfEachRank) {
  std::string path = testing::TempDir() + "/ranks_trace.json";
  auto session = session_of(format::two_classes(), {.threads = 1, .trace = path});
  expect_two_stages(*session);
  ASSERT_TRUE(session->finish().ok());
  std::ifstream file(path);
  auto trace = nlohmann::json::parse(file);
  std::map<int, std::string> names;
  std::map<int, int> runs, exchanges;
  double first = 1e18;
  for (const auto& e : trace["traceEvents"]) {
    int pid = e["pid"];
    if (e["name"] == "process_name") names[pid] = e["args"]["name"];
    if (e["ph"] != "X") continue;
    runs[pid] += e["cat"] == "entry" && e["name"] == "step";
    exchanges[pid] += e["cat"] == "comm";
    first = std::min(first, e["ts"].get<double>());
  }
  EXPECT_EQ(names, (std::map<int, std::string>{{1, "rank 0"}, {2, "rank 1"}, {3, "rank 2"}, {4, "rank 3"}}));
  EXPECT_EQ(first, 0);
  for (int pid = 1; pid <= 4; ++pid) {
    EXPECT_EQ(runs[pid], 3) << pid;
    EXPECT_GT(exchanges[pid], 0) << pid;
  }
  EXPECT_EQ(trace["otherData"]["notes"],
            std::vector<std::string>{"4 ranks of mesh pod (pp=2, dp=2) on this machine, 1 thread each"});
}

TEST(RankTeam, MoreRanksThanThreadsIsSaid) {
  format::TwoClasses classes = format::two_classes();
  classes.ranks.count = 1024;
  for (auto& k : classes.ranks.classes) k->digits = {format::Digit(1, 512)}, k->first = k->first == 0 ? 0 : 512;
  classes.ranks.classes[0]->channels[0]->offset = 512, classes.ranks.classes[1]->channels[0]->offset = -512;
  for (auto& a : classes.ranks.meshes[0]->axes) a->size = a->name == "dp" ? 512 : 2;
  auto bundle = format::Bundle::from_bytes(format::FileBytes::copy_of(format::as_bytes(*classes.bytes())), "test");
  ASSERT_TRUE(bundle.ok()) << to_string(bundle.errors());
  auto session = Session::create(std::move(*bundle), {.threads = 1});
  ASSERT_FALSE(session.ok());
  EXPECT_EQ(session.errors()[0].message,
            "test is for 1024 ranks of mesh pod (pp=2, dp=512), and at most 256 ranks are threads of one process");
}

}  // namespace
}  // namespace nabla::exec
