#include "tests/shard/sharded_run.h"

#include "ir/ops/all_ops.h"
#include "ir/reference/interpreter.h"
#include "ir/reference/ranks.h"
#include "ir/text.h"
#include "ir/verifier.h"
#include "passes/shard/microbatch.h"
#include "passes/shard/pad_shards.h"
#include "passes/shard/partition.h"
#include "passes/shard/propagate.h"

namespace nabla::shard_tests {
namespace {

ir::Sharding layout(const ir::Value& v) {
  if (v.sharding) return *v.sharding;
  return {std::vector<ir::DimSharding>(v.type.shape.size()), {}};
}

}  // namespace

Result<ShardedRun> run_sharded(const ir::Module& flat, const std::string& function, const std::vector<Literal>& args) {
  ir::Target target;
  passes::PassContext context{ops::all_ops(), target};
  ShardedRun out;
  (void)NABLA_TRY(ir::verify(flat));
  ir::Module padded = NABLA_TRY(passes::pad_shards(flat, context));
  (void)NABLA_TRY(ir::verify(padded));
  out.padded = print(padded) != print(flat);
  out.sharded = NABLA_TRY(passes::propagate(padded, context));
  (void)NABLA_TRY(ir::verify(out.sharded));
  out.local = NABLA_TRY(passes::partition(out.sharded, context));
  (void)NABLA_TRY(ir::verify(out.local));
  out.remarks = context.remarks;
  out.results = NABLA_TRY(run_local(out.sharded, out.local, function, args));
  return out;
}

Result<std::vector<Literal>> run_local(const ir::Module& sharded, const ir::Module& local, const std::string& function,
                                       const std::vector<Literal>& args) {
  const ir::Module spatial = passes::without_temporal_axes(sharded);
  if (!spatial.mesh()) return ir::interpret(local, function, args);
  const ir::Mesh& mesh = *spatial.mesh();
  const ir::Function& f = *spatial.find(function);
  std::vector<std::vector<Literal>> of_rank(static_cast<size_t>(mesh.ranks()));
  for (size_t i = 0; i < args.size(); ++i) {
    std::vector<Literal> parts = cut(mesh, layout(f.values[f.params[i]]), args[i]);
    for (size_t r = 0; r < parts.size(); ++r) of_rank[r].push_back(parts[r]);
  }
  std::vector<std::vector<Literal>> results = NABLA_TRY(ir::interpret_ranks(local, function, of_rank));
  std::vector<Literal> out;
  for (size_t i = 0; i < f.results.size(); ++i) {
    std::vector<Literal> parts;
    for (const auto& rank : results) parts.push_back(rank[i]);
    const ir::Value& whole = f.values[f.results[i]];
    std::vector<int64_t> shape = parts[0].shape();
    for (size_t d = 0; d < shape.size(); ++d)
      shape[d] = whole.type.shape[d].is_static() ? whole.type.shape[d].value() : shape[d] * shards(mesh, layout(whole).dims[d].axes);
    out.push_back(NABLA_TRY(join(mesh, layout(whole), shape, parts)));
  }
  return out;
}

std::vector<std::string> names_of_sharded_ops() {
  std::vector<std::string> out;
  for (const ir::OpDef& op : ops::all_ops().all()) {
    bool in_stages = true;
    for (ir::Stage stage : {ir::Stage::kFlat, ir::Stage::kSharded}) in_stages &= (op.stages >> static_cast<int>(stage) & 1) != 0;
    bool code = op.lower != ir::Lowering::kCall && op.lower != ir::Lowering::kTransform && op.lower != ir::Lowering::kCollective;
    if (in_stages && code && !op.traits.side_effect && !op.reference.refused()) out.push_back(op.name);
  }
  return out;
}

ir::ShardingRef random_layout(const ir::Mesh& mesh, const ir::Type& type, ir::Rng& rng, bool allow_padding) {
  ir::Sharding out;
  out.allow_padding = allow_padding;
  std::vector<ir::MeshAxis> left = mesh.axes;
  std::shuffle(left.begin(), left.end(), rng);
  for (const ir::Dim& extent : type.shape) {
    ir::DimSharding d{{}, rng() % 3 != 0};
    for (size_t i = 0; i < left.size();) {
      ir::Axes more = d.axes;
      more.push_back({left[i].name});
      bool divides = extent.is_static() && extent.value() % shards(mesh, more) == 0;
      if (!(divides || (allow_padding && extent.is_static())) || rng() % 3 == 0) {
        ++i;
        continue;
      }
      d.axes = std::move(more);
      left.erase(left.begin() + static_cast<std::ptrdiff_t>(i));
    }
    out.dims.push_back(std::move(d));
  }
  return std::make_shared<const ir::Sharding>(std::move(out));
}

ir::Function laid_out(const ir::Function& f, const ir::Mesh& mesh, ir::Rng& rng, bool allow_padding) {
  ir::Function out = f;
  for (ir::ValueId id : out.params)
    if (rng() % 3 != 0) out.values[id].sharding = random_layout(mesh, out.type(id), rng, allow_padding);
  for (const ir::Node& n : out.nodes)
    for (ir::ValueId id : n.results)
      if (rng() % 8 == 0) out.values[id].sharding = random_layout(mesh, out.type(id), rng, allow_padding);
  return out;
}

}  // namespace nabla::shard_tests
