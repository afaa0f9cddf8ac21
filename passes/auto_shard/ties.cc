#include "passes/auto_shard/ties.h"

#include <algorithm>

namespace nabla::passes {

Spot SpotTies::add(const ir::Type& type) {
  Spot spot = count();
  types_.push_back(&type);
  clusters_.push_back(spot);
  first_.push_back(static_cast<int>(dims_.size()));
  for (int d = 0; d < type.rank(); ++d) {
    dims_.push_back(static_cast<int>(dims_.size()));
    members_.push_back({spot});
    blocked_.push_back(false);
  }
  return spot;
}

void SpotTies::tie(const std::vector<std::pair<Spot, int>>& places) {
  for (size_t i = 1; i < places.size(); ++i) tie(places[0], places[i]);
}

void SpotTies::tie(std::pair<Spot, int> a, std::pair<Spot, int> b) {
  int x = root_of_dim(a.first, a.second), y = root_of_dim(b.first, b.second);
  clusters_[at(cluster(a.first))] = cluster(b.first);
  if (x == y) return;
  if (members_[at(x)].size() < members_[at(y)].size()) std::swap(x, y);
  std::set<Spot>&large = members_[at(x)], &small = members_[at(y)];
  if (std::any_of(small.begin(), small.end(), [&](Spot s) { return large.count(s) > 0; })) {
    blocked_[at(x)] = blocked_[at(y)] = true;
    return;
  }
  large.merge(small);
  small.clear();
  blocked_[at(x)] |= blocked_[at(y)];
  dims_[at(y)] = x;
}

}  // namespace nabla::passes
