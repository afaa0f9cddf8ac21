#include "passes/lower/group_order.h"

#include <algorithm>

namespace nabla::passes {

void GroupOrder::set(Bits& bits, int i) {
  size_t word = static_cast<size_t>(i) / 64;
  if (bits.size() <= word) bits.resize(word + 1);
  bits[word] |= uint64_t{1} << (i % 64);
}

void GroupOrder::unite(Bits& into, const Bits& from) {
  if (into.size() < from.size()) into.resize(from.size());
  for (size_t w = 0; w < from.size(); ++w) into[w] |= from[w];
}

int GroupOrder::add(std::set<int> inputs) {
  int g = static_cast<int>(inputs_.size());
  inputs_.push_back(std::move(inputs));
  closure_.emplace_back();
  gather(g);  // nobody reads g yet
  return g;
}

void GroupOrder::gather(int g) {
  Bits& own = closure_[g];
  for (int i : inputs_[g]) unite(own, closure_[i]), set(own, i);
}

// Brings the closure of g, and of all that need it, up to its inputs.
void GroupOrder::close(int g) {
  gather(g);
  for (Bits& bits : closure_)
    if (has(bits, g)) unite(bits, closure_[g]);
}

void GroupOrder::add_inputs(int g, const std::set<int>& inputs) {
  inputs_[g].insert(inputs.begin(), inputs.end());
  bool known = std::all_of(inputs.begin(), inputs.end(), [&](int i) { return has(closure_[g], i); });
  if (!known) close(g);
}

void GroupOrder::merge(int g, int other) {
  inputs_[g].insert(inputs_[other].begin(), inputs_[other].end());
  inputs_[other].clear();
  for (size_t d = 0; d < inputs_.size(); ++d)
    if (has(closure_[d], other) && inputs_[d].erase(other)) inputs_[d].insert(g);
  inputs_[g].erase(g);
  for (Bits& bits : closure_)
    if (has(bits, other)) set(bits, g);
  for (Bits* bits : {&closure_[g], &closure_[other]})  // they read each other at most, and are one now
    for (int i : {g, other})
      if (has(*bits, i)) (*bits)[i / 64] &= ~(uint64_t{1} << (i % 64));
  close(g);
}

}  // namespace nabla::passes
