// What the ranks of a group exchange. The group of a rank are those that differ from it along the mesh axes `axes`
// alone, in the order of their coordinates there; without axes it is the rank alone. Each op joins all groups at once:
// every rank of the mesh runs it.
//
// Derivatives are those of a manual region (shard_map), where a value that is the same on all ranks counts once, and one
// that may differ counts on every rank; `vary` makes the second of the first. The transpose of an all_reduce is `vary`, and
// conversely. An all_gather gives one value to all, so that its cotangent is one, of which every rank takes its part.
#include <algorithm>

#include "ir/kernel_ir/eval.h"
#include "ir/ops/all_ops.h"
#include "ir/ops/common.h"
#include "ir/symbols.h"

namespace nabla::ops {
namespace {

using ir::Axes;
using kernel_ir::Combiner;

constexpr const char* kRanks = "ranks exchange values: no kernel computes it";

const ir::Constraint kGroup = {"C1", "shards is the number of ranks of a group: 1 without axes, at least 1 with them"};

AttrDef axes_attr() { return required("axes", AttrKind::kAxes, "mesh axes along which the ranks of a group differ"); }
AttrDef shards_attr() { return required("shards", AttrKind::kInt, "how many ranks a group has"); }

Status check_group(const InferContext& ctx) {
  int64_t shards = ctx.attrs.get_int("shards");
  bool alone = ctx.attrs.get_axes("axes").empty();
  if (shards >= 1 && (shards == 1 || !alone)) return Ok{};
  return ctx.fail(Code::kBadAttribute, "C1", "{} ranks along {}", shards, ir::str(ctx.attrs.get_axes("axes")));
}

Status check_dim(const InferContext& ctx, const char* name, std::string_view constraint) {
  int64_t dim = ctx.attrs.get_int(name);
  if (dim >= 0 && dim < ctx.rank(0)) return Ok{};
  return ctx.fail(Code::kBadAttribute, constraint, "{} is {}, of {} dimensions", name, dim, ctx.rank(0));
}

// The operands of the group, in order.
Literals group(const EvalContext& ctx) {
  if (!ctx.peers) return {ctx.operands[0]};
  return ctx.peers->exchange(ctx.attrs().get_axes("axes"), ctx.op, ctx.operands[0]);
}
int64_t coordinate(const EvalContext& ctx) {
  return ctx.peers ? ctx.peers->coordinate(ctx.attrs().get_axes("axes")) : 0;
}

Attrs group_attrs(const Attrs& attrs) {
  return {{"axes", attrs.get_axes("axes")}, {"shards", attrs.get_int("shards")}};
}

// The rank's part of a value along a dimension.
Val own_part(Val whole, const Attrs& group, int64_t dim) {
  int64_t shards = group.get_int("shards");
  Shape parts = whole.shape(), one = whole.shape();
  parts[dim] = Dim::floordiv(parts[dim], shards), one[dim] = parts[dim];
  parts.insert(parts.begin() + dim, shards);
  Ints sizes(parts.size(), -1);
  sizes[dim] = 1;
  std::vector<Val> operands(parts.size() + 1, whole.b->fill(DType::kI32, {}, 0));
  operands[0] = ir::reshape(whole, parts);
  operands[dim + 1] = whole.b->op("axis_index", {}, group);
  return ir::reshape(whole.b->op("dynamic_slice", operands, {{"sizes", sizes}}), one);
}

// ---- Combining.

std::optional<Combiner> combiner_of(const std::string& name) {
  return name == "mean" ? Combiner::kSum : kernel_ir::combiner_from_name(name);
}

Status check_combiner(const InferContext& ctx, std::string_view constraint) {
  const std::string& name = ctx.attrs.get_string("combiner");
  std::optional<Combiner> combiner = combiner_of(name);
  if (!combiner || combiner == Combiner::kNone)
    return ctx.fail(Code::kBadAttribute, constraint, "combiner is \"{}\"", name);
  DType dtype = ctx.operands[0].dtype;
  bool logical = combiner == Combiner::kAnd || combiner == Combiner::kOr;
  bool fits = logical ? !is_float(dtype) : dtype != DType::kBool;
  if (fits && (name != "mean" || is_float(dtype))) return Ok{};
  return ctx.fail(Code::kDTypeMismatch, constraint, "{} of {}", name, name_of(dtype));
}

// In the order of the ranks; 8- and 16-bit floats are combined in f32 and rounded once.
Literal combined(const Literals& parts, const std::string& name) {
  Combiner combiner = *combiner_of(name);
  DType own = parts[0].dtype(), wide = accumulation_type(own);
  Literal out = parts[0].converted(wide);
  for (size_t r = 1; r < parts.size(); ++r) {
    Literal next = parts[r].converted(wide);
    for (int64_t i = 0; i < out.size(); ++i)
      kernel_ir::set(out, i, kernel_ir::combine(combiner, wide, kernel_ir::get(out, i), kernel_ir::get(next, i)));
  }
  for (int64_t i = 0; name == "mean" && i < out.size(); ++i) out.set(i, out.get(i) / static_cast<double>(parts.size()));
  return out.converted(own);
}

AttrDef combiner_attr() {
  return optional("combiner", "\"sum\", \"mean\", \"prod\", \"max\", \"min\", \"and\" or \"or\"", std::string("sum"));
}
constexpr const char* kCombiners =
    "combiner is sum, prod, max or min of numbers, mean of floats, or and, or of bools and (bit by bit) of integers";

bool is_linear(const Attrs& attrs) {
  return attrs.get_string("combiner") == "sum" || attrs.get_string("combiner") == "mean";
}

bool is_extremum(const Attrs& attrs) {
  return attrs.get_string("combiner") == "max" || attrs.get_string("combiner") == "min";
}

template <class Context>
bool refused(Context& ctx) {
  if (is_linear(ctx.attrs())) return false;
  ctx.functions->refuse("of what ranks combine only sums, means, and an all_reduce's max and min have a derivative");
  return true;
}

// Of a maximum or minimum over ranks: 1 / n on each of the n ranks that have it, 0 on the others.
Val share(Val x, Val extremum, const Attrs& group) {
  Val has = ir::convert(x.b->op("eq", {x, x.b->op("vary", {extremum}, group)}), x.dtype());
  return has / x.b->op("vary", {x.b->op("all_reduce", {has}, group)}, group);
}

// ---- Parts of a dimension.

Type scaled(const Type& type, int64_t dim, const Dim& extent) {
  Type out = type;
  out.shape[dim] = extent;
  return out;
}

// Parts along a dimension one after the other.
Literal joined(const Literals& parts, int64_t dim) {
  Extents shape = parts[0].shape();
  int64_t each = shape[dim];
  shape[dim] *= static_cast<int64_t>(parts.size());
  Literal out(parts[0].dtype(), shape);
  for_each_index(shape, [&](const Extents& index, int64_t to) {
    Extents from = index;
    from[dim] = index[dim] % each;
    copy_element(out, to, parts[index[dim] / each], position_of(from, parts[0].shape()));
  });
  return out;
}

// Part `k` of `count` along a dimension.
Literal part(const Literal& whole, int64_t dim, int64_t count, int64_t k) {
  Extents shape = whole.shape();
  shape[dim] /= count;
  Literal out(whole.dtype(), shape);
  for_each_index(shape, [&](const Extents& index, int64_t to) {
    Extents from = index;
    from[dim] += k * shape[dim];
    copy_element(out, to, whole, position_of(from, whole.shape()));
  });
  return out;
}

// The extent of a part, or a refusal where the shards do not divide it.
Result<Dim> divided(const InferContext& ctx, int64_t dim, std::string_view constraint) {
  int64_t shards = ctx.attrs.get_int("shards");
  const Dim& whole = ctx.shape(0)[dim];
  Dim each = Dim::floordiv(whole, shards);
  if (Dim::mod(whole, shards).is(0)) return each;
  if (whole.is_static())
    return ctx.fail(Code::kShapeMismatch, constraint, "{} shards of {} elements in dimension {}", shards, whole.str(), dim);
  Diagnostic undecided = ctx.fail(Code::kUndecidable, constraint, "{} elements in dimension {} may not be divisible into {} shards",
                                  whole.str(), dim, shards);
  if (std::string help = ir::help_to_divide(whole, shards); !help.empty()) undecided.help = help;
  return undecided;
}

// The dimensions that ranks do not cut or join: along those of a mesh that are not manual they are sharded as they are.
std::function<Factors(const TypedOp&)> other_dims(std::vector<std::string> names) {
  return [names = std::move(names)](const TypedOp& op) {
    Factors out;
    out.operands.emplace_back(), out.results.emplace_back();
    for (int d = 0; d < op.operands[0].rank(); ++d) {
      std::string letter(1, static_cast<char>('a' + d));
      bool whole = std::any_of(names.begin(), names.end(), [&](const auto& n) { return op.attrs.get_int(n) == d; });
      auto kind = whole ? Factors::Kind::kReplicate : Factors::Kind::kPass;
      int from = out.add(letter, op.operands[0].shape[d], kind);
      int to = whole ? out.add(letter + "'", op.results[0].shape[d], kind) : from;
      out.operands[0].push_back({from}), out.results[0].push_back({to});
    }
    return out;
  };
}

// ---- Records.

Attrs alone(Attrs more = {}) {
  more.set("axes", Axes());
  more.set("shards", int64_t{1});
  return more;
}
Attrs pair(Attrs more = {}) {  // of two ranks, for what is inferred and not run
  more.set("axes", Axes{{"x"}});
  more.set("shards", int64_t{2});
  return more;
}

struct Spec {
  const char *name, *doc, *operand, *result;
  std::vector<AttrDef> attrs;
  std::vector<ir::Constraint> constraints;
  ir::Shape example = {4, 3};
  Attrs options = {};  ///< of examples, beside axes and shards
  std::vector<Reject> rejects = {};
};

// What all have in common; linear in the operand, and batched as its attributes say.
OpDef collective(Spec spec) {
  std::vector<AttrDef> attrs = {axes_attr(), shards_attr()};
  attrs.insert(attrs.end(), spec.attrs.begin(), spec.attrs.end());
  std::vector<ir::Constraint> constraints = {kGroup};
  constraints.insert(constraints.end(), spec.constraints.begin(), spec.constraints.end());
  Attrs none = alone(spec.options), many = alone(spec.options);
  none.set("shards", int64_t{0}), many.set("shards", int64_t{2});
  std::vector<Reject> rejects = {{"C1", {f32(spec.example)}, none}, {"C1", {f32(spec.example)}, many}};
  rejects.insert(rejects.end(), spec.rejects.begin(), spec.rejects.end());
  OpDef op = {
      .name = spec.name,
      .version = 1,
      .category = "collective",
      .doc = spec.doc,
      .operands = {{"x", spec.operand}},
      .attrs = std::move(attrs),
      .results = {{"y", spec.result}},
      .constraints = std::move(constraints),
      .traits = {},
      .stages = ir::kAllStages,
      .infer = [](const InferContext& ctx) -> InferResult {
        (void)NABLA_TRY(check_group(ctx));
        return Types{ctx.operands[0]};
      },
      .reference = ir::no_rule(""),
      .fold = ir::no_rule("ranks may give different values"),
      .decompose = ir::no_rule("a primitive of communication"),
      .vjp = ir::no_rule(""),
      .jvp = jvp_linear,
      .batch = batch_elementwise,
      .factors = Factors::pointwise,
      .access = ir::no_rule(kRanks),
      .linearity = ir::not_linear(),
      .lower = Lowering::kCollective,
      .cost = [](const TypedOp& op) { return ir::pointwise_cost(op, 0); },
      .varying = ir::Varying::kOwn,
      .dtypes = DTypes::kAll,
      .examples = {{{operand(f32(spec.example))}, alone(spec.options)}},
      .draw =
          [options = spec.options, rank = static_cast<int>(spec.example.size())](Rng& rng) {
            return Example{{operand(f32(random_shape(rng, rank)))}, alone(options)};
          },
      .rejects = std::move(rejects)};
  return op;
}

OpDef all_reduce_op() {
  Attrs bad = alone(), logical = alone();
  bad.set("combiner", std::string("median")), logical.set("combiner", std::string("and"));
  OpDef op = collective({.name = collective_def(CollectiveKind::kAllReduce).name,
                         .doc = "Combines the values of a group element by element; every rank gets the result.",
                         .operand = "a rank's value",
                         .result = "the combination",
                         .attrs = {combiner_attr()},
                         .constraints = {{"C2", kCombiners}},
                         .rejects = {{"C2", {f32({4})}, bad}, {"C2", {f32({4})}, logical}}});
  op.dtypes = DTypes::kNumeric;
  op.varying = ir::Varying::kCombined;
  op.collective = &collective_def(CollectiveKind::kAllReduce);
  op.infer = [](const InferContext& ctx) -> InferResult {
    (void)NABLA_TRY(check_group(ctx));
    (void)NABLA_TRY(check_combiner(ctx, "C2"));
    return Types{ctx.operands[0]};
  };
  op.reference = [](const EvalContext& ctx) {
    return Literals{combined(group(ctx), ctx.attrs().get_string("combiner"))};
  };
  op.vjp = [](VjpContext& ctx) -> std::vector<MaybeVal> {
    const Attrs group = group_attrs(ctx.attrs());
    int64_t shards = ctx.attrs().get_int("shards");
    Val out = ctx.b.op("vary", {ctx.ct()}, group);
    if (is_extremum(ctx.attrs())) return {out * share(ctx.operand(0), ctx.result(), group)};
    if (refused(ctx)) return {std::nullopt};
    return {ctx.attrs().get_string("combiner") == "mean" ? out * (1.0 / static_cast<double>(shards)) : out};
  };
  op.jvp = [](JvpContext& ctx) -> std::vector<MaybeVal> {
    const Attrs group = group_attrs(ctx.attrs());
    if (is_extremum(ctx.attrs()))
      return {ctx.b.op("all_reduce", {ctx.tangent(0) * share(ctx.operand(0), ctx.result(), group)}, group)};
    return refused(ctx) ? std::vector<MaybeVal>{std::nullopt} : jvp_linear(ctx);
  };
  return op;
}

OpDef vary_op() {
  OpDef op = collective({.name = "vary",
                         .doc = "The operand, as a value that may differ along the axes: it costs nothing. Its transpose "
                                "is an all_reduce.",
                         .operand = "a value that is the same on all ranks of a group",
                         .result = "the same"});
  op.layout_role = ir::LayoutRole::kVary;
  op.reference = [](const EvalContext& ctx) { return Literals{ctx.operands[0]}; };
  op.vjp = [](VjpContext& ctx) -> std::vector<MaybeVal> {
    return {ctx.b.op("all_reduce", {ctx.ct()},
                     {{"axes", ctx.attrs().get_axes("axes")}, {"shards", ctx.attrs().get_int("shards")}})};
  };
  return op;
}

OpDef all_gather_op() {
  Attrs outside = alone();
  outside.set("dim", int64_t{2});
  OpDef op = collective({.name = collective_def(CollectiveKind::kAllGather).name,
                         .doc = "Joins the values of a group along a dimension; every rank gets the whole.",
                         .operand = "a rank's part",
                         .result = "the parts one after the other",
                         .attrs = {required("dim", AttrKind::kInt, "along which they are joined"),
                                   optional("instance",
                                            "tells gathers apart that are made again on purpose: equal ones are merged",
                                            int64_t{0})},
                         .constraints = {{"C2", "dim is a dimension of the operand"}},
                         .options = {{"dim", int64_t{1}}},
                         .rejects = {{"C2", {f32({4, 3})}, outside}}});
  op.collective = &collective_def(CollectiveKind::kAllGather);
  op.infer = [](const InferContext& ctx) -> InferResult {
    (void)NABLA_TRY(check_group(ctx));
    (void)NABLA_TRY(check_dim(ctx, "dim", "C2"));
    int64_t dim = ctx.attrs.get_int("dim");
    return Types{scaled(ctx.operands[0], dim, ctx.shape(0)[dim] * ctx.attrs.get_int("shards"))};
  };
  op.reference = [](const EvalContext& ctx) { return Literals{joined(group(ctx), ctx.attrs().get_int("dim"))}; };
  op.vjp = [](VjpContext& ctx) -> std::vector<MaybeVal> {
    const Attrs group = group_attrs(ctx.attrs());
    return {own_part(ctx.b.op("vary", {ctx.ct()}, group), group, ctx.attrs().get_int("dim"))};
  };
  op.batch = batch_shifting({"dim"});
  op.factors = other_dims({"dim"});
  op.varying = ir::Varying::kCombined;
  return op;
}

OpDef reduce_scatter_op() {
  Attrs outside = alone(), bad = alone({{"dim", int64_t{0}}});
  outside.set("dim", int64_t{-1});
  bad.set("combiner", std::string("median"));
  OpDef op = collective({.name = collective_def(CollectiveKind::kReduceScatter).name,
                         .doc = "Combines the values of a group element by element; every rank gets its part along a "
                                "dimension.",
                         .operand = "a rank's value",
                         .result = "the rank's part of the combination",
                         .attrs = {required("dim", AttrKind::kInt, "along which the result is cut"), combiner_attr()},
                         .constraints = {{"C2", "dim is a dimension of the operand, and shards divides it"},
                                         {"C3", kCombiners}},
                         .options = {{"dim", int64_t{0}}},
                         .rejects = {{"C2", {f32({4, 3})}, outside},
                                     {"C2", {f32({3, 3})}, pair({{"dim", int64_t{0}}})},
                                     {"C3", {f32({4, 3})}, bad}}});
  op.dtypes = DTypes::kNumeric;
  op.collective = &collective_def(CollectiveKind::kReduceScatter);
  op.infer = [](const InferContext& ctx) -> InferResult {
    (void)NABLA_TRY(check_group(ctx));
    (void)NABLA_TRY(check_dim(ctx, "dim", "C2"));
    (void)NABLA_TRY(check_combiner(ctx, "C3"));
    int64_t dim = ctx.attrs.get_int("dim");
    return Types{scaled(ctx.operands[0], dim, NABLA_TRY(divided(ctx, dim, "C2")))};
  };
  op.reference = [](const EvalContext& ctx) {
    Literal whole = combined(group(ctx), ctx.attrs().get_string("combiner"));
    return Literals{part(whole, ctx.attrs().get_int("dim"), ctx.attrs().get_int("shards"), coordinate(ctx))};
  };
  op.vjp = [](VjpContext& ctx) -> std::vector<MaybeVal> {
    if (refused(ctx)) return {std::nullopt};
    int64_t shards = ctx.attrs().get_int("shards");
    Attrs group = group_attrs(ctx.attrs()), along = group;
    along.set("dim", ctx.attrs().get_int("dim"));
    Val out = ctx.b.op("vary", {ctx.b.op("all_gather", {ctx.ct()}, along)}, group);
    return {ctx.attrs().get_string("combiner") == "mean" ? out * (1.0 / static_cast<double>(shards)) : out};
  };
  op.jvp = [](JvpContext& ctx) -> std::vector<MaybeVal> {
    return refused(ctx) ? std::vector<MaybeVal>{std::nullopt} : jvp_linear(ctx);
  };
  op.batch = batch_shifting({"dim"});
  op.factors = other_dims({"dim"});
  return op;
}

OpDef all_to_all_op() {
  auto dims = [](int64_t split, int64_t join) { return Attrs{{"split", split}, {"join", join}}; };
  OpDef op = collective(
      {.name = collective_def(CollectiveKind::kAllToAll).name,
       .doc = "Every rank cuts its value along one dimension, gives part k to the k-th rank of its group, and joins what it "
              "gets along another.",
       .operand = "a rank's value",
       .result = "what the ranks of the group gave, in their order",
       .attrs = {required("split", AttrKind::kInt, "along which the operand is cut"),
                 required("join", AttrKind::kInt, "along which the result is joined")},
       .constraints = {{"C2", "split and join are dimensions of the operand, and shards divides that of split"}},
       .options = dims(0, 1),
       .rejects = {{"C2", {f32({4, 3})}, alone(dims(2, 0))},
                   {"C2", {f32({4, 3})}, alone(dims(0, 2))},
                   {"C2", {f32({4, 3})}, pair(dims(1, 0))}}});
  op.collective = &collective_def(CollectiveKind::kAllToAll);
  op.infer = [](const InferContext& ctx) -> InferResult {
    (void)NABLA_TRY(check_group(ctx));
    (void)NABLA_TRY(check_dim(ctx, "split", "C2"));
    (void)NABLA_TRY(check_dim(ctx, "join", "C2"));
    int64_t split = ctx.attrs.get_int("split"), join = ctx.attrs.get_int("join");
    Type cut = scaled(ctx.operands[0], split, NABLA_TRY(divided(ctx, split, "C2")));
    return Types{scaled(cut, join, cut.shape[join] * ctx.attrs.get_int("shards"))};
  };
  op.reference = [](const EvalContext& ctx) {
    Literals mine;
    for (const Literal& whole : group(ctx))
      mine.push_back(part(whole, ctx.attrs().get_int("split"), ctx.attrs().get_int("shards"), coordinate(ctx)));
    return Literals{joined(mine, ctx.attrs().get_int("join"))};
  };
  op.vjp = [](VjpContext& ctx) -> std::vector<MaybeVal> {
    Attrs back = ctx.attrs();
    back.set("split", ctx.attrs().get_int("join")), back.set("join", ctx.attrs().get_int("split"));
    return {ctx.b.op("all_to_all", {ctx.ct()}, back)};
  };
  op.batch = batch_shifting({"split", "join"});
  op.factors = other_dims({"split", "join"});
  return op;
}

OpDef permute_op() {
  auto pairs = [](Ints list) { return Attrs{{"pairs", std::move(list)}}; };
  OpDef op = collective(
      {.name = collective_def(CollectiveKind::kPermute).name,
       .doc = "Ranks send their values within their group. A rank to which nobody sends gets zeros.",
       .operand = "a rank's value",
       .result = "what the rank is sent",
       .attrs = {required("pairs", AttrKind::kInts, "source and destination of each message: coordinates in the group")},
       .constraints = {{"C2", "pairs is a list of pairs of coordinates below shards; none is a source twice, none a "
                              "destination twice"}},
       .options = pairs({0, 0}),
       .rejects = {{"C2", {f32({4})}, alone(pairs({0}))},
                   {"C2", {f32({4})}, alone(pairs({0, 1}))},
                   {"C2", {f32({4})}, pair(pairs({0, 1, 1, 1}))},
                   {"C2", {f32({4})}, pair(pairs({0, 0, 0, 1}))}}});
  op.collective = &collective_def(CollectiveKind::kPermute);
  op.infer = [](const InferContext& ctx) -> InferResult {
    (void)NABLA_TRY(check_group(ctx));
    const Ints& list = ctx.attrs.get_ints("pairs");
    int64_t shards = ctx.attrs.get_int("shards");
    if (list.size() % 2 != 0) return ctx.fail(Code::kBadAttribute, "C2", "{} coordinates are no pairs", list.size());
    for (size_t i = 0; i < list.size(); ++i) {
      if (list[i] < 0 || list[i] >= shards)
        return ctx.fail(Code::kBadAttribute, "C2", "{} is no coordinate of {} ranks", list[i], shards);
      for (size_t j = i % 2; j < i; j += 2)
        if (list[j] == list[i])
          return ctx.fail(Code::kBadAttribute, "C2", "{} is a {} twice", list[i], i % 2 ? "destination" : "source");
    }
    return Types{ctx.operands[0]};
  };
  op.reference = [](const EvalContext& ctx) {
    Literals sent = group(ctx);
    const Ints& list = ctx.attrs().get_ints("pairs");
    for (size_t i = 0; i < list.size(); i += 2)
      if (list[i + 1] == coordinate(ctx)) return Literals{sent[list[i]]};
    return Literals{zeros(ctx.op.results[0])};
  };
  op.vjp = [](VjpContext& ctx) -> std::vector<MaybeVal> {
    Attrs back = ctx.attrs();
    Ints list = ctx.attrs().get_ints("pairs");
    for (size_t i = 0; i < list.size(); i += 2) std::swap(list[i], list[i + 1]);
    back.set("pairs", list);
    return {ctx.b.op("permute", {ctx.ct()}, back)};
  };
  return op;
}

OpDef axis_index_op() {
  Attrs none = alone(), many = alone();
  none.set("shards", int64_t{0}), many.set("shards", int64_t{2});
  OpDef op = collective({.name = "axis_index",
                         .doc = "The rank's coordinate along mesh axes, as one number: the last axis is the fastest.",
                         .operand = "",
                         .result = "i32[]"});
  op.operands.clear();
  op.infer = [](const InferContext& ctx) -> InferResult {
    (void)NABLA_TRY(check_group(ctx));
    return Types{i32()};
  };
  op.reference = [](const EvalContext& ctx) { return Literals{Literal::scalar_int(DType::kI32, coordinate(ctx))}; };
  op.vjp = ir::not_differentiable("it has no operand");
  op.jvp = ir::not_differentiable("it has no operand");
  op.batch = ir::no_rule("it has no operand, so no batch reaches it");
  op.factors = ir::no_rule("a scalar that each rank knows has nothing to split");
  op.as_size = [](const ir::SizeContext& c) -> std::optional<Dim> { return c.coordinate(c.attrs.get_axes("axes")); };
  op.cost = [](const TypedOp&) { return Cost{Dim(0), Dim(0)}; };
  op.dtypes = DTypes::kAsWritten;
  op.examples = {{{}, alone()}};
  op.draw = [](Rng&) { return Example{{}, alone()}; };
  op.rejects = {{"C1", {}, none}, {"C1", {}, many}};
  return op;
}

}  // namespace

std::vector<OpDef> collective_ops() {
  std::vector<OpDef> out = {all_reduce_op(), vary_op(),    all_gather_op(), reduce_scatter_op(),
                            all_to_all_op(), permute_op(), axis_index_op()};
  for (auto family : {manual_ops, layout_ops})
    for (OpDef& op : family()) out.push_back(std::move(op));
  return out;
}

}  // namespace nabla::ops
