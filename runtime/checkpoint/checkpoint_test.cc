// Manifests, commits, what damage is noticed, and processes that agree: threads stand for them.
#include <dirent.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <nlohmann/json.hpp>
#include <random>
#include <thread>

#include "runtime/checkpoint/crowd.h"
#include "runtime/checkpoint/folder.h"
#include "runtime/checkpoint/reader.h"
#include "runtime/checkpoint/writer.h"
#include "runtime/exec/test_bundle.h"
#include "runtime/format/sha256.h"
#include "runtime/format/test_programs.h"

namespace nabla::checkpoint {
namespace {

using Json = nlohmann::json;

#define EXPECT_HAS(text, part) EXPECT_NE((text).find(part), std::string::npos) << (text)

/// A folder of its own for every test.
std::string new_folder() {
  static int number = 0;
  return testing::TempDir() + "checkpoints-" + std::to_string(::getpid()) + "-" + std::to_string(number++);
}

std::string read(const std::string& path) {
  auto file = format::FileBytes::map(path);
  return file.ok() ? std::string(format::as_text((*file)->bytes())) : "none";
}

std::vector<std::string> names_in(const std::string& dir) {
  std::vector<std::string> out;
  DIR* entries = ::opendir(dir.c_str());
  while (const dirent* e = entries == nullptr ? nullptr : ::readdir(entries))
    if (e->d_name[0] != '.') out.emplace_back(e->d_name);
  if (entries != nullptr) ::closedir(entries);
  std::sort(out.begin(), out.end());
  return out;
}

std::unique_ptr<exec::Session> toy() {
  auto session = exec::Session::open(exec::write_toy_bundle("checkpoint.nbundle"), {.threads = 1});
  EXPECT_TRUE(session.ok()) << to_string(session.errors());
  float w[4] = {1, 2, 3, 4};
  EXPECT_TRUE((*session)->set_state(0, w).ok());
  return std::move(*session);
}

float first_of(exec::Session& session) {
  float w[4] = {};
  EXPECT_TRUE(session.get_state(0, w).ok());
  return w[0];
}

void set_first(exec::Session& session, float value) {
  float w[4] = {value, 2, 3, 4};
  EXPECT_TRUE(session.set_state(0, w).ok());
}

/// One process, and what it writes where.
struct Alone {
  LocalMeeting meeting;
  Party party{&meeting, 0, 1, 0};
  std::string dir = new_folder();
  std::unique_ptr<exec::Session> session = toy();
  std::unique_ptr<Writer> writer;
  std::vector<std::string> warnings;

  explicit Alone(Retention keep = {}) {
    auto made = Writer::create(*session, {dir, keep, "1 rank"}, party);
    EXPECT_TRUE(made.ok()) << to_string(made.errors());
    writer = std::move(*made);
  }
  Status save(int64_t step) {
    Status before = writer->save(step, {{"at", std::to_string(step)}});
    EXPECT_TRUE(before.ok()) << to_string(before.errors());
    return writer->finish();
  }
  std::string path(int64_t step, const std::string& name) const { return dir + "/" + name_of(step) + "/" + name; }
  Result<std::optional<Checkpoint>> find(const std::string& which) {
    LocalMeeting other;
    return checkpoint::find({dir, which, [&](const std::string& w) { warnings.push_back(w); }}, leaves_of(*session), {&other, 0, 1, 0});
  }
  int64_t latest() {
    auto found = find("latest");
    return found.ok() && *found ? (**found).manifest().step : -1;
  }
};

TEST(Folder, NamesAreThoseOfSteps) {
  EXPECT_EQ(name_of(100), "step-00000100");
  EXPECT_EQ(name_of(1234567890), "step-1234567890");
  for (int64_t step : {int64_t{0}, int64_t{7}, int64_t{99999999}, int64_t{100000000}, INT64_MAX}) EXPECT_EQ(step_of(name_of(step)), step);
  for (const char* other : {"x", "step-1", "step-00000100.tmp", "step-000000100", "step--0000100", 
                            "step-99999999999999999999", "step-0000010x"})
    EXPECT_EQ(step_of(other), std::nullopt) << other;
}

TEST(Folder, TheNewestAndMultiplesStay) {
  std::vector<int64_t> steps{10, 20, 30, 40, 50};
  EXPECT_EQ(superseded(steps, 50, {3, 0}), (std::vector<int64_t>{10, 20}));
  EXPECT_EQ(superseded(steps, 50, {1, 20}), (std::vector<int64_t>{10, 30}));
  EXPECT_EQ(superseded(steps, 50, {9, 0}), (std::vector<int64_t>{}));
  // What stands above was written by a run that went another way: it does not push out what was written now.
  EXPECT_EQ(superseded(steps, 30, {1, 0}), (std::vector<int64_t>{10, 20}));
}

TEST(Checkpoint, ComesBackAsItWas) {
  Alone a;
  ASSERT_TRUE(a.save(10).ok());
  set_first(*a.session, 5);
  ASSERT_TRUE(a.save(20).ok());
  EXPECT_EQ(names_in(a.dir), (std::vector<std::string>{"step-00000010", "step-00000020"}));
  EXPECT_EQ(names_in(a.dir + "/step-00000010"), (std::vector<std::string>{"manifest.json", "rank-0.safetensors"}));
  // Every program that reads safetensors reads it.
  auto arrays = format::read_safetensors(a.path(20, "rank-0.safetensors"));
  ASSERT_TRUE(arrays.ok()) << to_string(arrays.errors());
  EXPECT_EQ((*arrays)[0].first, "w");
  EXPECT_EQ((*arrays)[0].second.get(0), 5);
  auto second = toy(), first = toy();
  auto latest = a.find("latest"), ten = a.find("10"), folder = a.find(a.dir + "/step-00000010/");
  ASSERT_TRUE(latest.ok() && ten.ok() && folder.ok());
  EXPECT_EQ((**latest).manifest().metadata, (format::Metadata{{"at", "20"}}));
  EXPECT_EQ((**folder).manifest().step, 10);
  ASSERT_TRUE((**latest).load(*second).ok());
  ASSERT_TRUE((**ten).load(*first).ok());
  EXPECT_EQ(first_of(*second), 5);
  EXPECT_EQ(first_of(*first), 1);
  EXPECT_EQ(a.writer->cost().written, 2);
  EXPECT_GT(a.writer->cost().bytes, 16u);
}

TEST(Checkpoint, TheRunGoesOnWhileItIsWritten) {
  Alone a;
  ASSERT_TRUE(a.writer->save(1, {}).ok());
  set_first(*a.session, 9);  // after the copy
  ASSERT_TRUE(a.writer->finish().ok());
  auto found = a.find("latest");
  ASSERT_TRUE(found.ok());
  ASSERT_TRUE((**found).load(*a.session).ok());
  EXPECT_EQ(first_of(*a.session), 1);
}

TEST(Checkpoint, WhatIsThereIsReplacedAtOnce) {
  Alone a;
  ASSERT_TRUE(a.save(10).ok());
  set_first(*a.session, 7);
  ASSERT_TRUE(a.save(10).ok());
  EXPECT_EQ(names_in(a.dir), (std::vector<std::string>{"step-00000010"}));
  auto found = a.find("10");
  ASSERT_TRUE(found.ok());
  ASSERT_TRUE((**found).load(*a.session).ok());
  EXPECT_EQ(first_of(*a.session), 7);
}

TEST(Checkpoint, UnfinishedOnesGoAndOldOnesToo) {
  Alone a({2, 30});
  std::string left = a.dir + "/" + unfinished(5, 3);
  format::Bytes bytes = format::as_bytes("half");
  ASSERT_TRUE(write_part(left, "rank-0.safetensors", {&bytes, 1}).ok());
  ASSERT_EQ(::mkdir((a.dir + "/mine.tmp").c_str(), 0777), 0);
  LocalMeeting meeting;
  auto meanwhile = Writer::create(*a.session, {a.dir, {2, 30}, ""}, {&meeting, 0, 1, 0});
  ASSERT_FALSE(meanwhile.ok());
  EXPECT_EQ(meanwhile.errors()[0].message, "cannot write `" + a.dir + "`: another run writes its checkpoints there");
  EXPECT_EQ(names_in(a.dir).size(), 2u);  // those of the other run are not touched
  a.writer.reset();
  auto again = Writer::create(*a.session, {a.dir, {2, 30}, ""}, {&meeting, 0, 1, 0});
  ASSERT_TRUE(again.ok());
  a.writer = std::move(*again);
  EXPECT_EQ(names_in(a.dir), (std::vector<std::string>{"mine.tmp"}));
  for (int step = 10; step <= 60; step += 10) ASSERT_TRUE(a.save(step).ok());
  EXPECT_EQ(names_in(a.dir), (std::vector<std::string>{"mine.tmp", "step-00000030", "step-00000050", "step-00000060"}));
}

TEST(Checkpoint, DamagedOnesAreLeftOut) {
  Alone a;
  for (int step = 1; step <= 3; ++step) ASSERT_TRUE(a.save(step).ok());
  std::string file = a.path(3, "rank-0.safetensors"), bytes = read(file), manifest = read(a.path(3, "manifest.json"));
  auto expect_skipped = [&](const std::string& reason) {
    a.warnings.clear();
    EXPECT_EQ(a.latest(), 2);
    ASSERT_EQ(a.warnings.size(), 1u);
    EXPECT_HAS(a.warnings[0], "warning: checkpoint `" + a.dir + "/step-00000003` is left out: ");
    EXPECT_HAS(a.warnings[0], reason);
  };
  std::string flipped = bytes;
  flipped.back() = static_cast<char>(flipped.back() ^ 1);
  ASSERT_TRUE(format::write_file(file, flipped).ok());
  expect_skipped(file + ": damaged: its checksum is ");
  ASSERT_TRUE(format::write_file(file, bytes.substr(0, bytes.size() - 1)).ok());
  expect_skipped(file + ": damaged: it has ");
  ::unlink(file.c_str());
  expect_skipped("cannot open `" + file);
  ASSERT_TRUE(format::write_file(file, bytes).ok());
  EXPECT_EQ(a.latest(), 3);
  ::unlink(a.path(3, "manifest.json").c_str());
  expect_skipped("cannot open `" + a.path(3, "manifest.json"));
  ASSERT_TRUE(format::write_file(a.path(3, "manifest.json"), read(a.path(2, "manifest.json"))).ok());
  expect_skipped("damaged: it is that of step 2");
  ASSERT_TRUE(format::write_file(a.path(3, "manifest.json"), manifest).ok());
  EXPECT_EQ(a.latest(), 3);
  for (int step = 1; step <= 3; ++step) ::truncate(a.path(step, "manifest.json").c_str(), 10 * step);
  auto none = a.find("latest");
  ASSERT_FALSE(none.ok());
  EXPECT_EQ(none.errors()[0].code, Code::kNoCheckpoint);
  EXPECT_HAS(none.errors()[0].message, "step-00000001/manifest.json: damaged: not a JSON object");
  auto named = a.find("2");
  ASSERT_FALSE(named.ok());
  EXPECT_EQ(named.errors()[0].code, Code::kNoCheckpoint);
}

TEST(Checkpoint, OneThatIsNotThereIsNamed) {
  Alone a;
  auto nothing = a.find("latest");
  ASSERT_TRUE(nothing.ok());
  EXPECT_FALSE(*nothing);
  EXPECT_HAS(a.find("7").errors()[0].message, "has no checkpoint of step 7; it has none");
  ASSERT_TRUE(a.save(5).ok());
  EXPECT_HAS(a.find("7").errors()[0].message, "has no checkpoint of step 7; it has those of 5");
  EXPECT_EQ(a.find(a.dir + "/step-00000009").errors()[0].code, Code::kNoCheckpoint);
}

TEST(Checkpoint, AnotherModelIsRefusedByItsLeaf) {
  Alone a;
  ASSERT_TRUE(a.save(5).ok());
  auto refusal = [&](std::vector<Leaf> leaves) {
    LocalMeeting meeting;
    auto found = find({a.dir, "latest", nullptr}, leaves, {&meeting, 0, 1, 0});
    EXPECT_FALSE(found.ok());
    return found.ok() ? "" : found.errors()[0].str();
  };
  EXPECT_HAS(refusal({{"w", DType::kF32, {5}}}), "error[E0706]: " + a.dir + "/step-00000005: a checkpoint of "
             "another model: state `w` is f32[5]; the checkpoint has f32[4]");
  EXPECT_HAS(refusal({{"w", DType::kI32, {4}}}), "state `w` is i32[4]; the checkpoint has f32[4]");
  EXPECT_HAS(refusal({{"v", DType::kF32, {4}}}), "it has no state `v` (f32[4])");
  EXPECT_HAS(refusal({}), "the program has no state `w`");
}

// What is wrong, with a digest that is right.
std::string problem_with(Manifest manifest, const std::function<void(Json&)>& change) {
  Json json = Json::parse(manifest.text());
  json.erase("sha256");
  change(json);
  json["sha256"] = format::sha256_hex(format::as_bytes(json.dump(1)));
  auto parsed = Manifest::parse(json.dump(), "M");
  return parsed.ok() ? "fine" : code_name(parsed.errors()[0].code) + " " + parsed.errors()[0].message;
}

/// `w` is cut in two along its columns, `s` is in the second file.
Manifest two_files() {
  Manifest m{7, 1, "2 ranks", {{"a", "b"}}, {{"w", DType::kF32, {4, 6}}, {"s", DType::kI64, {}}, {"e", DType::kF32, {0, 3}}}, {}, {}};
  m.files = {{"rank-0.safetensors", 148, 1}, {"rank-1.safetensors", 156, 2}};
  m.placements = {{0, 0, {{0, 4, {}}, {0, 3, {{1, 2}}}}, {}}, {1, 1, {}, {}}};
  return m;
}

/// The same leaves as version 1 lists them.
void make_old(Json& j) {
  j["version"] = 1;
  j.erase("placements");
  for (int f : {0, 1}) j["files"][f]["size"] = 1000;
  j["pieces"] = Json::parse(R"([{"leaf": 0, "begin": [0, 0], "extent": [4, 2], "file": 0, "offset": 100},
    {"leaf": 0, "begin": [0, 2], "extent": [2, 4], "file": 0, "offset": 132},
    {"leaf": 0, "begin": [2, 2], "extent": [2, 4], "file": 1, "offset": 100},
    {"leaf": 1, "begin": [], "extent": [], "file": 1, "offset": 132}])");
}

TEST(Manifest, ComesBackAsItWas) {
  Manifest m = two_files();
  auto got = Manifest::parse(m.text(), "M");
  ASSERT_TRUE(got.ok()) << to_string(got.errors());
  EXPECT_EQ(got->text(), m.text());
  EXPECT_EQ(got->metadata, m.metadata);
  auto first = got->pieces_of(0), second = got->pieces_of(1);
  ASSERT_TRUE(first.ok() && second.ok());
  ASSERT_EQ(first->size(), 1u);
  EXPECT_EQ((*first)[0].offset, 100u);
  ASSERT_EQ(second->size(), 2u);
  EXPECT_EQ((*second)[0].begin, (std::vector<int64_t>{0, 3}));
  EXPECT_EQ((*second)[0].offset, 100u);
  EXPECT_EQ((*second)[1].offset, 148u);
}

TEST(Manifest, ThoseOfOlderVersionsAreRead) {
  Json json = Json::parse(two_files().text());
  json.erase("sha256");
  make_old(json);
  json["sha256"] = format::sha256_hex(format::as_bytes(json.dump(1)));
  auto got = Manifest::parse(json.dump(), "M");
  ASSERT_TRUE(got.ok()) << to_string(got.errors());
  auto first = got->pieces_of(0), second = got->pieces_of(1);
  ASSERT_TRUE(first.ok() && second.ok());
  ASSERT_EQ(first->size(), 2u);
  EXPECT_EQ((*first)[1].begin, (std::vector<int64_t>{0, 2}));
  EXPECT_EQ((*first)[1].offset, 132u);
  ASSERT_EQ(second->size(), 2u);
  EXPECT_EQ((*second)[0].offset, 100u);
  EXPECT_EQ((*second)[1].bytes, 8u);
}

TEST(Manifest, WhatDoesNotFitIsNamed) {
  Manifest m = two_files();
  EXPECT_EQ(problem_with(m, [](Json&) {}), "fine");
  EXPECT_EQ(problem_with(m, [](Json& j) { j["version"] = 4; }), "E0103 M: a checkpoint of format version 4; this nabla-run reads up to 3");
  EXPECT_EQ(problem_with(m, [](Json& j) { j["format"] = "x"; }), "E0105 M: not the manifest of a checkpoint");
  EXPECT_HAS(problem_with(m, [](Json& j) { j.erase("step"); }), "E0104 M: damaged: `step` is missing");
  EXPECT_HAS(problem_with(m, [](Json& j) { j["step"] = -1; }), "`step` is no whole number");
  EXPECT_HAS(problem_with(m, [](Json& j) { j["step"] = 1.5; }), "`step` is no whole number");
  EXPECT_HAS(problem_with(m, [](Json& j) { j["step"] = UINT64_MAX; }), "`step` is no whole number");
  EXPECT_HAS(problem_with(m, [](Json& j) { j["metadata"]["a"] = 3; }), "`metadata` is no map of texts");
  EXPECT_HAS(problem_with(m, [](Json& j) { j["leaves"][0]["dtype"] = "F33"; }), "leaf `w` has the unknown dtype `F33`");
  EXPECT_HAS(problem_with(m, [](Json& j) { j["leaves"][0]["shape"] = {1ull << 40, 1ull << 40}; }), "leaf `w` is too large");
  EXPECT_HAS(problem_with(m, [](Json& j) { j["leaves"][0]["shape"] = std::vector<int>(33, 1); }), "`shape` has 33 numbers");
  for (const char* name : {"../rank-0.safetensors", "/etc/passwd", "rank-0.safetensors/../x", "rank-.safetensors",
                           "rank-0.safetensors\n", "rank-0x.safetensors", ""})
    EXPECT_HAS(problem_with(m, [&](Json& j) { j["files"][0]["name"] = name; }), "is no name of a checkpoint's file");
  EXPECT_HAS(problem_with(m, [](Json& j) { j["files"][0]["crc32"] = 1ull << 32; }), "`crc32` is no whole number");
  auto with = [&](const char* field, Json value) {
    return problem_with(m, [&](Json& j) { j["placements"][0][field] = value; });
  };
  EXPECT_HAS(with("leaf", 3), "`leaf` is no whole number below 3");
  EXPECT_HAS(with("first", 2), "`first` is no whole number below 2");
  EXPECT_HAS(with("first", 1), "a placement of leaf `w` is not over 2 files");
  EXPECT_HAS(with("extent", {5, 2}), "the pieces of leaf `w` have not the 96 bytes");
  EXPECT_HAS(with("begin", {(1ull << 62) - 1, 0}), "a piece lies outside of leaf `w`, which is f32[4,6]");
  EXPECT_HAS(with("begin", Json::array({0})), "a piece lies outside");
  EXPECT_HAS(with("over", 3), "`over` is no list");
  EXPECT_HAS(with("over", Json::array({Json::array()})), "`over` has 1 lists for 2 dimensions");
  for (const char* digits : {"[[[1, 3]], []]", "[[[0, 2]], []]", "[[[1, 1]], []]", "[[[2, 2]], []]", "[[[1, 2]], [[1, 2]]]",
                             "[[[4294967295, 4294967295]], [[1, 2]]]"})
    EXPECT_HAS(with("over", Json::parse(digits)), "a placement of leaf `w` is not over 2 files") << digits;
  EXPECT_HAS(with("over", Json::parse("[[], [[1]]]")), "`over` has what is no [stride, count]");
  // The end of the second part is not a number.
  EXPECT_HAS(problem_with(m, [](Json& j) { j["placements"][0]["extent"] = {4, (1ull << 62) - 1}, j["placements"][0]["begin"] = {0, 3}; }),
             "a placement of leaf `w` is not over 2 files");
  EXPECT_HAS(with("copies", 3), "`copies` is no list of lists");
  EXPECT_HAS(with("copies", Json::parse("[[1]]")), "`copies` has what is no [stride, count]");
  EXPECT_HAS(with("copies", Json::parse("[[1, 2]]")), "a placement of leaf `w` is not over 2 files");  // a digit of a cut
  EXPECT_HAS(with("copies", Json::parse("[[2, 2]]")), "a placement of leaf `w` is not over 2 files");
  EXPECT_HAS(with("copy", 1), "`copy` is neither true nor false");
  EXPECT_HAS(with("copy", true), "the pieces of leaf `w` have not the 96 bytes");
  EXPECT_HAS(problem_with(m, [](Json& j) { j["placements"].erase(1); }), "the pieces of leaf `s` have not the 8 bytes");
  EXPECT_HAS(problem_with(m, [](Json& j) { j["placements"].push_back(j["placements"][0]); }), "leaf `w`");
  EXPECT_HAS(problem_with(m, [](Json& j) { j["placements"] = 3; }), "`placements` is no list");
  auto old = [&](const std::function<void(Json&)>& change) {
    return problem_with(m, [&](Json& j) { make_old(j), change(j["pieces"]); });
  };
  EXPECT_EQ(old([](Json&) {}), "fine");
  EXPECT_HAS(old([](Json& p) { p[0]["leaf"] = 3; }), "`leaf` is no whole number below 3");
  EXPECT_HAS(old([](Json& p) { p[0]["file"] = 2; }), "`file` is no whole number below 2");
  EXPECT_HAS(old([](Json& p) { p[0]["extent"] = {5, 2}; }), "a piece lies outside of leaf `w`, which is f32[4,6]");
  EXPECT_HAS(old([](Json& p) { p[0]["offset"] = 969; }), "a piece of `w` lies outside of rank-0.safetensors, which has 1000 bytes");
  EXPECT_HAS(old([](Json& p) { p[0]["offset"] = (1ull << 62) - 1; }), "lies outside of rank-0");
  EXPECT_HAS(old([](Json& p) { p.erase(3); }), "the pieces of leaf `s` have not the 8 bytes");
  EXPECT_HAS(old([](Json& p) { p[1] = p[2]; }), "pieces of leaf `w` overlap");
  EXPECT_HAS(old([](Json& p) { p.push_back(p[3]); }), "leaf `s`");
  EXPECT_HAS(old([](Json& p) { p = 3; }), "`pieces` is no list");
  std::string deep(100000, '[');
  EXPECT_FALSE(Manifest::parse(deep, "M").ok());
  EXPECT_FALSE(Manifest::parse(R"({"format":"nabla checkpoint","version":1,"x":)" + deep + std::string(100000, ']') + "}", "M").ok());
}

// A file whose size is changed in the manifest, together with the manifest's digest, has no room for what should be in it.
TEST(Manifest, AFileTooSmallForItsPiecesIsNoticed) {
  Manifest m = two_files();
  m.files[1].size = 55;
  EXPECT_TRUE(m.pieces_of(0).ok());
  auto refused = m.pieces_of(1);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.errors()[0].message, "rank-1.safetensors: damaged: its 55 bytes have no room for its pieces of the leaves");
}

TEST(Manifest, ItsSizeDoesNotGrowWithRanksTimesLeaves) {
  Manifest large = Crowd(256, 8, 900).manifest();
  std::string text = large.text();
  EXPECT_LT(text.size(), 5u << 20);
  auto got = Manifest::parse(text, "M");
  ASSERT_TRUE(got.ok()) << to_string(got.errors());
  EXPECT_GE(got->pieces_of(2047)->size(), 360u);  // of those that are sharded over both axes
}

// The placements that follow from the bundle's table are those that the ranks themselves report.
TEST(Manifest, ALayoutIsThatOfTheRanks) {
  auto bundle = format::Bundle::from_bytes(format::FileBytes::copy_of(format::as_bytes(*format::two_classes().bytes())), "test");
  ASSERT_TRUE(bundle.ok());
  Layout layout(*bundle);
  auto session = exec::Session::create(std::move(*bundle), {.threads = 1});
  ASSERT_TRUE(session.ok());
  using Key = std::tuple<int, uint32_t, std::vector<int64_t>, std::vector<int64_t>>;
  std::vector<Key> expected, got;
  for (const exec::StatePiece& p : (*session)->state_pieces()) expected.emplace_back(p.leaf, p.rank, p.begin, p.extent);
  for (const Placement& p : layout.written())
    for (uint32_t r = 0; r < 4; ++r)
      if (auto box = p.part_of(r)) got.emplace_back(p.leaf, r, box->begin, box->size);
  std::sort(expected.begin(), expected.end()), std::sort(got.begin(), got.end());
  EXPECT_EQ(got, expected);
}

// Whatever happens to its bytes, it is the same or it is refused.
TEST(Manifest, DamageIsNoticed) {
  std::string text = two_files().text();
  std::mt19937 random(7);
  int refused = 0;
  for (int i = 0; i < 20000; ++i) {
    std::string broken = text;
    switch (i % 4) {
      case 0: broken[random() % broken.size()] ^= static_cast<char>(1 << random() % 8); break;
      case 1: broken.resize(random() % broken.size()); break;
      case 2: broken.erase(random() % broken.size(), 1 + random() % 40); break;
      default: broken.insert(random() % broken.size(), broken.substr(random() % broken.size(), random() % 40));
    }
    auto parsed = Manifest::parse(broken, "M");
    refused += !parsed.ok();
    if (!parsed.ok()) continue;
    EXPECT_EQ(parsed->text(), text);
  }
  EXPECT_GT(refused, 15000);
}

TEST(Checkpoint, AFullDiskLeavesTheLastGoodOne) {
  Alone a;
  ASSERT_TRUE(a.save(1).ok());
  ::signal(SIGXFSZ, SIG_IGN);
  rlimit before{}, small{50, RLIM_INFINITY};
  ::getrlimit(RLIMIT_FSIZE, &before);
  small.rlim_max = before.rlim_max;
  ::setrlimit(RLIMIT_FSIZE, &small);
  Status full = a.save(2);
  ::setrlimit(RLIMIT_FSIZE, &before);
  ASSERT_FALSE(full.ok());
  EXPECT_EQ(full.errors()[0].code, Code::kWriteFailed);
  EXPECT_HAS(full.errors()[0].message, "cannot write `" + a.dir + "/step-00000002.tmp/rank-0.safetensors`: File too large");
  EXPECT_EQ(names_in(a.dir), (std::vector<std::string>{"step-00000001"}));
  EXPECT_EQ(a.latest(), 1);
  EXPECT_TRUE(a.save(3).ok());
  EXPECT_EQ(a.writer->cost().failed, 1);
}

TEST(Checkpoint, AFolderThatCannotBeMadeIsRefusedAtOnce) {
  auto session = toy();
  std::string file = new_folder();
  ASSERT_TRUE(format::write_file(file, "").ok());
  for (const std::string& dir : {file, file + "/below", std::string("/proc/none")}) {
    LocalMeeting meeting;
    auto made = Writer::create(*session, {dir, {}, ""}, {&meeting, 0, 1, 0});
    ASSERT_FALSE(made.ok()) << dir;
    EXPECT_EQ(made.errors()[0].code, Code::kWriteFailed);
    EXPECT_HAS(made.errors()[0].message, "cannot write `" + dir + "`");
  }
}

// ---- Several processes

std::unique_ptr<exec::Session> two_stages() {
  auto bundle = format::Bundle::from_bytes(format::FileBytes::copy_of(format::as_bytes(*format::two_classes().bytes())), "test");
  auto session = exec::Session::create(std::move(*bundle), {.threads = 1});
  EXPECT_TRUE(session.ok());
  return std::move(*session);
}

/// Runs `f(process)` on threads; statuses by process.
std::vector<Status> together(uint32_t processes, const std::function<Status(uint32_t)>& f) {
  std::vector<Status> out(processes, Ok{});
  std::vector<std::thread> threads;
  for (uint32_t p = 0; p < processes; ++p) threads.emplace_back([&, p] { out[p] = f(p); });
  for (std::thread& t : threads) t.join();
  return out;
}

TEST(Processes, WriteTogetherOrNotAtAll) {
  std::string dir = new_folder();
  LocalMeeting meeting;
  std::vector<std::unique_ptr<exec::Session>> sessions;
  for (int p = 0; p < 3; ++p) sessions.push_back(toy());
  // Each says that it has all of `w`: the manifest does not add up, and a reader says so.
  std::vector<Status> ended = together(3, [&](uint32_t p) -> Status {
    auto writer = NABLA_TRY(Writer::create(*sessions[p], {dir, {}, "3 ranks"}, {&meeting, p, 3, 0}));
    (void)NABLA_TRY(writer->save(4, {}));
    return writer->finish();
  });
  for (const Status& s : ended) EXPECT_TRUE(s.ok()) << to_string(s.errors());
  EXPECT_EQ(names_in(dir + "/step-00000004").size(), 4u);
  auto opened = Checkpoint::open(dir + "/step-00000004");
  ASSERT_FALSE(opened.ok());
  EXPECT_HAS(opened.errors()[0].message, "leaf `w`");
}

TEST(Processes, AnErrorOfOneIsThatOfAll) {
  std::string dir = new_folder();
  LocalMeeting meeting;
  std::vector<std::unique_ptr<exec::Session>> sessions;
  for (int p = 0; p < 3; ++p) sessions.push_back(toy());
  std::vector<Status> ended = together(3, [&](uint32_t p) -> Status {
    // Process 1 cannot write its file: a folder stands there.
    auto writer = NABLA_TRY(Writer::create(*sessions[p], {dir, {}, "3 ranks"}, {&meeting, p, 3, 2}));
    std::string at = dir + "/" + unfinished(4, 2);
    if (p == 1) ::mkdir(at.c_str(), 0777), ::mkdir((at + "/rank-1.safetensors").c_str(), 0777);
    (void)NABLA_TRY(writer->save(4, {}));
    return writer->finish();
  });
  for (const Status& s : ended) {
    ASSERT_FALSE(s.ok());
    EXPECT_HAS(s.errors()[0].message, "rank 1: cannot write `" + dir + "/step-00000004.start-2.tmp/rank-1.safetensors`: Is a directory");
  }
  EXPECT_EQ(steps_in(dir)->size(), 0u);
}

TEST(Processes, TakeTheSameOneOfWhichEachChecksItsShare) {
  auto session = two_stages();
  std::string dir = new_folder();
  Literal w(DType::kF32, {4}), m(DType::kF32, {4, 4}), n(DType::kF32, {});
  for (int i = 0; i < 16; ++i) m.set(i, i), w.set(i % 4, i % 4 + 100);
  const Literal* leaves[] = {&w, &m, &n};
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(session->set_state(i, leaves[i]->data()).ok());
  LocalMeeting meeting;
  auto writer = Writer::create(*session, {dir, {}, "4 ranks"}, {&meeting, 0, 1, 0});
  ASSERT_TRUE(writer.ok());
  for (int step : {1, 2}) ASSERT_TRUE((*writer)->save(step, {}).ok());
  ASSERT_TRUE((*writer)->finish().ok());
  // `m` is cut over two ranks; the copies of `w` are there once.
  auto opened = Checkpoint::open(dir + "/step-00000002");
  ASSERT_TRUE(opened.ok()) << to_string(opened.errors());
  EXPECT_EQ(opened->manifest().placements.size(), 4u);
  std::string file = dir + "/step-00000002/rank-0.safetensors", bytes = read(file);
  bytes[bytes.size() - 3] ^= 1;
  ASSERT_TRUE(format::write_file(file, bytes).ok());
  std::atomic<int> warnings{0};
  LocalMeeting other;
  std::vector<Leaf> known = leaves_of(*session);
  std::vector<Status> ended = together(3, [&](uint32_t p) -> Status {
    auto found = NABLA_TRY(find({dir, "latest", [&](const std::string&) { ++warnings; }}, known, {&other, p, 3, 0}));
    EXPECT_EQ(found->manifest().step, 1);
    return Ok{};
  });
  for (const Status& s : ended) EXPECT_TRUE(s.ok()) << to_string(s.errors());
  EXPECT_EQ(warnings, 1);
  auto again = two_stages();
  auto one = Checkpoint::open(dir + "/step-00000001");
  ASSERT_TRUE(one.ok());
  ASSERT_TRUE(one->load(*again).ok());
  Literal got(DType::kF32, {4, 4});
  ASSERT_TRUE(again->get_state(1, got.mutable_data()).ok());
  EXPECT_EQ(got, m);
}

TEST(Processes, ErrorsComeThrough) {
  LocalMeeting meeting;
  Diagnostic why = error(Code::kWriteFailed, "two\nlines");
  why.help = "free space";
  EXPECT_EQ(diagnostic_of(text_of(why)).str(), why.str());
  for (const char* odd : {"", "803", "803\nx", "9999\n\nx", "x\n\n"}) EXPECT_EQ(diagnostic_of(odd).code, Code::kCorrupt) << odd;
  EXPECT_EQ(meeting.get("none", 0.01).errors()[0].code, Code::kTooLate);
}

}  // namespace
}  // namespace nabla::checkpoint
