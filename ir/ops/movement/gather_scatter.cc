// Reading and writing windows at computed places: gather, scatter_set, scatter_add.
#include "ir/ops/movement/gather_scatter.h"

#include "ir/ops/all_ops.h"

namespace nabla::ops {
namespace {

using kernel_ir::Combiner;
using kernel_ir::Expr;
using kernel_ir::Fragment;

// ---- gather

Status require_mode(const InferContext& ctx, const char* other) {
  const std::string& mode = ctx.attrs.get_string("out_of_range");
  if (mode == "clamp" || mode == other) return Ok{};
  return ctx.fail(Code::kBadAttribute, "C6", "out_of_range is \"{}\", expected \"clamp\" or \"{}\"{}", mode, other,
                  did_you_mean(mode, {"clamp", other}));
}

InferResult infer_gather(const InferContext& ctx) {
  NABLA_TRY(require_mode(ctx, "zero"));
  const Ints& sizes = ctx.attrs.get_ints("slice_sizes");
  int vector_dims = ctx.attrs.get_int("index_vector_dim") < ctx.rank(1) ? 1 : 0;
  int rank = ctx.rank(1) - vector_dims + static_cast<int>(ctx.attrs.get_ints("offset_dims").size());
  IndexedDims dims = gather_dims(ctx.attrs, ctx.rank(0), ctx.rank(1), rank);
  NABLA_TRY(check_indexed(ctx, dims));
  if (static_cast<int>(sizes.size()) != ctx.rank(0))
    return ctx.fail(Code::kBadAttribute, "C5", "slice_sizes has {} entries, the operand {} dimensions", sizes.size(),
                    ctx.rank(0));
  Shape window = gather_window(ctx.attrs, ctx.shape(0));
  for (int d = 0; d < ctx.rank(0); ++d) {
    bool one = contains(dims.operand_collapsed, d) || contains(dims.operand_batching, d);
    if (sizes[d] < -1 || (one && sizes[d] != 1))
      return ctx.fail(Code::kBadAttribute, "C5", "slice size of dimension {} is {}, expected {}", d, sizes[d],
                      one ? "1" : "-1 or more");
    // A batching dimension may be empty: there is then nothing to read.
    const Dim& extent = ctx.shape(0)[d];
    if (contains(dims.operand_batching, d) || Dim::less_equal(window[d], extent).value_or(false)) continue;
    if (extent.is_static())
      return ctx.fail(Code::kShapeMismatch, "C5", "slice size of dimension {} is {}, the operand has {}", d,
                      window[d].str(), extent.str());
    Diagnostic f = ctx.fail(Code::kShapeMismatch, "C5", "slices of size {} do not always fit dimension {} of size {}",
                            window[d].str(), d, extent.str());
    f.help = fmt::format("give {} a larger lower bound; {} is what it may be now", extent.str(), extent.bounds().min);
    return f;
  }
  Shape out(rank);
  for (size_t i = 0; i < dims.batch_dims.size(); ++i) out[dims.batch_dims[i]] = ctx.shape(1)[dims.indices_dims[i]];
  for (size_t i = 0; i < dims.window_dims.size(); ++i) out[dims.window_dims[i]] = window[dims.operand_window[i]];
  return Types{Type(ctx.operands[0].dtype, out)};
}

Fragment access_gather(const TypedOp& op) {
  Fragment f;
  std::vector<int> own = f.add_axes("i", op.results[0].shape);
  IndexedAccess at = operand_indices(gather_dims_of(op), op, gather_window(op.attrs, op.operands[0].shape),
                                     kernel_ir::axes_as_indices(own));
  DType dtype = op.operands[0].dtype;
  Expr zero = kernel_ir::constant_int(dtype, 0);
  Expr value =
      at.guard ? kernel_ir::guarded_load(dtype, 0, at.indices, at.guard, zero) : load_operand(op, 0, at.indices);
  f.results = {f.map("out", dtype, own, value)};
  return f;
}

/// Attributes of a gather with these lists.
Attrs gather_attrs(const BatchedLists& lists, Ints slice_sizes, bool clamp) {
  return {{"offset_dims", lists.window_dims},
          {"collapsed_slice_dims", lists.collapsed},
          {"operand_batching_dims", lists.operand_batching},
          {"start_indices_batching_dims", lists.indices_batching},
          {"start_index_map", lists.start_map},
          {"index_vector_dim", lists.vector_dim},
          {"slice_sizes", std::move(slice_sizes)},
          {"out_of_range", std::string(clamp ? "clamp" : "zero")}};
}
Attrs scatter_attrs(const BatchedLists& lists, bool clamp) {
  return {{"update_window_dims", lists.window_dims},
          {"inserted_window_dims", lists.collapsed},
          {"operand_batching_dims", lists.operand_batching},
          {"scatter_indices_batching_dims", lists.indices_batching},
          {"scatter_dims_to_operand_dims", lists.start_map},
          {"index_vector_dim", lists.vector_dim},
          {"out_of_range", std::string(clamp ? "clamp" : "drop")}};
}
BatchedLists lists_of(const IndexedDims& d) { return batch_lists(d, false, false); }
BatchedLists unshifted(const IndexedDims& d) {
  BatchedLists out = lists_of(d);
  out.window_dims = d.window_dims;
  return out;
}

std::vector<MaybeVal> vjp_gather(VjpContext& ctx) {
  if (!ctx.active[0]) return {std::nullopt, std::nullopt};
  IndexedDims dims = gather_dims_of(ctx.op);
  Val zero = ctx.b.fill(ctx.operand(0).dtype(), ctx.operand(0).shape(), 0);
  return {ctx.b.op("scatter_add", {zero, ctx.operand(1), ctx.ct()}, scatter_attrs(unshifted(dims), dims.clamp)),
          std::nullopt};
}

std::vector<Val> batch_gather(BatchContext& ctx) {
  IndexedDims dims = gather_dims_of(ctx.op);
  Ints sizes = ctx.attrs().get_ints("slice_sizes");
  if (ctx.batched[0]) sizes.insert(sizes.begin(), ctx.batched[1] ? 1 : -1);
  return ctx.b.add("gather", ctx.operands,
                   gather_attrs(batch_lists(dims, ctx.batched[0], ctx.batched[1]), sizes, dims.clamp));
}

Factors factors_gather(const TypedOp& op) {
  IndexedDims dims = gather_dims_of(op);
  std::vector<bool> whole;
  for (int d = 0; d < op.operands[0].rank(); ++d)
    whole.push_back(op.attrs.get_ints("slice_sizes")[d] == -1 && !contains(dims.start_map, d));
  IndexedFactors x = indexed_factors(dims, op.operands[0], op.operands[1], op.results[0], whole, Factors::Kind::kPass);
  x.f.operands = {x.operand, x.indices};
  x.f.results = {x.window};
  return x.f;
}

// ---- scatter

InferResult infer_scatter(const InferContext& ctx) {
  NABLA_TRY(require_mode(ctx, "drop"));
  NABLA_TRY(ctx.require_same_dtype(0, 2, "C7"));
  int rank = ctx.rank(2);
  IndexedDims dims = scatter_dims(ctx.attrs, ctx.rank(0), ctx.rank(1), rank);
  NABLA_TRY(check_indexed(ctx, dims));
  if (rank != static_cast<int>(dims.window_dims.size() + dims.indices_dims.size()))
    return ctx.fail(Code::kShapeMismatch, "C5", "updates have {} dimensions, expected {}", rank,
                    dims.window_dims.size() + dims.indices_dims.size());
  for (size_t i = 0; i < dims.batch_dims.size(); ++i)
    NABLA_TRY(ctx.require_equal(ctx.shape(2)[dims.batch_dims[i]], ctx.shape(1)[dims.indices_dims[i]], "C5",
                                fmt::format("sizes of updates in dimension {} and of indices", dims.batch_dims[i])));
  for (size_t i = 0; i < dims.window_dims.size(); ++i) {
    const Dim &size = ctx.shape(2)[dims.window_dims[i]], &whole = ctx.shape(0)[dims.operand_window[i]];
    if (!Dim::less_equal(size, whole).value_or(false))
      return ctx.fail(Code::kShapeMismatch, "C5", "the window has size {} in operand dimension {}, which has {}",
                      size.str(), dims.operand_window[i], whole.str());
    if (!size.is_static() && !(size == whole))
      return ctx.fail(Code::kShapeMismatch, "C5", "the window has the symbolic size {} in operand dimension {} of {}",
                      size.str(), dims.operand_window[i], whole.str());
  }
  for (int64_t d : dims.operand_collapsed)
    if (!Dim::less_equal(1, ctx.shape(0)[d]).value_or(false))
      return ctx.fail(Code::kShapeMismatch, "C5", "the window has size 1 in operand dimension {}, which has {}", d,
                      ctx.shape(0)[d].str());
  return Types{ctx.operands[0]};
}

/// The type of the accumulators of a scatter. A long f32 sum loses digits and stops at 2^24, so sums of possibly many windows use f64.
/// The windows are those of one rank, one microbatch and one iteration of a loop.
DType scatter_type(const TypedOp& op, const IndexedDims& dims, Combiner combiner) {
  constexpr int64_t kManyWindows = int64_t{1} << 16;
  const DType dtype = op.operands[0].dtype;
  if (combiner == Combiner::kNone) return dtype;
  Dim windows = 1;
  for (int64_t d : dims.batch_dims) windows = windows * op.operands[2].shape[d];
  const bool many = combiner == Combiner::kSum && is_float(dtype) && windows.bounds().max >= kManyWindows;
  return many ? DType::kF64 : accumulation_type(dtype);
}

Fragment access_scatter(const TypedOp& op, Combiner combiner) {
  Fragment f;
  IndexedDims dims = scatter_dims_of(op);
  std::vector<int> own = f.add_axes("i", op.operands[0].shape), over = f.add_axes("u", op.operands[2].shape);
  const DType dtype = op.operands[0].dtype, sums = scatter_type(op, dims, combiner);
  auto load = [&](int k, const std::vector<int>& axes) {
    return kernel_ir::convert(sums, load_operand(op, k, kernel_ir::axes_as_indices(axes)));
  };
  int d = f.map("scattered", sums, own, load(0, own));
  kernel_ir::Definition& definition = f.definitions[d];
  definition.scatter = true;
  definition.combiner = combiner;
  definition.update_axes = over;
  definition.indices = operand_indices(dims, op, scatter_window(dims, op), kernel_ir::axes_as_indices(over)).indices;
  definition.update = load(2, over);
  f.results = {round_definition(f, d, dtype, "out")};
  return f;
}

}  // namespace

Val gather_updates(FunctionBuilder& b, const TypedOp& op, Val v, Val indices) {
  IndexedDims dims = scatter_dims_of(op);
  Ints sizes(op.operands[0].rank(), 1);
  for (size_t i = 0; i < dims.window_dims.size(); ++i) {
    const Dim& size = op.operands[2].shape[dims.window_dims[i]];
    sizes[dims.operand_window[i]] = size.is_static() ? size.value() : -1;
  }
  return b.op("gather", {v, indices}, gather_attrs(unshifted(dims), sizes, dims.clamp));
}

namespace {

std::vector<MaybeVal> vjp_scatter_add(VjpContext& ctx) {
  std::vector<MaybeVal> out(3);
  if (ctx.active[0]) out[0] = ctx.ct();
  if (ctx.active[2]) out[2] = gather_updates(ctx.b, ctx.op, ctx.ct(), ctx.operand(1));
  return out;
}

// Only the update that was written last at a place has a derivative: every update writes its number, and those that
// read their own number back are the winners.
std::vector<MaybeVal> vjp_scatter_set(VjpContext& ctx) {
  std::vector<MaybeVal> out(3);
  Val indices = ctx.operand(1), updates = ctx.operand(2), ct = ctx.ct();
  if (ctx.active[0]) out[0] = ctx.b.op("scatter_set", {ct, indices, ctx.b.zeros_like(updates)}, ctx.attrs());
  if (ctx.active[2]) {
    Val numbers =
        ctx.b.op("iota", {}, {{"shape", Shape{updates.type().count()}}, {"axis", int64_t{0}}, {"dtype", DType::kI64}});
    numbers = reshape(numbers, updates.shape());
    Val blank = ctx.b.fill(DType::kI64, ctx.operand(0).shape(), -1);
    Val written = ctx.b.op("scatter_set", {blank, indices, numbers}, ctx.attrs());
    Val won = ctx.b.op("eq", {gather_updates(ctx.b, ctx.op, written, indices), numbers});
    out[2] = select(won, gather_updates(ctx.b, ctx.op, ct, indices), ctx.b.zeros_like(updates));
  }
  return out;
}

std::vector<Val> batch_scatter(BatchContext& ctx) {
  IndexedDims dims = scatter_dims_of(ctx.op);
  std::vector<Val> operands = {ctx.batched_operand(0), ctx.operands[1], ctx.batched_operand(2)};
  return ctx.b.add(ctx.op.op.name, operands, scatter_attrs(batch_lists(dims, true, ctx.batched[1]), dims.clamp));
}

Factors factors_scatter(const TypedOp& op) {
  IndexedDims dims = scatter_dims_of(op);
  Shape window = scatter_window(dims, op);
  std::vector<bool> whole;
  for (int d = 0; d < op.operands[0].rank(); ++d)
    whole.push_back(!contains(dims.start_map, d) && window[d] == op.operands[0].shape[d]);
  // A piece of the updates would bring the operand again with every piece, so the updates stay whole.
  IndexedFactors x =
      indexed_factors(dims, op.operands[0], op.operands[1], op.operands[2], whole, Factors::Kind::kReplicate);
  x.f.operands = {x.operand, x.indices, x.window};
  x.f.results = {x.operand};
  return x.f;
}

// ---- Examples

/// One legal combination of lists with its shapes, for gather and scatter alike.
struct Scene {
  Shape operand, indices, window_tensor;
  IndexedDims dims;
  Ints slice_sizes;
};

Example gather_example(const Scene& s, bool clamp, double reach) {
  return {{operand(f32(s.operand)), operand(i32(s.indices), between(-2, reach))},
          gather_attrs(unshifted(s.dims), s.slice_sizes, clamp)};
}
Example scatter_example(const Scene& s, bool clamp, double reach) {
  return {{operand(f32(s.operand)), operand(i32(s.indices), between(-2, reach)), operand(f32(s.window_tensor))},
          scatter_attrs(unshifted(s.dims), clamp)};
}

/// Rows of a table: [5, 3] indexed by [2, 2].
Scene rows() {
  Scene s{{5, 3}, {2, 2}, {2, 2, 3}, {}, {1, -1}};
  s.dims.window_dims = {2};
  s.dims.operand_collapsed = s.dims.start_map = {0};
  s.dims.vector_dim = 2;
  return s;
}
/// Windows of 2 by 1 at pairs of starts, the window dimension in front.
Scene windows() {
  Scene s{{5, 4}, {3, 2}, {2, 3}, {}, {2, 1}};
  s.dims.window_dims = {0};
  s.dims.operand_collapsed = {1};
  s.dims.start_map = {1, 0};
  s.dims.vector_dim = 1;
  return s;
}
/// One element per row (take along an axis): batching dimensions.
Scene along() {
  Scene s{{4, 6}, {4, 3, 1}, {4, 3}, {}, {1, 1}};
  s.dims.operand_collapsed = {1};
  s.dims.operand_batching = s.dims.indices_batching = {0};
  s.dims.start_map = {1};
  s.dims.vector_dim = 2;
  return s;
}

Scene draw_scene(Rng& rng) {
  // Every operand dimension gets a role; then the dimensions of indices and of the window tensor follow.
  Scene s;
  int rank = static_cast<int>(random_int(rng, 1, 3));
  Shape batch = random_shape(rng, static_cast<int>(random_int(rng, 0, 2)), 12), window;
  for (int64_t d = 0; d < rank; ++d) {
    int64_t size = random_positive_dim(rng, 7), role = random_int(rng, 0, 3);
    if (role == 0 && !batch.empty() && s.dims.operand_batching.empty()) {
      s.operand.push_back(batch[0]);
      s.slice_sizes.push_back(1);
      s.dims.operand_batching = {d};
      s.dims.indices_batching = {0};  // shifted below when the vectors stand in front
      continue;
    }
    s.operand.push_back(size);
    bool whole = role == 1, collapsed = role == 2;
    s.slice_sizes.push_back(whole ? -1 : collapsed ? 1 : random_int(rng, 1, size));
    if (!whole) s.dims.start_map.push_back(d);
    if (collapsed)
      s.dims.operand_collapsed.push_back(d);
    else
      window.push_back(whole ? size : s.slice_sizes.back());
  }
  int64_t batch_rank = static_cast<int64_t>(batch.size());
  s.dims.vector_dim = random_int(rng, 0, 1) * batch_rank;
  s.indices = batch;
  s.indices.insert(s.indices.begin() + s.dims.vector_dim, static_cast<int64_t>(s.dims.start_map.size()));
  if (s.dims.vector_dim == 0) s.dims.indices_batching = shifted(s.dims.indices_batching);
  Ints places = random_permutation(rng, static_cast<int>(batch.size() + window.size()));
  places.resize(window.size());
  std::sort(places.begin(), places.end());
  s.dims.window_dims = places;
  size_t next_batch = 0, next_window = 0;
  for (size_t i = 0; i < batch.size() + window.size(); ++i)
    s.window_tensor.push_back(contains(places, static_cast<int64_t>(i)) ? window[next_window++] : batch[next_batch++]);
  return s;
}

/// The rejects of C1..C6 that gather and scatter share. `make` turns a scene into an example.
std::vector<Reject> indexed_rejects(Example (*make)(const Scene&, bool, double)) {
  std::vector<Reject> out;
  auto add = [&](const char* id, const Scene& s, auto change) {
    Example e = make(s, true, 4);
    Reject r{id, {}, e.attrs};
    for (const Operand& o : e.operands) r.operands.push_back(o.type);
    change(r);
    out.push_back(std::move(r));
  };
  auto scene = [&](const char* id, Scene s, auto change) {
    change(s);
    add(id, s, [](Reject&) {});
  };
  add("C1", rows(), [](Reject& r) { r.operands[1].dtype = DType::kF32; });
  scene("C2", rows(), [](Scene& s) { s.dims.start_map = {2}; });
  scene("C2", rows(), [](Scene& s) { s.dims.window_dims = {3}; });
  scene("C2", rows(), [](Scene& s) { s.dims.window_dims = {}; });
  scene("C2", rows(), [](Scene& s) { s.dims.vector_dim = 4; });
  scene("C2", along(), [](Scene& s) { s.dims.start_map = {0}; });
  scene("C2", along(), [](Scene& s) { s.dims.indices_batching = {2}; });
  scene("C2", along(), [](Scene& s) { s.dims.indices_batching = {}; });
  scene("C3", windows(), [](Scene& s) { s.indices = {3, 1}; });
  scene("C4", along(), [](Scene& s) { s.operand = {5, 6}; });
  add("C6", rows(), [](Reject& r) { r.attrs.set("out_of_range", std::string("wrap")); });
  return out;
}

std::vector<Reject> gather_rejects() {
  std::vector<Reject> out = indexed_rejects(gather_example);
  auto scene = [&](Scene s, auto change) {
    change(s);
    Example e = gather_example(s, true, 4);
    out.push_back({"C5", {e.operands[0].type, e.operands[1].type}, e.attrs});
  };
  scene(rows(), [](Scene& s) { s.slice_sizes = {1}; });
  scene(rows(), [](Scene& s) { s.slice_sizes = {2, -1}; });
  scene(rows(), [](Scene& s) { s.slice_sizes = {1, 4}; });
  scene(windows(), [](Scene& s) { s.slice_sizes = {-2, 1}; });
  return out;
}

std::vector<Reject> scatter_rejects() {
  std::vector<Reject> out = indexed_rejects(scatter_example);
  auto scene = [&](const char* id, Shape updates, DType dtype) {
    Example e = scatter_example(rows(), true, 4);
    out.push_back({id, {e.operands[0].type, e.operands[1].type, Type(dtype, std::move(updates))}, e.attrs});
  };
  scene("C5", {2, 3, 3}, DType::kF32);
  scene("C5", {2, 2, 4}, DType::kF32);
  scene("C5", {2, 2, 3, 1}, DType::kF32);
  scene("C7", {2, 2, 3}, DType::kI32);
  return out;
}

// ---- Records

std::vector<ir::Constraint> indexed_constraints(const char* c5, const char* other_mode) {
  return {{"C1", "indices are integers"},
          {"C2",
           "the dimension lists name existing dimensions, each once and each in one role; the lists of window, "
           "collapsed and batching dimensions are ascending"},
          {"C3", "an index vector has one component per operand dimension that it maps to"},
          {"C4", "batching dimensions of operand and indices have equal sizes"},
          {"C5", c5},
          {"C6", std::string("out_of_range is \"clamp\" or \"") + other_mode + "\""}};
}

OpDef gather() {
  return {
      .name = "gather",
      .version = 1,
      .category = "indexing",
      .doc =
          "Reads windows of the operand at computed starts. `indices` holds vectors of starts along "
          "`index_vector_dim` (its rank: every index is a vector of one component); component k counts along operand "
          "dimension start_index_map[k]. The result's dimensions `offset_dims` run through the window; the others "
          "are the dimensions of `indices` without the vectors, in order. Batching dimensions of the operand follow "
          "their counterparts in `indices`. With out_of_range \"clamp\" a start is moved so that its window fits; with "
          "\"zero\" elements outside of the operand read as 0. Repeated indices are fine. Follows gather of StableHLO.",
      .operands = {{"operand", "what is read"}, {"indices", "vectors of starts"}},
      .attrs = {required("offset_dims", AttrKind::kInts, "result dimensions that run through the window"),
                required("collapsed_slice_dims", AttrKind::kInts,
                         "operand dimensions of slice size 1 that the result lacks"),
                optional("operand_batching_dims", "operand dimensions that run along with `indices`", Ints{}),
                optional("start_indices_batching_dims", "their counterparts in `indices`", Ints{}),
                required("start_index_map", AttrKind::kInts, "operand dimension of each component of an index vector"),
                required("index_vector_dim", AttrKind::kInt, "the dimension of `indices` that holds the vectors"),
                required("slice_sizes", AttrKind::kInts, "the window per operand dimension; -1: the whole dimension"),
                optional("out_of_range", "\"clamp\" or \"zero\"", std::string("clamp"))},
      .results = {{"out", "the windows"}},
      .constraints = indexed_constraints("slice_sizes has one entry per operand dimension, at most its size, 1 for "
                                         "collapsed and batching ones",
                                         "zero"),
      .traits = {},
      .stages = ir::kTensorStages,
      .infer = infer_gather,
      .reference = reference_gather,
      .fold = fold_by_reference(),
      .decompose = ir::no_rule("a primitive: loops follow from its access"),
      .vjp = vjp_gather,
      .jvp = jvp_linear_in({0}),
      .batch = batch_gather,
      .factors = factors_gather,
      .rank_rule = ir::RankRule::kGather,
      .access = access_gather,
      .linearity = ir::moves({0}),
      .lower = Lowering::kAccess,
      .cost =
          [](const TypedOp& op) {
            Cost cost = pointwise_cost(op, 0);
            cost.bytes = op.results[0].bytes() * 2 + op.operands[1].bytes();
            return cost;
          },
      .dtypes = DTypes::kAll,
      .examples = {gather_example(rows(), true, 6), gather_example(windows(), true, 6),
                   gather_example(along(), false, 6)},
      .draw =
          [](Rng& rng) {
            Scene s = draw_scene(rng);
            return gather_example(s, random_bool(rng), 8);
          },
      .rejects = gather_rejects(),
  };
}

}  // namespace

OpDef make_scatter(const char* name, std::string doc, Combiner combiner) {
  ir::Rule<std::vector<MaybeVal>(VjpContext&)> vjp = combiner == Combiner::kSum ? vjp_scatter_add : vjp_scatter_set;
  return {
      .name = name,
      .version = 1,
      .category = "indexing",
      .doc = doc +
             " The places are those that gather with the corresponding attributes reads. With out_of_range \"drop\" "
             "elements of a window outside of the operand are left out; with \"clamp\" a start is moved so that its "
             "window fits. Follows scatter of StableHLO.",
      .operands = {{"operand", "what is updated"},
                   {"indices", "vectors of starts"},
                   {"updates", "windows of new values"}},
      .attrs = {required("update_window_dims", AttrKind::kInts, "dimensions of updates that run through the window"),
                required("inserted_window_dims", AttrKind::kInts,
                         "operand dimensions of window size 1 that updates lack"),
                optional("operand_batching_dims", "operand dimensions that run along with `indices`", Ints{}),
                optional("scatter_indices_batching_dims", "their counterparts in `indices`", Ints{}),
                required("scatter_dims_to_operand_dims", AttrKind::kInts, "operand dimension of each index component"),
                required("index_vector_dim", AttrKind::kInt, "the dimension of `indices` that holds the vectors"),
                optional("out_of_range", "\"drop\" or \"clamp\"", std::string("drop"))},
      .results = {{"out", "the operand with the updates"}},
      .constraints =
          [] {
            auto list = indexed_constraints(
                "updates have the batch sizes of indices, and windows that fit; a symbolic window covers its dimension",
                "drop");
            list.push_back({"C7", "operand and updates have one dtype"});
            return list;
          }(),
      .traits = {},
      .stages = ir::kTensorStages,
      .infer = infer_scatter,
      .reference = [combiner](const EvalContext& ctx) { return reference_scatter(ctx, combiner); },
      .fold = fold_by_reference(),
      .decompose = ir::no_rule("a primitive: loops follow from its access"),
      .vjp = vjp,
      .jvp = jvp_linear_in({0, 2}),
      .batch = batch_scatter,
      .factors = factors_scatter,
      .rank_rule = combiner == Combiner::kSum ? ir::RankRule::kScatterAdd : ir::RankRule::kScatterInto,
      .access = [combiner](const TypedOp& op) { return access_scatter(op, combiner); },
      .linearity = ir::jointly_linear({0, 2}),
      .lower = Lowering::kAccess,
      .cost =
          [](const TypedOp& op) {
            Cost cost = pointwise_cost(op, 0);
            cost.flops = op.operands[2].count();
            return cost;
          },
      .dtypes = combiner == Combiner::kNone ? DTypes::kAll : DTypes::kNumeric,
      .examples = {scatter_example(rows(), true, 6), scatter_example(windows(), false, 6),
                   scatter_example(along(), false, 6)},
      .draw =
          [](Rng& rng) {
            Scene s = draw_scene(rng);
            return scatter_example(s, random_bool(rng), 8);
          },
      .rejects = scatter_rejects(),
  };
}

std::vector<OpDef> gather_scatter_ops() {
  return {gather(),
          make_scatter("scatter_set",
                       "Writes updates over the operand at computed places. Where several updates have one place, the "
                       "last in row-major order stays, and only it has a derivative.",
                       Combiner::kNone),
          make_scatter("scatter_add",
                       "Adds updates to the operand at computed places. Several updates of one place all count, in "
                       "row-major order; 8- and 16-bit floats are summed in f32 and rounded once, integers wrap.",
                       Combiner::kSum)};
}

}  // namespace nabla::ops
