// Manual regions: functions that are written for the ranks along some mesh axes. shard_map is how users write one;
// before propagation its body stands between full_to_shard and shard_to_full, which say what is a part and what is
// whole.
#include <algorithm>

#include "ir/ops/all_ops.h"
#include "ir/ops/batch_layout.h"
#include "ir/ops/control/call.h"
#include "ir/symbols.h"
#include "ir/varying.h"

namespace nabla::ops {
namespace {

using ir::Axes;
using ir::ManualRegion;
using ir::Sharding;
using ir::Shardings;
using ir::VaryingAxes;

constexpr const char* kPlaced = "`propagate` puts its body in its place";

ManualRegion region_of(const Attrs& attrs) {
  return {attrs.get_function("body"), attrs.get_axes("axes"), attrs.get_ints("sizes"), attrs.get_shardings("in"),
          attrs.get_shardings("out")};
}
Attrs attrs_of(const ManualRegion& region) {
  return {{"body", FunctionRef{region.body}},
          {"axes", region.axes},
          {"sizes", region.sizes},
          {"in", region.in},
          {"out", region.out}};
}

// How many parts the axes of a dimension make; 0: one of them is not manual.
int64_t parts_along(const Axes& manual, const Ints& sizes, const Axes& axes) {
  int64_t out = 1;
  for (const ir::AxisRef& a : axes) {
    auto at = std::find(manual.begin(), manual.end(), a);
    out *= at == manual.end() ? 0 : sizes[static_cast<size_t>(at - manual.begin())];
  }
  return out;
}

// C3 and C4: the axes are whole ones, each once, with a size; C5 for a list of layouts.
Status check_axes(const InferContext& ctx, const Axes& axes, const Ints& sizes) {
  bool whole = std::all_of(axes.begin(), axes.end(), [](const ir::AxisRef& a) { return a.size == 0; });
  bool counted =
      axes.size() == sizes.size() && std::all_of(sizes.begin(), sizes.end(), [](int64_t n) { return n > 0; });
  if (whole && counted) return Ok{};
  return ctx.fail(Code::kBadAttribute, "C1", "axes are {}, with {} sizes", ir::str(axes), sizes.size());
}

Status check_parts(const InferContext& ctx, const Axes& axes, const Sharding& s, const Type& type,
                   const std::string& what) {
  if (static_cast<int>(s.dims.size()) != type.rank())
    return ctx.fail(Code::kShapeMismatch, "C2", "{} is laid out as {}, which has {} dimensions, and is {}", what,
                    s.str(), s.dims.size(), type.str());
  std::vector<std::string> used;
  for (size_t d = 0; d < s.dims.size(); ++d)
    for (const ir::AxisRef& a : s.dims[d].axes) {
      if (std::find(axes.begin(), axes.end(), a) == axes.end())
        return ctx.fail(Code::kBadSharding, "C2", "{} is laid out as {}, and {} is no axis of the region, which has {}",
                        what, s.str(), a.str(), ir::str(axes));
      if (std::find(used.begin(), used.end(), a.name) != used.end())
        return ctx.fail(Code::kBadSharding, "C2", "{} is laid out as {}, where axis {} stands twice", what, s.str(),
                        a.name);
      used.push_back(a.name);
    }
  bool plain = s.replicated.empty() && std::all_of(s.dims.begin(), s.dims.end(),
                                                   [](const ir::DimSharding& d) { return !d.open && d.priority == 0; });
  if (!plain)
    return ctx.fail(Code::kBadSharding, "C2",
                    "{} is laid out as {}: a region's layouts are closed, without priorities and "
                    "without replicated axes, since they name its own axes alone",
                    what, s.str());
  return Ok{};
}

// The type of a part, or that of the whole from a part's.
Result<Type> part_of(const InferContext& ctx, const Axes& axes, const Ints& sizes, const Sharding& s, const Type& whole,
                     const std::string& what) {
  Type out = whole;
  for (size_t d = 0; d < s.dims.size(); ++d) {
    int64_t parts = parts_along(axes, sizes, s.dims[d].axes);
    out.shape[d] = Dim::floordiv(whole.shape[d], parts);
    if (Dim::mod(whole.shape[d], parts).is(0)) continue;
    if (whole.shape[d].is_static())
      return ctx.fail(Code::kBadSharding, "C3",
                      "{}: dimension {} of {} has {} elements, which {} shards along {} do not "
                      "divide",
                      what, d, whole.str(), whole.shape[d].str(), parts, ir::str(s.dims[d].axes));
    Diagnostic undecided = ctx.fail(Code::kUndecidable, "C3",
                                    "{}: dimension {} of {} may not be divisible into {} shards "
                                    "along {}",
                                    what, d, whole.str(), parts, ir::str(s.dims[d].axes));
    if (std::string help = ir::help_to_divide(whole.shape[d], parts); !help.empty()) undecided.help = help;
    return undecided;
  }
  return out;
}
Type whole_of(const Axes& axes, const Ints& sizes, const Sharding& s, const Type& part) {
  Type out = part;
  for (size_t d = 0; d < s.dims.size(); ++d) out.shape[d] = out.shape[d] * parts_along(axes, sizes, s.dims[d].axes);
  return out;
}

InferResult infer_shard_map(const InferContext& ctx) {
  const ir::Function* f = ctx.functions ? ctx.functions(ctx.attrs.get_function("body")) : nullptr;
  if (!f) return ctx.fail(Code::kUnknownName, "C4", "no function is named @{}", ctx.attrs.get_function("body"));
  ManualRegion r = region_of(ctx.attrs);
  (void)NABLA_TRY(check_axes(ctx, r.axes, r.sizes));
  if (r.in.size() != ctx.operands.size() || f->params.size() != ctx.operands.size())
    return ctx.fail(Code::kOperandCount, "C4", "{} operands, {} layouts `in`, and @{} takes {}", ctx.operands.size(),
                    r.in.size(), f->name, f->params.size());
  if (r.out.size() != f->results.size())
    return ctx.fail(Code::kOperandCount, "C4", "{} layouts `out`, and @{} has {} results", r.out.size(), f->name,
                    f->results.size());
  Types parts, out;
  for (size_t i = 0; i < r.in.size(); ++i) {
    std::string what = fmt::format("operand {}", i);
    (void)NABLA_TRY(check_parts(ctx, r.axes, r.in[i], ctx.operands[i], what));
    parts.push_back(NABLA_TRY(part_of(ctx, r.axes, r.sizes, r.in[i], ctx.operands[i], what)));
  }
  NABLA_TRY(require_types(ctx, parts, param_types(*f), "part", *f, "C4"));
  for (size_t i = 0; i < r.out.size(); ++i) {
    const Type& part = f->type(f->results[i]);
    (void)NABLA_TRY(check_parts(ctx, r.axes, r.out[i], part, fmt::format("result {}", i)));
    out.push_back(whole_of(r.axes, r.sizes, r.out[i], part));
  }
  return out;
}

// ---- Reference: every rank in turn has its parts, all run together.

int64_t place_along(const ManualRegion& r, const Axes& axes, int64_t rank) {
  ir::Mesh mesh;
  for (size_t i = 0; i < r.axes.size(); ++i) mesh.axes.push_back({r.axes[i].name, r.sizes[i]});
  return ir::coordinate(mesh, axes, rank);
}

// f(position in the part, position in the whole), of the rank's part.
template <class F>
void for_each_of_part(const ManualRegion& r, const Sharding& s, const Extents& part, const Extents& whole, int64_t rank,
                      F f) {
  for_each_index(part, [&](const Extents& index, int64_t at) {
    Extents in_whole = index;
    for (size_t d = 0; d < part.size(); ++d) in_whole[d] += place_along(r, s.dims[d].axes, rank) * part[d];
    f(at, position_of(in_whole, whole));
  });
}

Literals reference_shard_map(const EvalContext& ctx) {
  ManualRegion r = region_of(ctx.attrs());
  int64_t ranks = 1;
  for (int64_t n : r.sizes) ranks *= n;
  std::vector<Literals> args(static_cast<size_t>(ranks));
  for (int64_t rank = 0; rank < ranks; ++rank)
    for (size_t i = 0; i < r.in.size(); ++i) {
      Extents shape = ctx.operands[i].shape();
      for (size_t d = 0; d < shape.size(); ++d) shape[d] /= parts_along(r.axes, r.sizes, r.in[i].dims[d].axes);
      Literal part(ctx.operands[i].dtype(), shape);
      for_each_of_part(r, r.in[i], shape, ctx.operands[i].shape(), rank,
                       [&](int64_t to, int64_t from) { copy_element(part, to, ctx.operands[i], from); });
      args[rank].push_back(std::move(part));
    }
  std::vector<Literals> made = ctx.on_ranks(r.body, r.axes, r.sizes, std::move(args));
  Literals out;
  for (size_t i = 0; i < ctx.op.results.size(); ++i) {
    out.push_back(zeros(ctx.op.results[i]));
    // The first rank that has a part writes it.
    for (int64_t rank = ranks; !made.empty() && rank-- > 0;)
      for_each_of_part(r, r.out[i], made[rank][i].shape(), out[i].shape(), rank,
                       [&](int64_t from, int64_t to) { copy_element(out[i], to, made[rank][i], from); });
  }
  return out;
}

// ---- Derivatives: the region of the derived body.

std::vector<Val> region(FunctionBuilder& b, const ManualRegion& r, std::vector<Val> operands) {
  return b.add("shard_map", std::move(operands), attrs_of(r));
}

std::vector<MaybeVal> shard_map_jvp(JvpContext& ctx) {
  ManualRegion r = region_of(ctx.attrs());
  std::vector<bool> active;
  std::vector<Val> operands = ctx.operands;
  size_t own = operands.size(), n = ctx.results.size();
  for (size_t i = 0; i < own; ++i) {
    active.push_back(ctx.tangents[i].has_value());
    if (!active.back()) continue;
    operands.push_back(*ctx.tangents[i]);
    r.in.push_back(Sharding(r.in[i]));
  }
  r.body = ctx.functions->derive(r.body, ir::Transform::kJvp, active);
  for (size_t i = 0; i < n; ++i) r.out.push_back(Sharding(r.out[i]));
  std::vector<Val> all = region(ctx.b, r, operands);
  ctx.results = slice(all, 0, n);
  return {all.begin() + static_cast<std::ptrdiff_t>(n), all.end()};
}

// How a residual leaves the region and comes back: what differs between ranks lies along its first dimension.
struct Residual {
  Sharding layout;
  bool scalar;  ///< it gets a dimension of one element
};

Sharding along_first(int rank, const Axes& axes) {
  Sharding out{std::vector<ir::DimSharding>(static_cast<size_t>(rank)), {}};
  if (rank > 0) out.dims[0].axes = axes;
  return out;
}

std::vector<Residual> residuals_of(const ir::Functions& functions, const ManualRegion& r, const std::string& forward,
                                   size_t results) {
  const ir::Function& f = functions.get(forward);
  std::vector<VaryingAxes> params;
  for (const Sharding& s : r.in) params.push_back(ir::varying_of(s));
  auto lookup = [&](std::string_view name) { return &functions.get(name); };
  std::vector<VaryingAxes> varying = ir::varying_results(f, params, lookup);
  std::vector<Residual> out;
  for (size_t i = results; i < f.results.size(); ++i) {
    Axes axes;
    for (const ir::AxisRef& a : r.axes)
      if (varying[i].count(a.name)) axes.push_back(a);
    int rank = f.type(f.results[i]).rank();
    bool scalar = rank == 0 && !axes.empty();
    out.push_back({along_first(scalar ? 1 : rank, axes), scalar});
  }
  return out;
}

ir::VjpForward shard_map_vjp_forward(ir::VjpForwardContext& ctx) {
  ManualRegion r = region_of(ctx.attrs());
  size_t n = ctx.op.results.size();
  std::string forward = ctx.functions->derive(r.body, ir::Transform::kVjpForward, ctx.active);
  std::vector<Residual> residuals = residuals_of(*ctx.functions, r, forward, n);
  FunctionBuilder w(forward + ".parts", ctx.b.ops(), ctx.b.module());
  w.set_location(ctx.b.location());
  std::vector<Val> params;
  for (const Type& t : param_types(ctx.functions->get(forward))) params.push_back(w.param("", t));
  std::vector<Val> made = call_function(w, forward, params);
  for (size_t i = 0; i < residuals.size(); ++i) {
    if (residuals[i].scalar) made[n + i] = ir::reshape(made[n + i], {1});
    r.out.push_back(residuals[i].layout);
  }
  r.body = ctx.functions->define(w.finish(made));
  std::vector<Val> all = region(ctx.b, r, ctx.operands);
  return {slice(all, 0, n), slice(all, n, all.size())};
}

std::vector<MaybeVal> shard_map_vjp(VjpContext& ctx) {
  ManualRegion r = region_of(ctx.attrs()), back = r;
  size_t n = ctx.results.size();
  std::string forward = ctx.functions->derive(r.body, ir::Transform::kVjpForward, ctx.active);
  std::vector<Residual> residuals = residuals_of(*ctx.functions, r, forward, n);
  std::string backward = ctx.functions->derive(r.body, ir::Transform::kVjpBackward, ctx.active);
  FunctionBuilder w(backward + ".parts", ctx.b.ops(), ctx.b.module());
  w.set_location(ctx.b.location());
  std::vector<Val> operands, args;
  back.in.clear(), back.out.clear();
  Types types = param_types(ctx.functions->get(backward));
  for (size_t i = 0; i < residuals.size(); ++i) {
    Type type = types[i];
    if (residuals[i].scalar) type.shape = {1};
    Val param = w.param("", type);
    args.push_back(residuals[i].scalar ? ir::reshape(param, {}) : param);
    operands.push_back(ctx.residuals[i]);
    back.in.push_back(residuals[i].layout);
  }
  for (size_t i = 0; i < n; ++i) {
    const Type& type = types[residuals.size() + i];
    args.push_back(ctx.cotangents[i] ? w.param("", type) : w.fill(type.dtype, type.shape, 0));
    if (!ctx.cotangents[i]) continue;
    operands.push_back(*ctx.cotangents[i]);
    back.in.push_back(r.out[i]);
  }
  for (size_t i = 0; i < r.in.size(); ++i)
    if (ctx.active[i]) back.out.push_back(r.in[i]);
  std::vector<Val> gradients = call_function(w, backward, args);
  back.body = ctx.functions->define(w.finish(gradients));
  std::vector<Val> all = region(ctx.b, back, operands);
  std::vector<MaybeVal> out(ctx.operands.size());
  size_t next = 0;
  for (size_t i = 0; i < out.size(); ++i)
    if (ctx.active[i]) out[i] = all[next++];
  return out;
}

bool names_axis(const Axes& axes, const std::string& axis) {
  return std::any_of(axes.begin(), axes.end(), [&](const ir::AxisRef& a) { return a.name == axis; });
}
bool names_axis(const Sharding& s, const std::string& axis) { return names_axis(axes_of(s), axis); }

// Does the function, or what it calls, communicate along the axis or ask for the rank's place there?
bool function_uses(const ir::Functions& functions, const ir::Function& f, const std::string& axis) {
  for (const ir::Node& n : f.nodes)
    for (const auto& [name, attr] : n.attrs) {
      if (const auto* axes = std::get_if<Axes>(&attr); axes && names_axis(*axes, axis)) return true;
      if (const auto* one = std::get_if<FunctionRef>(&attr); one && function_uses(functions, functions.get(one->name), axis)) return true;
      if (const auto* list = std::get_if<ir::FunctionRefs>(&attr))
        for (const FunctionRef& ref : *list)
          if (function_uses(functions, functions.get(ref.name), axis)) return true;
    }
  return false;
}

// The axis is left to propagation where the region makes no use of it.
bool leave_axis(const BatchContext& ctx, ManualRegion& r) {
  auto cut = [&](const Sharding& s) { return names_axis(s, ctx.spmd_axis); };
  if (r.axes.size() == 1 || std::any_of(r.in.begin(), r.in.end(), cut) || std::any_of(r.out.begin(), r.out.end(), cut) ||
      function_uses(*ctx.functions, ctx.functions->get(r.body), ctx.spmd_axis))
    return false;
  auto at = std::find(r.axes.begin(), r.axes.end(), ir::AxisRef{ctx.spmd_axis});
  r.sizes.erase(r.sizes.begin() + (at - r.axes.begin()));
  r.axes.erase(at);
  return true;
}

// The operand, whose batch lies along the axis that vmap names, and whose other dimensions lie in any way.
Val batch_along(const BatchContext& ctx, Val v) {
  Sharding example{std::vector<ir::DimSharding>(static_cast<size_t>(v.rank() - 1), {{}, true}), {}};
  return ctx.b.op("shard", {v}, {{"sharding", with_batch(ctx, std::move(example))}});
}

// The batch is whole in the region, whatever lies along it outside: along axes that are not manual it may be sharded.
std::vector<Val> shard_map_batch(BatchContext& ctx) {
  ManualRegion r = region_of(ctx.attrs());
  bool manual = names_axis(r.axes, ctx.spmd_axis);
  if (manual && !leave_axis(ctx, r)) {
    ctx.functions->refuse(fmt::format("spmd_axis_name is {}, along which the region cuts its arrays or communicates", ctx.spmd_axis));
    std::vector<Val> zeros;
    for (const Type& t : ctx.op.results) zeros.push_back(ctx.b.fill(t.dtype, prepend(ctx.size, t.shape), 0));
    return zeros;
  }
  ir::BatchedFunction made = ctx.functions->batch(r.body, ctx.batched, std::vector<bool>(r.out.size(), false));
  auto add = [](Sharding& s) { s.dims.insert(s.dims.begin(), ir::DimSharding{}); };
  for (size_t i = 0; i < r.in.size(); ++i)
    if (ctx.batched[i]) add(r.in[i]);
  for (size_t i = 0; i < r.out.size(); ++i)
    if (made.results[i]) add(r.out[i]);
  r.body = made.name;
  ctx.results_batched = made.results;
  if (!manual) return region(ctx.b, r, ctx.operands);
  std::vector<Val> operands = ctx.operands;
  for (size_t i = 0; i < operands.size(); ++i)
    if (ctx.batched[i]) operands[i] = batch_along(ctx, operands[i]);
  return region(ctx.b, r, operands);
}

OpDef shard_map_op() {
  OpDef op =
      call_record("shard_map",
                  "A function that is written for the ranks along the mesh axes `axes`: it gets the parts of the "
                  "operands that `in` says, and its results are the parts of the results by `out`. What it computes "
                  "is a rank's own; its collectives name these axes. Along the other axes of the mesh its values are "
                  "sharded like any. An operand that `in` does not cut along an axis is the same on all ranks "
                  "there, and so is a result of `out`. The model is JAX's shard_map.",
                  {}, {});
  op.category = "collective";
  op.attrs = {required("body", AttrKind::kFunction, "takes the parts of the operands"),
              required("axes", AttrKind::kAxes, "the manual axes"),
              required("sizes", AttrKind::kInts, "how many ranks lie along each of them"),
              required("in", AttrKind::kShardings, "the layout of each operand along these axes"),
              required("out", AttrKind::kShardings, "the layout of each result along these axes")};
  op.operands = {{"operands", "whole values", true, true}};
  op.results = {{"results", "whole values, made of the parts"}};
  op.constraints = {
      {"C1", "axes are whole axes, and sizes has a positive number for each"},
      {"C2",
       "layouts have a dimension for each of their value's, name the manual axes alone, each at most once, "
       "and are closed"},
      {"C3", "the shards along a dimension divide it"},
      {"C4", "body exists, takes the operands' parts, and in and out have an entry per operand and result"}};
  op.stages = ir::stages(ir::Stage::kTraced, ir::Stage::kStaged);
  op.infer = infer_shard_map;
  op.reference = reference_shard_map;
  op.fold = ir::no_rule("functions are not run by the compiler");
  op.decompose = ir::no_rule(kPlaced);
  op.vjp = shard_map_vjp;
  op.vjp_forward = shard_map_vjp_forward;
  op.jvp = shard_map_jvp;
  op.batch = shard_map_batch;
  op.factors = ir::no_rule(kPlaced);
  op.access = ir::no_rule(kPlaced);
  op.lower = Lowering::kCall;
  op.manual = region_of;
  return op;
}

// ---- The borders of a region, once its body stands among other nodes.

OpDef border_op(const char* name, const char* doc, bool enters) {
  Attrs one{{"parts", Sharding{{{}, {}}, {}}}, {"axes", Axes()}, {"sizes", Ints()}};
  Attrs two{{"parts", Sharding{{{{{"x"}}}, {}}, {}}}, {"axes", Axes{{"x"}}}, {"sizes", Ints{2}}};
  Attrs uncounted = two, foreign = two;
  uncounted.set("sizes", Ints());
  foreign.set("axes", Axes{{"y"}});
  OpDef op = {
      .name = name,
      .version = 1,
      .category = "collective",
      .doc = doc,
      .operands = {{"x", enters ? "the whole, with these parts" : "a rank's part"}},
      .attrs = {required("parts", AttrKind::kSharding, "how it is cut along the manual axes"),
                required("axes", AttrKind::kAxes, "the manual axes of the region"),
                required("sizes", AttrKind::kInts, "how many ranks lie along each of them")},
      .results = {{"y", enters ? "a rank's part" : "the whole, with these parts"}},
      .constraints = {{"C1", "axes are whole axes, and sizes has a positive number for each"},
                      {"C2",
                       "parts has a dimension for each of x's, names the manual axes alone, each at most once, and is "
                       "closed"}},
      .traits = {},
      .stages = ir::stages(ir::Stage::kFlat, ir::Stage::kSharded),
      .infer = [enters](const InferContext& ctx) -> InferResult {
        const Axes& axes = ctx.attrs.get_axes("axes");
        const Ints& sizes = ctx.attrs.get_ints("sizes");
        const Sharding& s = ctx.attrs.get_sharding("parts");
        (void)NABLA_TRY(check_axes(ctx, axes, sizes));
        (void)NABLA_TRY(check_parts(ctx, axes, s, ctx.operands[0], "x"));
        if (!enters) return Types{whole_of(axes, sizes, s, ctx.operands[0])};
        return Types{NABLA_TRY(part_of(ctx, axes, sizes, s, ctx.operands[0], "x"))};
      },
      .reference = [](const EvalContext& ctx) { return Literals{ctx.operands[0]}; },
      .fold = ir::no_rule("ranks have different parts"),
      .decompose = ir::no_rule("it says where a region begins or ends"),
      .vjp = ir::not_differentiable("derivatives are taken before regions are put in place"),
      .jvp = ir::not_differentiable("derivatives are taken before regions are put in place"),
      .batch = ir::no_rule("batches are made before regions are put in place"),
      .factors = ir::no_rule("along the axes of the region a dimension is cut on one side alone"),
      .access = ir::no_rule("`partition` takes it away"),
      .linearity = ir::not_linear(),
      .lower = Lowering::kTransform,
      .cost = [](const TypedOp& op) { return ir::pointwise_cost(op, 0); },
      .layout_role = enters ? ir::LayoutRole::kEnter : ir::LayoutRole::kLeave,
      .dtypes = DTypes::kAll,
      .examples = {{{operand(f32({4, 3}))}, one}},
      .draw =
          [one](Rng& rng) {
            return Example{{operand(f32(random_shape(rng, 2)))}, one};
          },
      .rejects = {{"C1", {f32({4, 3})}, uncounted}, {"C2", {f32({4, 3})}, foreign}, {"C2", {f32({4})}, two}}};
  if (enters) {
    op.constraints.push_back({"C3", "the shards along a dimension divide it"});
    op.rejects.push_back({"C3", {f32({3, 3})}, two});
  }
  return op;
}

}  // namespace

std::vector<OpDef> manual_ops() {
  return {shard_map_op(),
          border_op("full_to_shard", "Enters a manual region: of the whole, a rank's part along its axes.", true),
          border_op("shard_to_full", "Leaves a manual region: the whole of which ranks have these parts.", false)};
}

}  // namespace nabla::ops
