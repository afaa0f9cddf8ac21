#include "passes/shard/loop_sums.h"

#include <algorithm>

#include "ir/typed.h"
#include "passes/rewrite.h"
#include "passes/shard/layout.h"

namespace nabla::passes {
namespace {

using ir::Axes;

// By result, of slices: the axes over which sums stay pending. What is scattered onto shards is summed in the body, but where
// ranks exchange sums after the last microbatch.
std::map<size_t, Axes> slices_of(const SummingBody& body, const std::vector<Axes>& pending) {
  std::map<size_t, Axes> out;
  for (size_t r = static_cast<size_t>(body.loop.carries); r < body.f.results.size(); ++r) {
    const ir::Value& v = body.f.values[body.f.results[r]];
    Axes stays = pending[r];
    if (!is_temporal(body.mesh, stays) || body.exchange == GradSync::kEach)
      for (const Axes& dim : layout_of(v.sharding, v.type.rank()).dims) stays = without(stays, dim);
    if (!stays.empty()) out[r] = std::move(stays);
  }
  return out;
}

}  // namespace

Result<LoopSums> loop_sums(const SummingBody& body, const std::function<Result<std::vector<Axes>>(const LoopSums&)>& pending_with) {
  auto consts = static_cast<size_t>(body.loop.consts);
  LoopSums out;
  for (const auto& [text, axes] : body.begun) {
    for (size_t i = consts; i < consts + static_cast<size_t>(body.loop.carries); ++i) {
      const ir::Value& v = body.f.values[body.f.params[i]];
      Layout layout = layout_of(v.sharding, v.type.rank());
      bool free = std::none_of(layout.dims.begin(), layout.dims.end(), [&](const Axes& a) { return overlap(body.mesh, a, axes); });
      if (free && is_float(v.type.dtype)) out.carries.try_emplace(i, axes);
    }
    for (size_t before = 0; before != out.carries.size() && !out.carries.empty();) {
      before = out.carries.size();
      const std::vector<Axes> pending = NABLA_TRY(pending_with(out));
      std::erase_if(out.carries, [&](const auto& carry) { return pending[carry.first - consts] != carry.second; });
    }
  }
  out.stacked = slices_of(body, out.carries.empty() ? body.pending : NABLA_TRY(pending_with(out)));
  return out;
}

std::map<std::string, ir::ControlFlow> bodies_of(const ir::Module& m) {
  std::map<std::string, int> uses;
  std::map<std::string, ir::ControlFlow> out;
  for (const ir::FunctionPtr& f : m.functions)
    for (const std::string& name : referenced_functions(*f)) ++uses[name];
  for (const ir::FunctionPtr& f : m.functions)
    for (const ir::Node& n : f->nodes) {
      if (n.op->lower != ir::Lowering::kControl) continue;
      ir::ControlFlow c = ir::control_of(*f, n);
      if (c.kind != ir::ControlFlow::Kind::kLoop) continue;
      std::string body = c.functions.back();
      if (!out.emplace(body, std::move(c)).second) uses[body] = 2;
    }
  for (const ir::Entry& e : m.entries) uses[e.function] = 2;
  std::erase_if(out, [&](const auto& entry) { return uses[entry.first] != 1; });
  return out;
}

}  // namespace nabla::passes
