// The bytes that a GPU kernel must move, where that is known beforehand.
#pragma once

#include <optional>

#include "ir/kernel_ir/kernel.h"

namespace nabla::emulator {

/// The bytes of all operands and results, for kernels that read and write each of their elements once: maps,
/// transposes, reductions in one pass. Nothing where a kernel may take an element several times, for which caches or
/// tiles stand: broadcast operands, rows that are read again (softmax), products, windows, what indices look up, stores
/// that combine or are guarded, ordered loops and procedures. Requires static sizes.
std::optional<int64_t> known_traffic(const kernel_ir::Kernel& kernel);

}  // namespace nabla::emulator
