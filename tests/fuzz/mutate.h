// What tests that have no libFuzzer do with inputs.
#pragma once

#include <cstdint>
#include <vector>

namespace nabla::fuzz {

using Input = std::vector<uint8_t>;

/// Overwrites, drops or repeats a few bytes.
inline Input mutate(Input input, uint64_t& state) {
  auto random = [&](uint64_t range) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return range == 0 ? 0 : (state >> 33) % range;
  };
  for (uint64_t n = random(4) + 1; n > 0 && !input.empty(); --n) {
    uint64_t at = random(input.size());
    switch (random(4)) {
      case 0:
        input[at] ^= static_cast<uint8_t>(1u << random(8));
        break;
      case 1:
        input[at] = random(2) == 0 ? 0xFF : 0;
        break;
      case 2:
        input.resize(at);
        break;
      default:
        input.insert(input.begin() + static_cast<int64_t>(at), input.begin(), input.begin() + random(at + 1));
    }
  }
  return input;
}

}  // namespace nabla::fuzz
