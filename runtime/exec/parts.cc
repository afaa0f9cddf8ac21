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

// Where both overlap in dimension d: the first element in coordinates of the whole, and how many.
struct Overlap {
  int64_t begin, size;
};
Overlap overlap(const Box& a, const Box& b, size_t d) {
  int64_t begin = std::max(a.begin[d], b.begin[d]);
  return {begin, std::min(a.begin[d] + a.size[d], b.begin[d] + b.size[d]) - begin};
}

Box whole_box(const std::vector<int64_t>& whole) { return {std::vector<int64_t>(whole.size(), 0), whole}; }

}  // namespace

bool overlaps(const Box& a, const Box& b) {
  for (size_t d = 0; d < a.size.size(); ++d)
    if (overlap(a, b, d).size <= 0) return false;
  return true;
}

std::optional<int64_t> contiguous_at(const Box& box, const std::vector<int64_t>& whole) {
  int64_t at = 0;
  bool single = true;  // all dimensions before have one element
  for (size_t d = 0; d < whole.size(); ++d) {
    bool all = box.begin[d] == 0 && box.size[d] == whole[d];
    if (box.begin[d] + box.size[d] > whole[d] || (!all && !single)) return std::nullopt;
    single &= box.size[d] == 1;
    at = at * whole[d] + box.begin[d];
  }
  return at;
}

// In runs of elements that follow each other in both.
void copy_overlap(const Box& from, const void* data, const Box& to, void* into, int64_t element_bytes) {
  if (!overlaps(from, to)) return;
  size_t rank = from.size.size(), last = rank;  // dimensions from here on are one run
  int64_t run = 1;
  while (last > 0) {
    --last;
    int64_t n = overlap(from, to, last).size;
    run *= n;
    if (n != from.size[last] || n != to.size[last]) break;
  }
  std::vector<int64_t> index(last, 0);
  while (true) {
    int64_t in_from = 0, in_to = 0;
    for (size_t d = 0; d < rank; ++d) {
      int64_t i = overlap(from, to, d).begin + (d < last ? index[d] : 0);
      in_from = in_from * from.size[d] + i - from.begin[d];
      in_to = in_to * to.size[d] + i - to.begin[d];
    }
    std::memcpy(static_cast<char*>(into) + in_to * element_bytes, static_cast<const char*>(data) + in_from * element_bytes,
                static_cast<size_t>(run * element_bytes));
    size_t d = last;
    while (d > 0 && ++index[d - 1] == overlap(from, to, d - 1).size) index[--d] = 0;
    if (d == 0) return;
  }
}

void copy_out(const Box& box, const std::vector<int64_t>& whole, int64_t element_bytes, const void* from, void* part) {
  bool padded = false;
  for (size_t d = 0; d < whole.size(); ++d) padded |= box.begin[d] + box.size[d] > whole[d];
  if (padded) std::memset(part, 0, static_cast<size_t>(count_of(box.size) * element_bytes));
  copy_overlap(whole_box(whole), from, box, part, element_bytes);
}

void copy_back(const Box& box, const std::vector<int64_t>& whole, int64_t element_bytes, const void* part, void* to) {
  copy_overlap(box, part, whole_box(whole), to, element_bytes);
}

}  // namespace nabla::exec
