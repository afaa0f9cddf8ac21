#include "runtime/exec/parts.h"

#include <algorithm>
#include <cstring>

namespace nabla::exec {
namespace {

int64_t count_of(const std::vector<int64_t>& sizes) {
  int64_t n = 1;
  for (int64_t s : sizes) n *= s;
  return n;
}

// How much of dimension d lies within the whole.
int64_t inside(const Box& box, const std::vector<int64_t>& whole, size_t d) {
  return std::clamp<int64_t>(whole[d] - box.begin[d], 0, box.size[d]);
}

// f(first element in the part, in the whole, how many follow each other in both), for all that lies within the whole.
template <class F>
void for_each_run(const Box& box, const std::vector<int64_t>& whole, F f) {
  size_t rank = whole.size();
  for (size_t d = 0; d < rank; ++d)
    if (inside(box, whole, d) == 0) return;
  size_t last = rank;  // dimensions from here on are one run
  int64_t run = 1;
  while (last > 0) {
    --last;
    int64_t own = inside(box, whole, last);
    run *= own;
    if (own != box.size[last] || own != whole[last]) break;
  }
  std::vector<int64_t> index(last, 0);
  while (true) {
    int64_t in_part = 0, in_whole = 0;
    for (size_t d = 0; d < rank; ++d) {
      int64_t i = d < last ? index[d] : 0;
      in_part = in_part * box.size[d] + i;
      in_whole = in_whole * whole[d] + box.begin[d] + i;
    }
    f(in_part, in_whole, run);
    size_t d = last;
    while (d > 0 && ++index[d - 1] == inside(box, whole, d - 1)) index[--d] = 0;
    if (d == 0) return;
  }
}

}  // namespace

std::optional<int64_t> contiguous_at(const Box& box, const std::vector<int64_t>& whole) {
  int64_t at = 0;
  bool single = true;  // all dimensions before have one element
  for (size_t d = 0; d < whole.size(); ++d) {
    bool all = box.begin[d] == 0 && box.size[d] == whole[d];
    if (inside(box, whole, d) != box.size[d] || (!all && !single)) return std::nullopt;
    single &= box.size[d] == 1;
    at = at * whole[d] + box.begin[d];
  }
  return at;
}

void copy_out(const Box& box, const std::vector<int64_t>& whole, int64_t element_bytes, const void* from, void* part) {
  bool padded = false;
  for (size_t d = 0; d < whole.size(); ++d) padded |= inside(box, whole, d) != box.size[d];
  if (padded) std::memset(part, 0, static_cast<size_t>(count_of(box.size) * element_bytes));
  for_each_run(box, whole, [&](int64_t in_part, int64_t in_whole, int64_t run) {
    std::memcpy(static_cast<char*>(part) + in_part * element_bytes,
                static_cast<const char*>(from) + in_whole * element_bytes, static_cast<size_t>(run * element_bytes));
  });
}

void copy_back(const Box& box, const std::vector<int64_t>& whole, int64_t element_bytes, const void* part, void* to) {
  for_each_run(box, whole, [&](int64_t in_part, int64_t in_whole, int64_t run) {
    std::memcpy(static_cast<char*>(to) + in_whole * element_bytes,
                static_cast<const char*>(part) + in_part * element_bytes, static_cast<size_t>(run * element_bytes));
  });
}

}  // namespace nabla::exec
