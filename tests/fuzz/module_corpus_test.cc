// Drives a fuzzer of the module forms without libFuzzer: over its kept corpus, and over a fixed number of seeded
// mutations of each input. NABLA_CORPUS is the corpus' folder.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace {

std::vector<std::string> corpus() {
  std::vector<std::filesystem::path> paths;
  for (const auto& entry : std::filesystem::directory_iterator(NABLA_CORPUS)) paths.push_back(entry.path());
  std::sort(paths.begin(), paths.end());
  std::vector<std::string> inputs;
  for (const auto& path : paths) {
    std::ifstream file(path, std::ios::binary);
    inputs.emplace_back(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
  }
  return inputs;
}

int run(const std::string& input) {
  return LLVMFuzzerTestOneInput(reinterpret_cast<const uint8_t*>(input.data()), input.size());
}

class Random {
 public:
  size_t below(size_t range) {
    state_ = state_ * 6364136223846793005u + 1442695040888963407u;
    return range == 0 ? 0 : static_cast<size_t>(state_ >> 33) % range;
  }

 private:
  uint64_t state_ = 1;
};

/// Small damage: bits, numbers, pieces dropped, repeated or taken from another input.
std::string mutate(std::string input, const std::string& other, Random& random) {
  constexpr const char* kPieces[] = {"0",     "-1", "9223372036854775807", "4294967296", "nan", "[", "{", "\"", "%0",
                                     "batch", ""};
  for (size_t n = random.below(3) + 1; n > 0 && !input.empty(); --n) {
    size_t at = random.below(input.size()), length = random.below(16);
    switch (random.below(6)) {
      case 0:
        input[at] = static_cast<char>(input[at] ^ (1 << random.below(8)));
        break;
      case 1:
        input[at] = static_cast<char>(random.below(256));
        break;
      case 2:
        input.erase(at, length);
        break;
      case 3:
        input.insert(at, input.substr(random.below(input.size()), length));
        break;
      case 4:
        input.replace(at, random.below(4), kPieces[random.below(std::size(kPieces))]);
        break;
      default:
        input.insert(at, other.substr(random.below(other.size()), 4 * length));
        break;
    }
  }
  return input;
}

TEST(ModuleFuzz, TheCorpusIsThereAndCrashesNothing) {
  std::vector<std::string> inputs = corpus();
  EXPECT_GE(inputs.size(), 20u);
  for (const std::string& input : inputs) EXPECT_EQ(run(input), 0);
}

TEST(ModuleFuzz, MutationsCrashNothing) {
  Random random;
  std::vector<std::string> inputs = corpus();
  for (const std::string& input : inputs)
    for (int i = 0; i < 300; ++i) {
      std::string mutated = mutate(input, inputs[random.below(inputs.size())], random);
      ASSERT_EQ(run(mutated), 0);
    }
}

}  // namespace
