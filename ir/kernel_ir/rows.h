// Rows of an array as doubles or 64-bit integers, so that the references of ops choose by dtype once per row and not
// once per element.
#pragma once

#include <cstdint>

#include "runtime/base/literal.h"

namespace nabla {

/// out[i] = x.get(first + i * step) for i < count.
void read_row(const Literal& x, int64_t first, int64_t step, int64_t count, double* out);
/// out[i] = x.get_i(first + i * step) for i < count.
void read_row(const Literal& x, int64_t first, int64_t step, int64_t count, int64_t* out);
/// x.set(first + i * step, values[i]) for i < count.
void write_row(Literal& x, int64_t first, int64_t step, int64_t count, const double* values);
/// x.set_i(first + i * step, values[i]) for i < count.
void write_row(Literal& x, int64_t first, int64_t step, int64_t count, const int64_t* values);

/// Elements of a long row that are widened at a time.
inline constexpr int64_t kRowBlock = 512;

}  // namespace nabla
