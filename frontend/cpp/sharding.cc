#include "frontend/cpp/sharding.h"

#include "frontend/cpp/emit.h"

namespace nabla {

PDim::PDim(const std::string& axis) {
  if (!axis.empty()) sharding.axes.push_back({axis});
}

PDim::PDim(std::initializer_list<std::string> axes) {
  for (const std::string& a : axes) sharding.axes.push_back({a});
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
