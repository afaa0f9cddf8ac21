// Where parts of arrays lie in the whole, and copies between both.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace nabla::exec {

/// Elements [begin, begin + size) in every dimension of a whole, and what lies beyond it is padding.
struct Box {
  std::vector<int64_t> begin, size;
};

/// The whole's element at which the box begins, where all of its elements lie one after the other.
std::optional<int64_t> contiguous_at(const Box& box, const std::vector<int64_t>& whole);
/// Have both an element in common?
bool overlaps(const Box& a, const Box& b);
/// Copies the elements that both boxes of one whole have, from an array of the one to an array of the other.
void copy_overlap(const Box& from, const void* data, const Box& to, void* into, int64_t element_bytes);
/// Padding becomes zeros.
void copy_out(const Box& box, const std::vector<int64_t>& whole, int64_t element_bytes, const void* from, void* part);
/// Padding is left out.
void copy_back(const Box& box, const std::vector<int64_t>& whole, int64_t element_bytes, const void* part, void* to);

}  // namespace nabla::exec
