#include "runtime/format/sha256.h"

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#endif

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

#if defined(__x86_64__)
// The same by the processor's instructions, which keep the state as two vectors: (f, e, b, a) and (h, g, d, c), the
// lowest word first.
__attribute__((target("sha,sse4.1"))) void add_blocks_fast(std::array<uint32_t, 8>& h, const uint8_t* block,
                                                           size_t count, const std::array<uint32_t, 64>& k) {
  auto reversed = [](const uint8_t* at) __attribute__((target("sha,sse4.1"))) {
    const __m128i bytes = _mm_set_epi8(12, 13, 14, 15, 8, 9, 10, 11, 4, 5, 6, 7, 0, 1, 2, 3);
    return _mm_shuffle_epi8(_mm_loadu_si128(reinterpret_cast<const __m128i*>(at)), bytes);
  };
  auto word = [&](int i) { return static_cast<int>(h[i]); };
  __m128i low = _mm_set_epi32(word(0), word(1), word(4), word(5));
  __m128i high = _mm_set_epi32(word(2), word(3), word(6), word(7));
  for (; count > 0; --count, block += 64) {
    __m128i low_before = low, high_before = high, w[4];
    for (int i = 0; i < 4; ++i) w[i] = reversed(block + 16 * i);
    for (int round = 0; round < 16; ++round) {  // four steps each, on words w[round % 4]
      __m128i& now = w[round % 4];
      const auto* constants = reinterpret_cast<const __m128i*>(k.data() + 4 * round);
      __m128i sum = _mm_add_epi32(now, _mm_loadu_si128(constants));
      high = _mm_sha256rnds2_epu32(high, low, sum);
      low = _mm_sha256rnds2_epu32(low, high, _mm_shuffle_epi32(sum, 0x0E));
      if (round >= 12) continue;
      __m128i &next = w[(round + 1) % 4], &third = w[(round + 2) % 4], &last = w[(round + 3) % 4];
      __m128i mixed = _mm_add_epi32(_mm_sha256msg1_epu32(now, next), _mm_alignr_epi8(last, third, 4));
      now = _mm_sha256msg2_epu32(mixed, last);
    }
    low = _mm_add_epi32(low, low_before), high = _mm_add_epi32(high, high_before);
  }
  h = {static_cast<uint32_t>(_mm_extract_epi32(low, 3)),  static_cast<uint32_t>(_mm_extract_epi32(low, 2)),
       static_cast<uint32_t>(_mm_extract_epi32(high, 3)), static_cast<uint32_t>(_mm_extract_epi32(high, 2)),
       static_cast<uint32_t>(_mm_extract_epi32(low, 1)),  static_cast<uint32_t>(_mm_extract_epi32(low, 0)),
       static_cast<uint32_t>(_mm_extract_epi32(high, 1)), static_cast<uint32_t>(_mm_extract_epi32(high, 0))};
}

// CPUID leaf 7: bit 29 of ebx.
bool has_sha_instructions() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid_count(7, 0, &a, &b, &c, &d) && (b >> 29 & 1) && __builtin_cpu_supports("sse4.1");
}
#endif

void add_blocks(std::array<uint32_t, 8>& h, const uint8_t* blocks, size_t count, const std::array<uint32_t, 64>& k) {
#if defined(__x86_64__)
  static const bool fast = has_sha_instructions();
  if (fast) return add_blocks_fast(h, blocks, count, k);
#endif
  for (size_t i = 0; i < count; ++i) add_block(h, blocks + 64 * i, k);
}

}  // namespace

std::string sha256_hex(std::span<const uint8_t> bytes) {
  const Constants& c = constants();
  std::array<uint32_t, 8> h = c.h;
  size_t full = bytes.size() / 64 * 64;
  add_blocks(h, bytes.data(), full / 64, c.k);
  uint8_t tail[128] = {};
  size_t rest = bytes.size() - full;
  if (rest > 0) std::memcpy(tail, bytes.data() + full, rest);
  tail[rest] = 0x80;
  size_t tail_size = rest < 56 ? 64 : 128;
  uint64_t bits = __builtin_bswap64(uint64_t{bytes.size()} * 8);
  std::memcpy(tail + tail_size - 8, &bits, 8);
  add_blocks(h, tail, tail_size / 64, c.k);
  std::string hex;
  for (uint32_t word : h)
    for (int shift = 28; shift >= 0; shift -= 4) hex += "0123456789abcdef"[(word >> shift) & 15];
  return hex;
}

}  // namespace nabla::format
