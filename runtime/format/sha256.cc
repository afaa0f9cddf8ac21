#include "runtime/format/sha256.h"

#include <array>
#include <bit>
#include <cmath>
#include <cstring>

namespace nabla::format {
namespace {

// The standard defines its constants as the first 32 bits of the fractional parts of square and cube roots of the
// first primes. They are computed with integers here rather than typed in.
struct Constants {
  std::array<uint32_t, 64> k{};
  std::array<uint32_t, 8> h{};
};

/// floor(p^(1/n) * 2^32) mod 2^32 for n = 2 or 3, by bisection over exact integers.
uint32_t root_fraction(uint32_t p, int n) {
  using Wide = unsigned __int128;
  uint64_t low = 0;
  uint64_t high = uint64_t{1} << 37;
  while (high - low > 1) {
    uint64_t middle = low + (high - low) / 2;
    Wide power = static_cast<Wide>(middle) * middle;
    if (n == 3) power *= middle;
    (power <= static_cast<Wide>(p) << (32 * n) ? low : high) = middle;
  }
  return static_cast<uint32_t>(low);
}

const Constants& constants() {
  static const Constants table = [] {
    Constants c;
    int found = 0;
    for (uint32_t p = 2; found < 64; ++p) {
      bool prime = true;
      for (uint32_t d = 2; d * d <= p; ++d) prime = prime && p % d != 0;
      if (!prime) continue;
      if (found < 8) c.h[found] = root_fraction(p, 2);
      c.k[found++] = root_fraction(p, 3);
    }
    return c;
  }();
  return table;
}

void add_block(std::array<uint32_t, 8>& h, const uint8_t* block, const std::array<uint32_t, 64>& k) {
  uint32_t w[64];
  for (int i = 0; i < 16; ++i) {
    uint32_t word;
    std::memcpy(&word, block + 4 * i, 4);
    w[i] = __builtin_bswap32(word);
  }
  for (int i = 16; i < 64; ++i) {
    uint32_t a = w[i - 15], b = w[i - 2];
    w[i] = w[i - 16] + w[i - 7] + (std::rotr(a, 7) ^ std::rotr(a, 18) ^ (a >> 3)) +
           (std::rotr(b, 17) ^ std::rotr(b, 19) ^ (b >> 10));
  }
  std::array<uint32_t, 8> s = h;
  for (int i = 0; i < 64; ++i) {
    uint32_t big1 = std::rotr(s[4], 6) ^ std::rotr(s[4], 11) ^ std::rotr(s[4], 25);
    uint32_t big0 = std::rotr(s[0], 2) ^ std::rotr(s[0], 13) ^ std::rotr(s[0], 22);
    uint32_t t1 = s[7] + big1 + ((s[4] & s[5]) ^ (~s[4] & s[6])) + k[i] + w[i];
    uint32_t t2 = big0 + ((s[0] & s[1]) ^ (s[0] & s[2]) ^ (s[1] & s[2]));
    s = {t1 + t2, s[0], s[1], s[2], s[3] + t1, s[4], s[5], s[6]};
  }
  for (int i = 0; i < 8; ++i) h[i] += s[i];
}

}  // namespace

std::string sha256_hex(std::span<const uint8_t> bytes) {
  const Constants& c = constants();
  std::array<uint32_t, 8> h = c.h;
  size_t full = bytes.size() / 64 * 64;
  for (size_t i = 0; i < full; i += 64) add_block(h, bytes.data() + i, c.k);
  uint8_t tail[128] = {};
  size_t rest = bytes.size() - full;
  if (rest > 0) std::memcpy(tail, bytes.data() + full, rest);
  tail[rest] = 0x80;
  size_t tail_size = rest < 56 ? 64 : 128;
  uint64_t bits = __builtin_bswap64(uint64_t{bytes.size()} * 8);
  std::memcpy(tail + tail_size - 8, &bits, 8);
  for (size_t i = 0; i < tail_size; i += 64) add_block(h, tail + i, c.k);
  std::string hex;
  for (uint32_t word : h)
    for (int shift = 28; shift >= 0; shift -= 4) hex += "0123456789abcdef"[(word >> shift) & 15];
  return hex;
}

}  // namespace nabla::format
