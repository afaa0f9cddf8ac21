// The counter-based random numbers in bulk; single words: philox_word in scalar.h.
#pragma once

#include <cstdint>
#include <span>

namespace nabla::kernel_ir {

/// Words first, first + 1, ... of the stream Philox4x32-10(k0, k1).
void philox_words(uint32_t k0, uint32_t k1, uint64_t first, std::span<uint32_t> words);

}  // namespace nabla::kernel_ir
