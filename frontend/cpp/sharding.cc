#include "frontend/cpp/sharding.h"

#include "frontend/cpp/emit.h"
#include "frontend/cpp/frame.h"

namespace nabla {

PDim::PDim(const std::string& axis) {
  if (!axis.empty()) sharding.axes.push_back({axis});
}

PDim::PDim(std::initializer_list<std::string> axes) {
  for (const std::string& a : axes) sharding.axes.push_back({a});
}

PDim PDim::priority(int number, Site site) const {
  if (number < 0) throw error_at(site, Code::kBadSharding, "a layout's priority is {}, expected 0 or more", number);
  PDim out = *this;
  out.sharding.priority = number;
  return out;
}

PDim open(std::initializer_list<std::string> axes) {
  PDim out(axes);
  out.sharding.open = true;
  return out;
}

Tensor shard(const Arg& x, const P& layout, Site site) {
  return emit("shard", {x}, {{"sharding", layout.sharding}}, site)[0];
}

}  // namespace nabla
