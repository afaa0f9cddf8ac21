// Drives the bundle fuzzer without libFuzzer: over the kept corpus, and over a fixed number of seeded mutations of it.
#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "runtime/format/bundle_reader.h"
#include "runtime/format/members.h"
#include "tests/fuzz/mutate.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace {

using nabla::fuzz::Input;
using nabla::fuzz::mutate;

std::vector<Input> corpus() {
  std::vector<Input> inputs;
  for (const auto& entry : std::filesystem::directory_iterator("tests/fuzz/bundle_corpus")) {
    std::ifstream file(entry.path(), std::ios::binary);
    inputs.emplace_back(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
  }
  return inputs;
}

TEST(BundleFuzz, TheCorpusIsThereAndCrashesNothing) {
  std::vector<Input> inputs = corpus();
  EXPECT_GE(inputs.size(), 5u);
  for (const Input& input : inputs) EXPECT_EQ(LLVMFuzzerTestOneInput(input.data(), input.size()), 0);
}

// One that is refused at its first bytes seeds nothing.
TEST(BundleFuzz, TheSeedsAreOfThePresentFormat) {
  namespace format = nabla::format;
  int programs = 0, bundles = 0;
  for (const auto& entry : std::filesystem::directory_iterator("tests/fuzz/bundle_corpus")) {
    SCOPED_TRACE("write " + entry.path().string() + " again: bazel run //tests/fuzz:make_bundles");
    if (entry.path().extension() == ".nbundle") {
      ++bundles;
      auto bundle = format::Bundle::open(entry.path());
      EXPECT_TRUE(bundle.ok()) << to_string(bundle.errors());
    } else if (entry.path().extension() == ".fb") {
      ++programs;
      auto file = format::FileBytes::map(entry.path()).value();
      std::string errors;
      for (int64_t constants : {-1, 64}) {
        nabla::Status status = format::check_program_bytes(
            format::FileBytes::copy_of(file->bytes())->bytes(), "seed", [&](std::string_view name) -> int64_t {
              return name.starts_with("kernels/") ? 1 : name == "constants.bin" ? constants : -1;
            });
        errors = status.ok() ? "" : to_string(status.errors());
        if (errors.empty()) break;
      }
      EXPECT_EQ(errors, "");
    }
  }
  EXPECT_GE(bundles, 4);
  EXPECT_GE(programs, 8);
}

// What a damaged bundle for several ranks says, by the member that stands in the place of its own.
TEST(BundleFuzz, SeedsThatAreRefusedSayWhy) {
  namespace format = nabla::format;
  const std::pair<const char*, const char*> seeds[] = {
      {"recursion.front", "entry `step`: instruction 5 `call`: instruction 0 `call`: block 0 of 0 that it may use"},
      {"never_awaited.front", "entry `step`: handle 7 is never awaited"},
      {"no_such_group.front", "entry `step`: instruction 2 `all_reduce`: group 1 of 1"},
      {"two_classes_of_a_rank.table", "rank 0 is of the classes `front` and `back`"},
      {"no_such_class.table", "placement 0 is number 0 of class 5, which is not there or has a place"},
      {"one_end.table", "channel 0 of class `front` and channel 0 of class `back` are not the two ends of one"}};
  auto bundle = format::Bundle::open("tests/fuzz/bundle_corpus/ranks.nbundle").value();
  std::vector<std::string> names;
  for (const format::ZipMember& m : bundle.members()) names.push_back(m.name);
  for (const auto& [seed, says] : seeds) {
    auto file = format::FileBytes::map(std::string("tests/fuzz/bundle_corpus/") + seed).value();
    std::string_view exchanged = std::string_view(seed).ends_with(".table")
                                     ? format::kRanksMember
                                     : std::string_view("class/front/programs/main.fb");
    auto checked = format::check_programs(
        names,
        [&](std::string_view name) -> std::optional<format::Bytes> {
          format::Bytes member = name == exchanged ? file->bytes() : bundle.member(name);
          return member.empty() ? std::nullopt : std::optional<format::Bytes>(member);
        },
        "x");
    ASSERT_FALSE(checked.ok()) << seed;
    EXPECT_EQ(checked.errors()[0].code, nabla::Code::kCorrupt) << seed;
    EXPECT_NE(checked.errors()[0].message.find(says), std::string::npos) << seed << ": " << checked.errors()[0].message;
  }
}

// A field that is gone, or of another kind, is one changed byte of a table of offsets: random mutations rarely meet it.
TEST(BundleFuzz, NoChangedByteOfAProgramCrashesTheCheck) {
  namespace format = nabla::format;
  int accepted = 0, refused = 0;
  for (const auto& entry : std::filesystem::directory_iterator("tests/fuzz/bundle_corpus")) {
    if (entry.path().extension() != ".fb") continue;
    std::ifstream file(entry.path(), std::ios::binary);
    Input bytes{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
    for (uint8_t& byte : bytes) {
      const uint8_t kept = byte;
      for (int value : {0, kept ^ 1, kept + 1, kept + 4}) {
        byte = static_cast<uint8_t>(value);
        nabla::Status status = format::check_program_bytes(
            format::FileBytes::copy_of(bytes)->bytes(), "changed", [&](std::string_view name) -> int64_t {
              return name.starts_with("kernels/") ? 1 : name == "constants.bin" ? 64 : -1;
            });
        ++(status.ok() ? accepted : refused);
      }
      byte = kept;
    }
  }
  EXPECT_GT(refused, 10000);
  EXPECT_GT(accepted, 1000);
}

TEST(BundleFuzz, NoChangedByteOfABundleForSeveralRanksCrashesTheCheck) {
  for (const char* name : {"ranks.table", "ranks.front"}) {
    std::ifstream file(std::string("tests/fuzz/bundle_corpus/") + name, std::ios::binary);
    Input bytes{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
    ASSERT_GT(bytes.size(), 500u) << name;
    for (uint8_t& byte : bytes) {
      const uint8_t kept = byte;
      for (int value : {0, kept ^ 1, kept + 1, kept + 4, 255}) {
        byte = static_cast<uint8_t>(value);
        ASSERT_EQ(LLVMFuzzerTestOneInput(bytes.data(), bytes.size()), 0);
      }
      byte = kept;
    }
  }
}

TEST(BundleFuzz, ThousandsOfMutationsCrashNothing) {
  uint64_t state = 1;
  for (const Input& input : corpus())
    for (int i = 0; i < 1500; ++i) {
      Input mutated = mutate(input, state);
      ASSERT_EQ(LLVMFuzzerTestOneInput(mutated.data(), mutated.size()), 0);
    }
}

}  // namespace
