#include "tests/shard/sharded_run.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "ir/ops/all_ops.h"
#include "ir/reference/interpreter.h"
#include "ir/reference/ranks.h"
#include "ir/text.h"
#include "ir/verifier.h"
#include "passes/shard/microbatch.h"
#include "passes/shard/pad_shards.h"
#include "passes/shard/partition.h"
#include "passes/shard/propagate.h"
#include "tests/nightly.h"
#include "tests/property/driver.h"

namespace nabla::shard_tests {
namespace {

ir::Sharding layout(const ir::Value& v) {
  if (v.sharding) return *v.sharding;
  return {std::vector<ir::DimSharding>(v.type.shape.size()), {}};
}

}  // namespace

const std::vector<ir::Mesh>& meshes() {
  static const std::vector<ir::Mesh> out{{"pair", {{"a", 2}}, nullptr},
                                         {"three", {{"a", 3}}, nullptr},
                                         {"four", {{"a", 4}}, nullptr},
                                         {"square", {{"a", 2}, {"b", 2}}, nullptr},
                                         {"eight", {{"a", 2}, {"b", 4}}, nullptr}};
  return out;
}

uint64_t samples(uint64_t of_every_run) { return is_nightly() ? of_every_run * 10 : of_every_run; }

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

namespace {

// All ways to give axes of the mesh to dimensions.
void add_layouts(const ir::Mesh& mesh, const ir::Type& type, ir::Sharding& so_far, std::vector<ir::ShardingRef>& out) {
  out.push_back(std::make_shared<const ir::Sharding>(so_far));
  ir::Axes used = axes_of(so_far);
  size_t from = so_far.dims.size();  // dimensions before the last one that has an axis are done
  while (from > 0 && so_far.dims[from - 1].axes.empty()) --from;
  for (size_t d = from == 0 ? 0 : from - 1; d < so_far.dims.size(); ++d)
    for (const ir::MeshAxis& axis : mesh.axes) {
      if (std::find(used.begin(), used.end(), ir::AxisRef{axis.name}) != used.end()) continue;
      so_far.dims[d].axes.push_back({axis.name});
      if (type.shape[d].value() % shards(mesh, so_far.dims[d].axes) == 0) add_layouts(mesh, type, so_far, out);
      so_far.dims[d].axes.pop_back();
    }
}

void expect_same(const Comparison& c, const ir::Mesh& mesh, ir::Function f) {
  ir::Module m = c.flat;
  m.meshes = {mesh};
  m.set(std::make_shared<const ir::Function>(std::move(f)));
  Result<ShardedRun> got = run_sharded(m, c.function, c.args);
  if (!got.ok() && c.may_contradict && got.errors()[0].code == Code::kBadSharding) return;
  ASSERT_TRUE(got.ok()) << c.what << to_string(got.errors()) << print(m);
  auto text = property::difference(c.expected, got->results, c.tolerance);
  ASSERT_FALSE(text) << c.what << ": " << *text << "\n" << print(got->sharded) << print(got->local);
}

}  // namespace

std::vector<std::vector<ir::ShardingRef>> all_layouts(const ir::Mesh& mesh, const ir::Function& f, size_t most) {
  std::vector<std::vector<ir::ShardingRef>> out{{}};
  for (ir::ValueId id : f.params) {
    std::vector<ir::ShardingRef> each;
    ir::Sharding whole{std::vector<ir::DimSharding>(f.type(id).shape.size()), {}};
    add_layouts(mesh, f.type(id), whole, each);
    std::vector<std::vector<ir::ShardingRef>> longer;
    if (out.size() * each.size() > most) return {};
    for (const auto& before : out)
      for (const ir::ShardingRef& s : each) longer.push_back(before), longer.back().push_back(s);
    out = std::move(longer);
  }
  return out;
}

void expect_same(const Comparison& c) {
  for (uint64_t draw = 0; draw < samples(c.draws) && !testing::Test::HasFatalFailure(); ++draw) {
    const ir::Mesh& mesh = meshes()[(draw + c.seed) % meshes().size()];
    ir::Rng rng(c.seed * 31 + draw);
    expect_same(c, mesh, c.draw(mesh, rng));
  }
  constexpr size_t kMostLayouts = 40;
  for (size_t i = 0; is_nightly() && i < meshes().size(); ++i)
    for (const std::vector<ir::ShardingRef>& layouts : all_layouts(meshes()[i], *c.flat.find(c.function), kMostLayouts)) {
      ir::Function f = *c.flat.find(c.function);
      for (size_t k = 0; k < layouts.size(); ++k) f.values[f.params[k]].sharding = layouts[k];
      expect_same(c, meshes()[i], std::move(f));
      if (testing::Test::HasFatalFailure()) return;
    }
}

Comparison of_case(const property::Case& c, bool awkward, uint64_t draws) {
  ir::Function f = property::single(c).function;
  ir::Module m = c.module;
  m.stage = ir::Stage::kFlat;
  m.set(std::make_shared<const ir::Function>(f));
  std::vector<Literal> args = c.values(awkward);
  return {c.str(), m, f.name, args, property::run_reference(c.typed(), args, c.module), std::nullopt, c.seed, draws,
          c.op->lower == ir::Lowering::kControl, [f](const ir::Mesh& mesh, ir::Rng& rng) { return laid_out(f, mesh, rng); }};
}

bool is_comparable(const property::Case& c) {
  std::vector<ir::Type> types = c.types();
  types.insert(types.end(), c.results.begin(), c.results.end());
  return !property::is_narrow(c) && std::all_of(types.begin(), types.end(), [](const ir::Type& t) { return t.is_static(); });
}

}  // namespace nabla::shard_tests
