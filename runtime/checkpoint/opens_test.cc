// How many files a rank opens when it resumes, and how much it writes, on meshes of up to 64 ranks.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <random>
#include <thread>

#include "runtime/checkpoint/copies.h"
#include "runtime/checkpoint/crowd.h"
#include "runtime/checkpoint/reader.h"

namespace nabla::checkpoint {
namespace {

std::string folder_of(const std::string& name) { return testing::TempDir() + "opens-" + std::to_string(::getpid()) + "-" + name; }

std::string str(const Crowd::Job& job) {
  return fmt::format("pp={} dp={} tp={} zero={}{}", job.stages, job.dp, job.tp, job.zero, job.stages_last ? ", stages last" : "");
}

/// All jobs on meshes of up to `most` ranks.
std::vector<Crowd::Job> jobs_up_to(uint32_t most) {
  std::vector<Crowd::Job> out;
  for (uint32_t stages : {1, 2, 3, 4, 8})
    for (uint32_t dp = 1; dp * stages <= most; ++dp)
      for (uint32_t tp : {1, 2, 3, 4, 8})
        for (int zero : {0, 1, 3})
          for (bool last : {false, true})
            if (stages * dp * tp <= most && stages * dp * tp > 1 && (stages > 1 || !last)) out.push_back({stages, dp, tp, zero, last});
  return out;
}

/// The elements of a box within a leaf of this shape, in bytes of f32.
uint64_t bytes_within(const exec::Box& box, const std::vector<int64_t>& shape) {
  uint64_t out = sizeof(float);
  for (size_t d = 0; d < shape.size(); ++d)
    out *= static_cast<uint64_t>(std::clamp<int64_t>(shape[d] - box.begin[d], 0, box.size[d]));
  return out;
}

/// The number of bytes that a rank writes by these placements.
uint64_t bytes_of_file(uint32_t rank, const std::vector<Leaf>& leaves, const std::vector<Placement>& placements) {
  uint64_t out = 0;
  for (const Piece& p : pieces_in(rank, leaves, placements)) out += p.bytes;
  return out;
}

/// Every element that a rank needs is in exactly one of the pieces that it reads.
bool finds_everything(const std::vector<exec::Box>& pieces, const exec::Box& need, const std::vector<int64_t>& shape) {
  uint64_t found = 0;
  for (const exec::Box& piece : pieces) {
    exec::Box both = need;
    for (size_t d = 0; d < shape.size(); ++d) {
      both.begin[d] = std::max(need.begin[d], piece.begin[d]);
      both.size[d] = std::max<int64_t>(0, std::min(need.begin[d] + need.size[d], piece.begin[d] + piece.size[d]) - both.begin[d]);
    }
    found += bytes_within(both, shape);
  }
  return found == bytes_within(need, shape);
}

/// What is wrong with the files of a rank: with its own file, which it checks, they are too many, or they lack something.
std::string problem_of(uint32_t rank, const std::vector<Leaf>& leaves, const Layout& layout, const Manifest& manifest) {
  std::set<uint32_t> files = files_with(manifest, leaves, layout, rank);
  files.insert(rank);
  if (files.size() > kMostFiles) return fmt::format("rank {} opens {} files", rank, files.size());
  std::map<int, std::set<std::pair<std::vector<int64_t>, std::vector<int64_t>>>> pieces;
  for (uint32_t file : files)
    for (const Piece& p : pieces_in(file, leaves, manifest.placements)) pieces[p.leaf].insert({p.begin, p.extent});
  std::vector<std::optional<exec::Box>> needed = layout.needed_by(rank);
  uint64_t has = 0;
  for (size_t leaf = 0; leaf < leaves.size(); ++leaf) {
    if (!needed[leaf]) continue;
    std::vector<exec::Box> boxes;
    for (const auto& [begin, size] : pieces[static_cast<int>(leaf)]) boxes.push_back({begin, size});
    if (!finds_everything(boxes, *needed[leaf], leaves[leaf].shape))
      return fmt::format("rank {} lacks some of {}", rank, leaves[leaf].name);
    has += bytes_within(*needed[leaf], leaves[leaf].shape);
  }
  if (bytes_of_file(rank, leaves, manifest.placements) > has) return fmt::format("rank {} writes more than it has", rank);
  return "";
}

TEST(Opens, ARankOfAnyMeshOpensThreeFilesAndTheManifest) {
  size_t tried = 0;
  for (const Crowd::Job& job : jobs_up_to(64)) {
    Crowd crowd(job);
    Manifest manifest = crowd.manifest();
    Result<Manifest> parsed = Manifest::parse(manifest.text(), "M");
    ASSERT_TRUE(parsed.ok()) << str(job) << to_string(parsed.errors());
    EXPECT_EQ(parsed->text(), manifest.text());
    for (uint32_t rank = 0; rank < crowd.ranks(); ++rank) ASSERT_EQ(problem_of(rank, crowd.leaves, crowd.layout, *parsed), "") << str(job);
    ++tried;
  }
  EXPECT_GT(tried, 500u);
}

/// The parts as versions up to 2 have them: each is written once, by the lowest rank that has it.
std::vector<Placement> without_copies(std::vector<Placement> placements) {
  std::erase_if(placements, [](const Placement& p) { return p.copy; });
  for (Placement& p : placements) p.copies.clear();
  return placements;
}

// The slowest writer decides how long a checkpoint takes. Copies go to ranks that write less than that.
TEST(Opens, CopiesMakeNoWriterSlowerThanTheSlowest) {
  for (const Crowd::Job& job : jobs_up_to(64)) {
    Crowd crowd(job);
    const std::vector<Placement> written = crowd.layout.written(), once = without_copies(written);
    uint64_t most = 0, most_once = 0, all = 0, all_once = 0;
    for (uint32_t rank = 0; rank < crowd.ranks(); ++rank) {
      uint64_t bytes = bytes_of_file(rank, crowd.leaves, written), bytes_once = bytes_of_file(rank, crowd.leaves, once);
      most = std::max(most, bytes), most_once = std::max(most_once, bytes_once), all += bytes, all_once += bytes_once;
    }
    // The last stage writes the embedding again, which is as large as a half of a stage.
    double stage = static_cast<double>(all_once) / (job.stages + 0.5);
    EXPECT_LE(most, most_once) << str(job);
    EXPECT_LE(static_cast<double>(all - all_once), 0.6 * stage + 0.1 * static_cast<double>(all_once)) << str(job);
    const bool few_kinds = job.stages == 1 && (job.zero == 0 || job.dp == 1 || job.tp == 1);
    EXPECT_TRUE(!few_kinds || all == all_once) << str(job);
  }
}

/// A program with leaves of up to three dimensions that are cut by any digits, in one or two stages.
struct Random {
  std::vector<Leaf> leaves;
  Layout layout;
  uint32_t ranks = 1;

  explicit Random(std::mt19937& random) {
    std::vector<uint32_t> sizes;
    for (uint32_t size; sizes.size() < 4 && ranks * (size = 2 + random() % 3) <= 64; ranks *= size) sizes.push_back(size);
    Digits digits;
    for (uint32_t stride = 1; uint32_t size : sizes) digits.push_back({stride, size}), stride *= size;
    std::vector<uint32_t> firsts{0};
    if (random() % 2 == 0) {  // an axis whose every place has a class of its own
      size_t axis = random() % digits.size();
      for (uint32_t i = 1; i < digits[axis].count; ++i) firsts.push_back(i * digits[axis].stride);
      digits.erase(digits.begin() + static_cast<std::ptrdiff_t>(axis));
    }
    std::vector<Layout::Share> shares;
    const int count = static_cast<int>(2 + random() % 12);
    for (int leaf = 0; leaf < count; ++leaf) {
      std::vector<Cut> cuts(1 + random() % 3);
      for (const Digit& d : digits)
        if (random() % 2 == 0) cuts[random() % cuts.size()].digits.push_back(d);
      std::vector<int64_t> shape;
      uint64_t bytes = sizeof(float);
      for (Cut& c : cuts) {
        int64_t parts = 1;
        for (const Digit& d : c.digits) parts *= d.count;
        c.extent = 1 + static_cast<int64_t>(random() % 3), bytes *= static_cast<uint64_t>(c.extent);
        shape.push_back(parts * c.extent - (c.extent > 1 ? 1 : 0));
      }
      leaves.push_back({"leaf" + std::to_string(leaf), DType::kF32, shape});
      const bool shared = random() % 3 == 0;
      for (size_t i = 0; i < firsts.size(); ++i) {
        if (!shared && i != static_cast<size_t>(leaf) % firsts.size()) continue;
        Layout::Share& share = shares.emplace_back(Layout::Share{{leaf, firsts[i], cuts, std::nullopt}, digits});
        share.copy = shared && i > 0, share.bytes = bytes;
      }
    }
    layout = Layout(leaves.size(), std::move(shares));
  }
};

TEST(Opens, SoDoesARankOfAnyProgram) {
  std::mt19937 random(11);
  size_t with_copies = 0;
  for (int i = 0; i < 300; ++i) {
    Random program(random);
    Manifest manifest{1, 0, "", {}, program.leaves, {}, program.layout.written()};
    for (uint32_t r = 0; r < program.ranks; ++r) manifest.files.push_back({fmt::format("rank-{}.safetensors", r), 1 << 30, 0});
    Result<Manifest> parsed = Manifest::parse(manifest.text(), "M");
    ASSERT_TRUE(parsed.ok()) << i << to_string(parsed.errors());
    for (uint32_t rank = 0; rank < program.ranks; ++rank)
      ASSERT_EQ(problem_of(rank, program.leaves, program.layout, *parsed), "") << "program " << i;
    with_copies += manifest.text().find("\"copies\"") != std::string::npos;
  }
  EXPECT_GT(with_copies, 50u);
  EXPECT_LT(with_copies, 250u);
}

// Threads open the files: the manifest, their own to check it, and what they need.
TEST(Opens, ResumingOpensFourFilesAtMost) {
  struct Row {
    Crowd::Job job;
    int opens;
  };
  for (const auto& [job, opens] : {Row{{1, 8, 1, 0}, 3}, Row{{1, 8, 1, 1}, 3}, Row{{1, 8, 1, 3}, 3}, Row{{1, 1, 8, 0}, 3},
                                   Row{{1, 4, 4, 0}, 4}, Row{{1, 4, 4, 1}, 4}, Row{{1, 4, 4, 3}, 4}, Row{{2, 4, 2, 1}, 4},
                                   Row{{4, 2, 2, 1, true}, 4}, Row{{2, 2, 1, 0}, 4}}) {
    Crowd crowd(job);
    std::string dir = folder_of("job-" + str(job));
    ASSERT_TRUE(crowd.write(dir).ok()) << str(job);
    Result<int> opened = resume(crowd, dir);
    ASSERT_TRUE(opened.ok()) << str(job) << to_string(opened.errors());
    EXPECT_EQ(*opened, opens) << str(job);
  }
}

TEST(Opens, CheckpointsWithoutCopiesAreRead) {
  Crowd crowd({1, 4, 4, 1});
  Manifest old = crowd.manifest_of(without_copies(crowd.layout.written()));
  EXPECT_NE(crowd.manifest().text().find("\"version\": 3"), std::string::npos);
  EXPECT_NE(old.text().find("\"version\": 2"), std::string::npos);
  std::string dir = folder_of("old");
  ASSERT_TRUE(crowd.write(dir, old).ok());
  Result<int> opened = resume(crowd, dir);
  ASSERT_TRUE(opened.ok()) << to_string(opened.errors());
  EXPECT_EQ(*opened, 5);
}

// Copies in a checkpoint of another mesh are copies there too.
TEST(Opens, OtherMeshesReadTheSameValues) {
  std::string dir = folder_of("meshes");
  ASSERT_TRUE(Crowd(8, 4, 15).write(dir).ok());
  Result<int> same = resume(Crowd(8, 4, 15), dir);
  ASSERT_TRUE(same.ok()) << to_string(same.errors());
  EXPECT_EQ(*same, 4);
  for (auto [dp, tp] : {std::pair{4u, 2u}, {2u, 1u}, {1u, 3u}, {16u, 4u}}) {
    Crowd other(8, 4, 15);  // the same leaves on another mesh, all in rows
    other.dp = dp, other.tp = tp;
    std::vector<Layout::Share> shares;
    for (int i = 0; i < 15; ++i) {
      int64_t rows = other.leaves[static_cast<size_t>(i)].shape[0], extent = (rows + other.ranks() - 1) / other.ranks();
      Digits all = other.ranks() < 2 ? Digits() : Digits{{1, other.ranks()}};
      shares.push_back({{i, 0, {{0, extent, all}, {0, 8, {}}}, std::nullopt}, all, false});
    }
    other.layout = Layout(other.leaves.size(), std::move(shares));
    Result<int> opened = resume(other, dir);
    EXPECT_TRUE(opened.ok()) << dp << " " << tp << " " << to_string(opened.errors());
  }
}

/// Counts the questions of every process.
class CountingMeeting final : public Meeting {
 public:
  CountingMeeting(Meeting& to, int& gets) : to_(to), gets_(gets) {}
  Status put(const std::string& key, const std::string& value) override { return to_.put(key, value); }
  Result<std::string> get(const std::string& key, double timeout_s) override { return ++gets_, to_.get(key, timeout_s); }

 private:
  Meeting& to_;
  int& gets_;
};

// Rank 0 asks once for the result of every rank, and all others ask it: one candidate costs 3 N questions of N ranks, not N squared.
TEST(Opens, RanksAskForOneVerdict) {
  constexpr uint32_t kRanks = 64;
  Crowd crowd({1, kRanks, 1, 3});
  std::string dir = folder_of("verdict");
  ASSERT_TRUE(crowd.write(dir).ok());
  for (int damaged : {-1, 5}) {
    if (damaged >= 0) {
      ASSERT_EQ(::truncate((dir + "/step-00000001/rank-5.safetensors").c_str(), 7), 0);
    }
    LocalMeeting meeting;
    std::vector<int> gets(kRanks), found(kRanks), refused(kRanks);
    std::vector<std::thread> threads;
    for (uint32_t rank = 0; rank < kRanks; ++rank)
      threads.emplace_back([&, rank] {
        CountingMeeting counting(meeting, gets[rank]);
        auto checkpoint = find({dir, "latest", nullptr}, crowd.leaves, {&counting, rank, kRanks, 0});
        found[rank] = checkpoint.ok() && *checkpoint;
        refused[rank] = !checkpoint.ok() && checkpoint.errors()[0].message.find("rank-5.safetensors: damaged") != std::string::npos;
      });
    for (std::thread& t : threads) t.join();
    const int rounds = damaged < 0 ? 1 : 2;  // the second one reports that no other checkpoint is left
    EXPECT_EQ(std::count(found.begin(), found.end(), 1), damaged < 0 ? kRanks : 0);
    EXPECT_EQ(std::count(refused.begin(), refused.end(), 1), damaged < 0 ? 0 : kRanks);
    EXPECT_LE(gets[0], static_cast<int>(kRanks) + 1);
    for (uint32_t rank = 1; rank < kRanks; ++rank) EXPECT_LE(gets[rank], 2 * rounds) << rank;
  }
}

}  // namespace
}  // namespace nabla::checkpoint
