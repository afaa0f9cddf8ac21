// Which fusion groups run before which, directly and through others.
#pragma once

#include <cstddef>
#include <cstdint>
#include <set>
#include <vector>

namespace nabla::passes {

/// A graph of groups without cycles. The closure is kept as bits, so that `before` costs one look: fusion asks it for
/// every pair of groups that a tensor could tie together, and a search through the graph would make that quadratic in
/// the depth of a model.
class GroupOrder {
 public:
  /// A new group that reads these; returns its number.
  int add(std::set<int> inputs);
  /// Group g reads these too; none of them needs g.
  void add_inputs(int g, const std::set<int>& inputs);
  /// Group g takes over everything of `other`, which is empty afterwards. Neither needs the other through a third.
  void merge(int g, int other);

  const std::set<int>& inputs_of(int g) const { return inputs_[g]; }
  /// Is `from` the group `to`, or read by what it needs?
  bool reaches(int from, int to) const { return from == to || has(closure_[to], from); }

 private:
  using Bits = std::vector<uint64_t>;
  static bool has(const Bits& bits, int i) {
    size_t word = static_cast<size_t>(i) / 64;
    return word < bits.size() && (bits[word] >> (i % 64) & 1) != 0;
  }
  static void set(Bits& bits, int i);
  static void unite(Bits& into, const Bits& from);
  void gather(int g);
  void close(int g);

  std::vector<std::set<int>> inputs_;
  std::vector<Bits> closure_;
};

}  // namespace nabla::passes
