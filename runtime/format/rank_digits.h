// Arithmetic of rank numbers (ranks.fbs): their digits in mixed radices, and the sizes of meshes.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/format/program_check.h"
#include "runtime/format/ranks_generated.h"

namespace nabla::format {

inline std::vector<Digit> digits_of(const flatbuffers::Vector<const Digit*>* digits) {
  std::vector<Digit> out;
  for (uint32_t i = 0; i < size_of(digits); ++i) out.push_back(*digits->Get(i));
  return out;
}

/// "dp=4, tp=2"
inline std::string sizes_of(const Mesh& mesh) {
  std::string out;
  for (uint32_t i = 0; i < size_of(mesh.axes()); ++i) {
    const MeshAxis& a = *mesh.axes()->Get(i);
    out += fmt::format("{}{}={}", out.empty() ? "" : ", ", view(a.name()), a.size());
  }
  return out;
}

/// How many values digits that do not overlap have together.
inline uint64_t count_of(const std::vector<Digit>& digits) {
  uint64_t n = 1;
  for (const Digit& d : digits) n *= d.count();
  return n;
}

/// The rank with zeros in these digits.
inline uint32_t base_of(const std::vector<Digit>& digits, uint32_t rank) {
  uint32_t out = rank;
  for (const Digit& d : digits) out -= rank / d.stride() % d.count() * d.stride();
  return out;
}

/// The rank that has `number` in these digits, all others as `first`, which has zeros in them.
inline uint32_t rank_at(const std::vector<Digit>& digits, uint32_t first, uint64_t number) {
  for (size_t i = digits.size(); i-- > 0; number /= digits[i].count())
    first += static_cast<uint32_t>(number % digits[i].count()) * digits[i].stride();
  return first;
}

/// By rank, its class. Requires check_ranks.
inline std::vector<uint32_t> classes_of(const Ranks& ranks) {
  std::vector<uint32_t> out(ranks.count());
  for (uint32_t c = 0; c < size_of(ranks.classes()); ++c) {
    const Class& k = *ranks.classes()->Get(c);
    std::vector<Digit> digits = digits_of(k.digits());
    for (uint64_t i = 0; i < count_of(digits); ++i) out[rank_at(digits, k.first(), i)] = c;
  }
  return out;
}

}  // namespace nabla::format
