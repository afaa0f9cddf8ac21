#include "ir/kernel_ir/turned.h"

#include <algorithm>
#include <map>

#include "ir/kernel_ir/packs.h"

namespace nabla::kernel_ir {
namespace {

constexpr int64_t kMostShared = 32 << 10;  // bytes of all tiles, so that several blocks stand beside each other

}  // namespace

std::optional<Turned> find_turned(const Kernel& k, const std::vector<int>& axes, const Body& body) {
  if (axes.size() < 2 || !is_pointwise(k, body)) return std::nullopt;
  const int lane = axes.back();
  auto side = [&](int axis) { return k.axes[axis].extent.bounds().max; };
  if (side(lane) < kTurnedTile) return std::nullopt;
  bool walk = true;
  std::map<int, std::vector<Expr>> found;  // by the axis that they walk
  for (const Stmt& s : body) {
    const Let* let = std::get_if<Let>(&s.node);
    const Store* store = std::get_if<Store>(&s.node);
    if (store) {
      std::optional<Affine> flat = flat_offset(store->indices, k.buffers[store->buffer].shape);
      walk &= flat && walks(*flat, lane);
    }
    visit(let ? let->expr : store->expr, [&](const Expr& x) {
      if (x->kind != ExprKind::kLoad || x->guard || k.buffers[x->ref].role != BufferRole::kIn) return;
      std::optional<Affine> flat = flat_offset(x->args, k.buffers[x->ref].shape);
      if (!flat || flat->of(lane).is(0) || walks(*flat, lane)) return;
      for (int a : axes) {
        if (a == lane || !walks(*flat, a) || side(a) < kTurnedTile) continue;
        std::vector<Expr>& loads = found[a];
        if (std::ranges::find(loads, x) == loads.end()) loads.push_back(x);
      }
    });
  }
  if (!walk || found.empty()) return std::nullopt;
  auto most = std::ranges::max_element(found, {}, [](const auto& f) { return f.second.size(); });
  Turned out{most->first, {}};
  int64_t bytes = 0;
  for (const Expr& load : most->second) {
    const int size = bytes_of(load->dtype);
    bytes += int64_t{size} * kTurnedTile * turned_pitch(size);
    if (bytes <= kMostShared) out.loads.push_back(load);
  }
  return out;
}

}  // namespace nabla::kernel_ir
