// Ops that move elements: reshape, transpose, broadcast_in_dim; and the identities stop_gradient and copy.
#include "ir/ops/movement/movement.h"

#include <algorithm>

#include "ir/ops/all_ops.h"
#include "ir/ops/batch_layout.h"
#include "ir/ops/movement/strided.h"

namespace nabla::ops {
namespace {

using kernel_ir::Expr;
using kernel_ir::Fragment;



// A map over the result whose value is operand 0 at `source` of the result's axes.
Fragment gather_fragment(const TypedOp& op, const std::function<std::vector<Expr>(const std::vector<Expr>&)>& source) {
  Fragment out;
  const Type& result = op.results[0];
  std::vector<int> axes = out.add_axes("i", result.shape);
  out.results = {out.map("y", result.dtype, axes, load_operand(op, 0, source(kernel_ir::axes_as_indices(axes))))};
  return out;
}

// ---- reshape

// A run of operand dimensions and a run of result dimensions with the same product, as short as possible.
struct ReshapeGroup {
  std::vector<int> operand, result;
};

std::vector<ReshapeGroup> reshape_groups(const Shape& from, const Shape& to) {
  std::vector<ReshapeGroup> groups;
  size_t i = 0, j = 0;
  while (i < from.size() || j < to.size()) {
    ReshapeGroup group;
    Dim a(1), b(1);
    auto take_operand = [&] { a = a * from[i], group.operand.push_back(static_cast<int>(i++)); };
    auto take_result = [&] { b = b * to[j], group.result.push_back(static_cast<int>(j++)); };
    // Dimensions of extent 1 stand alone.
    if (i < from.size() && from[i].is(1))
      take_operand();
    else if (j < to.size() && to[j].is(1))
      take_result();
    else {
      if (i < from.size()) take_operand();
      if (j < to.size()) take_result();
      while (!(a == b) && (i < from.size() || j < to.size())) {
        bool operand_is_smaller = Dim::less_equal(a, b).value_or(j >= to.size());
        if ((operand_is_smaller && i < from.size()) || j >= to.size())
          take_operand();
        else
          take_result();
      }
    }
    groups.push_back(std::move(group));
  }
  return groups;
}

std::vector<Expr> reshape_source(const TypedOp& op, const std::vector<Expr>& at) {
  const Shape &from = op.operands[0].shape, &to = op.results[0].shape;
  std::vector<Expr> source(from.size(), kernel_ir::index(0));
  for (const ReshapeGroup& group : reshape_groups(from, to)) {
    Expr position = kernel_ir::index(0);
    for (int d : group.result) position = position * kernel_ir::dim(to[d]) + at[d];
    for (size_t k = group.operand.size(); k-- > 0;) {
      int d = group.operand[k];
      if (k == 0) {
        source[d] = position;
        break;
      }
      Expr extent = kernel_ir::dim(from[d]);
      if (from[d].is(0)) continue;  // nothing is read
      source[d] = kernel_ir::call("mod", {position, extent});
      position = kernel_ir::call("floordiv", {position, extent});
    }
  }
  return source;
}

// Splits the dimensions of a group into common factors, major first; false where the sizes do not divide.
bool common_factors(const Shape& from, const Shape& to, const ReshapeGroup& group, Factors& out) {
  size_t i = 0, j = 0;
  Dim a(1), b(1);
  Factors added = out;
  while (true) {
    if (a.is(1) && i < group.operand.size()) a = from[group.operand[i++]];
    if (b.is(1) && j < group.result.size()) b = to[group.result[j++]];
    if (a.is(1) || b.is(1)) break;
    auto divides = [](const Dim& whole, const Dim& part) {
      return part.bounds().min > 0 && Dim::floordiv(whole, part) * part == whole;
    };
    Dim size = a;
    if (a == b)
      a = Dim(1), b = Dim(1);
    else if (divides(b, a))
      b = Dim::floordiv(b, a), a = Dim(1);
    else if (divides(a, b))
      size = b, a = Dim::floordiv(a, b), b = Dim(1);
    else
      return false;
    int f = added.add(std::string(1, static_cast<char>('a' + added.factors.size())), size);
    added.operands[0][group.operand[i - 1]].push_back(f);
    added.results[0][group.result[j - 1]].push_back(f);
  }
  if (!a.is(1) || !b.is(1) || i < group.operand.size() || j < group.result.size()) return false;
  out = std::move(added);
  return true;
}

Factors reshape_factors(const TypedOp& op) {
  const Shape &from = op.operands[0].shape, &to = op.results[0].shape;
  Factors out;
  out.operands = {Factors::Tensor(from.size())};
  out.results = {Factors::Tensor(to.size())};
  for (const ReshapeGroup& group : reshape_groups(from, to)) {
    if (common_factors(from, to, group, out)) continue;
    auto keep_whole = [&](Factors::Tensor& tensor, const Shape& shape, const std::vector<int>& dims) {
      for (int d : dims)
        tensor[d] = {
            out.add(std::string(1, static_cast<char>('a' + out.factors.size())), shape[d], Factors::Kind::kReplicate)};
    };
    keep_whole(out.operands[0], from, group.operand);
    keep_whole(out.results[0], to, group.result);
  }
  return out;
}

InferResult infer_reshape(const InferContext& ctx) {
  const Shape& shape = ctx.attrs.get_shape("shape");
  for (const Dim& d : shape)
    if (d.bounds().min < 0) return ctx.fail(Code::kBadAttribute, "C2", "shape {} has a negative size", ir::str(shape));
  Type result(ctx.operands[0].dtype, shape);
  NABLA_TRY(ctx.require_equal(ctx.operands[0].count(), result.count(), "C1", "numbers of elements"));
  return Types{result};
}

Example draw_reshape(Rng& rng) {
  Extents to = random_extents(rng, static_cast<int>(random_int(rng, 0, 4)));
  // Joining neighbours, and adding ones, gives a shape of the same size.
  Extents from;
  for (int64_t extent : to) {
    if (!from.empty() && random_bool(rng))
      from.back() *= extent;
    else
      from.push_back(extent);
    if (random_int(rng, 0, 4) == 0) from.push_back(1);
  }
  if (random_bool(rng)) std::swap(from, to);
  return {{operand(f32(ir::static_shape(from)))}, {{"shape", ir::static_shape(to)}}};
}

OpDef reshape_op() {
  return {
      .name = "reshape",
      .version = 1,
      .category = "movement",
      .doc = "The same elements in row-major order under another shape of the same size.",
      .operands = {{"x", "any type"}},
      .attrs = {required("shape", AttrKind::kShape, "of the result")},
      .results = {{"y", "x's elements in the given shape"}},
      .constraints = {{"C1", "the numbers of elements are equal"}, {"C2", "no size is negative"}},
      .traits = {},
      .stages = ir::kAllStages,
      .infer = infer_reshape,
      .reference =
          [](const EvalContext& ctx) { return Literals{ctx.operands[0].reshaped(ctx.op.results[0].extents())}; },
      .fold = fold_by_reference(),
      .decompose = ir::no_rule(kPrimitive),
      .vjp = [](VjpContext& ctx) { return std::vector<MaybeVal>{ir::reshape(ctx.ct(), ctx.operand(0).shape())}; },
      .jvp = jvp_linear,
      .batch =
          [](BatchContext& ctx) {
            return batch_with(ctx, {{"shape", prepend(ctx.size, ctx.attrs().get_shape("shape"))}});
          },
      .factors = reshape_factors,
      .form = ir::OpForm::kReshape,
      .as_size = [](const ir::SizeContext& c) { return c.operands[0]; },
      .localise = localise_shape,
      .access =
          [](const TypedOp& op) {
            return gather_fragment(op, [&](const std::vector<Expr>& at) { return reshape_source(op, at); });
          },
      .linearity = ir::moves({0}),
      .lower = Lowering::kView,
      .cost =
          [](const TypedOp&) {
            return Cost{Dim(0), Dim(0)};
          },
      .dtypes = DTypes::kAll,
      .examples = {{{operand(f32({2, 6}))}, {{"shape", ir::static_shape({4, 3})}}},
                   {{operand(f32({2, 3, 4}), awkward())}, {{"shape", ir::static_shape({6, 2, 1, 2})}}},
                   {{operand(f32({1, 1}))}, {{"shape", Shape{}}}},
                   {{operand(f32({0, 3}))}, {{"shape", ir::static_shape({3, 0, 2})}}}},
      .draw = draw_reshape,
      .rejects = {{"C1", {f32({2, 3})}, {{"shape", ir::static_shape({5})}}},
                  {"C2", {f32({2, 3})}, {{"shape", ir::static_shape({-2, -3})}}}},
  };
}

// ---- transpose

InferResult infer_transpose(const InferContext& ctx) {
  const Ints& permutation = ctx.attrs.get_ints("permutation");
  if (static_cast<int>(permutation.size()) != ctx.rank(0))
    return ctx.fail(Code::kBadAttribute, "C1", "permutation has {} entries, the operand {} dimensions",
                    permutation.size(), ctx.rank(0));
  NABLA_TRY(require_axes(ctx, permutation, ctx.rank(0), "C1"));
  Type result(ctx.operands[0].dtype, {});
  for (int64_t p : permutation) result.shape.push_back(ctx.shape(0)[p]);
  return Types{result};
}

Ints inverse(const Ints& permutation) {
  Ints out(permutation.size());
  for (size_t i = 0; i < permutation.size(); ++i) out[permutation[i]] = static_cast<int64_t>(i);
  return out;
}

OpDef transpose_op() {
  return {
      .name = "transpose",
      .version = 1,
      .category = "movement",
      .doc = "The dimensions in another order: dimension i of the result is dimension permutation[i] of x.",
      .operands = {{"x", "any type"}},
      .attrs = {required("permutation", AttrKind::kInts, "each dimension of x once")},
      .results = {{"y", "x with its dimensions permuted"}},
      .constraints = {{"C1", "permutation names every dimension of x once"}},
      .traits = {},
      .stages = ir::kTensorStages,
      .infer = infer_transpose,
      .reference =
          [](const EvalContext& ctx) {
            Extents strides = strides_of(ctx.operands[0].shape()), source;
            for (int64_t d : ctx.attrs().get_ints("permutation")) source.push_back(strides[d]);
            return Literals{gathered(ctx.operands[0], ctx.op.results[0], std::move(source))};
          },
      .fold = fold_by_reference(),
      .decompose = ir::no_rule(kPrimitive),
      .vjp =
          [](VjpContext& ctx) {
            return std::vector<MaybeVal>{ir::transpose(ctx.ct(), inverse(ctx.attrs().get_ints("permutation")))};
          },
      .jvp = jvp_linear,
      .batch =
          [](BatchContext& ctx) {
            Ints permutation = shifted(ctx.attrs().get_ints("permutation"));
            permutation.insert(permutation.begin(), 0);
            return batch_with(ctx, {{"permutation", permutation}});
          },
      .factors =
          [](const TypedOp& op) {
            std::string from, to;
            for (int i = 0; i < op.operands[0].rank(); ++i) from += static_cast<char>('a' + i);
            for (int64_t p : op.attrs.get_ints("permutation")) to += from[p];
            return Factors::einsum(from + "->" + to, op);
          },
      .access =
          [](const TypedOp& op) {
            return gather_fragment(op, [&](const std::vector<Expr>& at) {
              std::vector<Expr> source(at.size());
              const Ints& permutation = op.attrs.get_ints("permutation");
              for (size_t d = 0; d < at.size(); ++d) source[permutation[d]] = at[d];
              return source;
            });
          },
      .linearity = ir::moves({0}),
      .lower = Lowering::kAccess,
      .cost = movement_cost,
      .dtypes = DTypes::kAll,
      .examples = {{{operand(f32({2, 3}), awkward())}, {{"permutation", Ints{1, 0}}}},
                   {{operand(f32({2, 3, 4}))}, {{"permutation", Ints{2, 0, 1}}}},
                   {{operand(f32({}))}, {{"permutation", Ints{}}}}},
      .draw = [](Rng& rng) -> Example {
        int rank = static_cast<int>(random_int(rng, 0, 4));
        return {{operand(f32(random_shape(rng, rank)))}, {{"permutation", random_permutation(rng, rank)}}};
      },
      .rejects = {{"C1", {f32({2, 3})}, {{"permutation", Ints{0}}}},
                  {"C1", {f32({2, 3})}, {{"permutation", Ints{0, 0}}}},
                  {"C1", {f32({2, 3})}, {{"permutation", Ints{0, 2}}}}},
  };
}

// ---- broadcast_in_dim

InferResult infer_broadcast(const InferContext& ctx) {
  const Shape& shape = ctx.attrs.get_shape("shape");
  const Ints& dims = ctx.attrs.get_ints("dims");
  if (static_cast<int>(dims.size()) != ctx.rank(0))
    return ctx.fail(Code::kBadAttribute, "C1", "dims has {} entries, the operand {} dimensions", dims.size(),
                    ctx.rank(0));
  for (size_t i = 0; i < dims.size(); ++i) {
    NABLA_TRY(ctx.require_axis(dims[i], static_cast<int>(shape.size()), "C2"));
    if (i && dims[i] <= dims[i - 1])
      return ctx.fail(Code::kBadAttribute, "C2", "dims must ascend, but {} follows {}", dims[i], dims[i - 1]);
    if (ctx.shape(0)[i].is(1)) continue;
    NABLA_TRY(ctx.require_equal(ctx.shape(0)[i], shape[dims[i]], "C3",
                                fmt::format("sizes of operand dimension {} and result dimension {}", i, dims[i])));
  }
  for (const Dim& d : shape)
    if (d.bounds().min < 0) return ctx.fail(Code::kBadAttribute, "C4", "shape {} has a negative size", ir::str(shape));
  return Types{{ctx.operands[0].dtype, shape}};
}

// Is operand dimension i repeated?
bool expands(const Type& operand, const Shape& shape, const Ints& dims, size_t i) {
  return operand.shape[i].is(1) && !shape[dims[i]].is(1);
}

std::vector<MaybeVal> broadcast_vjp(VjpContext& ctx) {
  const Ints& dims = ctx.attrs().get_ints("dims");
  const Type& x = ctx.operand(0).type();
  Ints summed = other_axes(ctx.result().rank(), dims);
  for (size_t i = 0; i < dims.size(); ++i)
    if (expands(x, ctx.result().shape(), dims, i)) summed.push_back(dims[i]);
  std::sort(summed.begin(), summed.end());
  return {ir::reshape(ir::reduce_sum(ctx.ct(), summed), x.shape)};
}

Factors broadcast_factors(const TypedOp& op) {
  const Ints& dims = op.attrs.get_ints("dims");
  const Shape& shape = op.results[0].shape;
  Factors out;
  Factors::Tensor result, operand(op.operands[0].rank());
  for (size_t d = 0; d < shape.size(); ++d)
    result.push_back({out.add(std::string(1, static_cast<char>('a' + d)), shape[d])});
  for (size_t i = 0; i < dims.size(); ++i)
    if (!expands(op.operands[0], shape, dims, i)) operand[i] = result[dims[i]];
  out.operands = {operand};
  out.results = {result};
  return out;
}

Example draw_broadcast(Rng& rng) {
  int rank = static_cast<int>(random_int(rng, 0, 4));
  Extents to = random_extents(rng, rank);
  Ints dims = random_axes(rng, rank);
  Extents from;
  for (int64_t d : dims) from.push_back(random_int(rng, 0, 2) == 0 ? 1 : to[d]);
  return {{operand(f32(ir::static_shape(from)))}, {{"shape", ir::static_shape(to)}, {"dims", dims}}};
}

OpDef broadcast_op() {
  return {
      .name = "broadcast_in_dim",
      .version = 1,
      .category = "movement",
      .doc =
          "x repeated: dimension i of x becomes dimension dims[i] of the result, and x is repeated along the other "
          "dimensions and along those where x has extent 1.",
      .operands = {{"x", "any type"}},
      .attrs = {required("shape", AttrKind::kShape, "of the result"),
                required("dims", AttrKind::kInts, "ascending; where the dimensions of x go")},
      .results = {{"y", "of the given shape"}},
      .constraints = {{"C1", "dims has one entry per dimension of x"},
                      {"C2", "dims ascends within the result's dimensions"},
                      {"C3", "each dimension of x is 1 or the size of its dimension of the result"},
                      {"C4", "no size is negative"}},
      .traits = {},
      .stages = ir::kTensorStages,
      .infer = infer_broadcast,
      .reference =
          [](const EvalContext& ctx) {
            const Literal& x = ctx.operands[0];
            const Ints& dims = ctx.attrs().get_ints("dims");
            Extents strides = strides_of(x.shape()), source(ctx.op.results[0].rank(), 0);
            for (size_t d = 0; d < dims.size(); ++d)
              if (x.shape()[d] != 1) source[dims[d]] = strides[d];
            return Literals{gathered(x, ctx.op.results[0], std::move(source))};
          },
      .fold = ir::no_rule("a folded broadcast would swell the bundle"),
      .decompose = ir::no_rule(kPrimitive),
      .vjp = broadcast_vjp,
      .jvp = jvp_linear,
      .batch =
          [](BatchContext& ctx) {
            Ints dims = shifted(ctx.attrs().get_ints("dims"));
            dims.insert(dims.begin(), 0);
            return batch_with(ctx, {{"shape", prepend(ctx.size, ctx.attrs().get_shape("shape"))}, {"dims", dims}});
          },
      .factors = broadcast_factors,
      .form = ir::OpForm::kBroadcast,
      .localise = localise_shape,
      .access =
          [](const TypedOp& op) {
            return gather_fragment(op, [&](const std::vector<Expr>& at) {
              const Ints& dims = op.attrs.get_ints("dims");
              std::vector<Expr> source;
              for (size_t i = 0; i < dims.size(); ++i)
                source.push_back(expands(op.operands[0], op.results[0].shape, dims, i) ? kernel_ir::index(0)
                                                                                       : at[dims[i]]);
              return source;
            });
          },
      .linearity = ir::moves({0}),
      .lower = Lowering::kAccess,
      .cost = movement_cost,
      .dtypes = DTypes::kAll,
      .examples = {{{operand(f32({3}))}, {{"shape", ir::static_shape({2, 3})}, {"dims", Ints{1}}}},
                   {{operand(f32({2, 1}), awkward())}, {{"shape", ir::static_shape({2, 4, 3})}, {"dims", Ints{0, 2}}}},
                   {{operand(f32({}))}, {{"shape", ir::static_shape({0, 3})}, {"dims", Ints{}}}}},
      .draw = draw_broadcast,
      .rejects = {{"C1", {f32({3})}, {{"shape", ir::static_shape({2, 3})}, {"dims", Ints{}}}},
                  {"C2", {f32({3})}, {{"shape", ir::static_shape({2, 3})}, {"dims", Ints{2}}}},
                  {"C2", {f32({2, 3})}, {{"shape", ir::static_shape({3, 2})}, {"dims", Ints{1, 0}}}},
                  {"C3", {f32({4})}, {{"shape", ir::static_shape({2, 3})}, {"dims", Ints{1}}}},
                  {"C4", {f32({})}, {{"shape", ir::static_shape({-2})}, {"dims", Ints{}}}}},
  };
}

// ---- stop_gradient and copy

OpDef identity_op(std::string name, std::string category, std::string doc, Lowering lower,
                  ir::Rule<std::vector<MaybeVal>(VjpContext&)> vjp, ir::Rule<std::vector<MaybeVal>(JvpContext&)> jvp) {
  return {
      .name = std::move(name),
      .version = 1,
      .category = std::move(category),
      .doc = std::move(doc),
      .operands = {{"x", "any type"}},
      .attrs = {},
      .results = {{"y", "x"}},
      .constraints = {},
      .traits = {.elementwise = true},
      .stages = ir::kTensorStages,
      .infer = [](const InferContext& ctx) -> InferResult { return Types{ctx.operands[0]}; },
      .reference = [](const EvalContext& ctx) { return Literals{ctx.operands[0]}; },
      .fold = fold_by_reference(),
      .decompose = ir::no_rule(kPrimitive),
      .vjp = std::move(vjp),
      .jvp = std::move(jvp),
      .batch = batch_elementwise,
      .factors = [](const TypedOp& op) { return Factors::pointwise(op); },
      .access = [](const TypedOp& op) { return gather_fragment(op, [](const std::vector<Expr>& at) { return at; }); },
      .linearity = ir::moves({0}),
      .lower = lower,
      .cost = movement_cost,
      .dtypes = DTypes::kAll,
      .examples = {{{operand(f32({2, 3}), awkward())}, {}}, {{operand(f32({}))}, {}}},
      .draw = [](Rng& rng) -> Example {
        return {{operand(f32(random_shape(rng, static_cast<int>(random_int(rng, 0, 3)))))}, {}};
      },
      .rejects = {},
  };
}

OpDef stop_gradient_op() {
  // A rule, not a refusal: differentiation goes on, and this path contributes nothing.
  auto nothing = [](auto&) { return std::vector<MaybeVal>{std::nullopt}; };
  OpDef op = identity_op(
      "stop_gradient", "autodiff", "x, through which no derivative flows: tangents and cotangents are 0 by definition.",
      Lowering::kView, [=](VjpContext& ctx) { return nothing(ctx); }, [=](JvpContext& ctx) { return nothing(ctx); });
  op.traits.constant = true;
  return op;
}

OpDef copy_op() {
  OpDef op = identity_op(
      "copy", "movement",
      "x in memory of its own. The only op that may copy a tensor for no other reason: write it where a "
      "state leaf must be read after its update.",
      Lowering::kAccess, [](VjpContext& ctx) { return std::vector<MaybeVal>{ctx.ct()}; },
      [](JvpContext& ctx) { return std::vector<MaybeVal>{ctx.tangents[0]}; });
  op.form = ir::OpForm::kCopy;
  op.traits.fence = true;
  op.reference = [](const EvalContext& ctx) {
    const Literal& x = ctx.operands[0];
    return Literals{Literal::from_bytes(x.dtype(), x.shape(), x.data())};
  };
  return op;
}

OpDef transparent_op(const char* name, const char* category, const char* doc) {
  return identity_op(
      name, category, doc, Lowering::kView, [](VjpContext& ctx) { return std::vector<MaybeVal>{ctx.ct()}; },
      [](JvpContext& ctx) { return std::vector<MaybeVal>{ctx.tangents[0]}; });
}

OpDef fence_op() {
  OpDef op = transparent_op(
      "fence", "movement",
      "x, where it lies. What is computed from it is never merged with what is computed from x: remat puts it before "
      "what it computes again.");
  op.traits.fence = true;
  return op;
}

OpDef shard_op() {
  auto layout = [](size_t dims) { return ir::Sharding{std::vector<ir::DimSharding>(dims, {{}, true}), {}}; };
  OpDef op = transparent_op(
      "shard", "movement",
      "x, laid out over the mesh as the sharding says: axes of a closed dimension are final, to those of an open one "
      "propagation may add. Its cotangent is laid out in the same way.");
  op.traits.elementwise = false;  // it is of this shape: a scalar in its place has no such layout
  op.layout_role = ir::LayoutRole::kShard;
  op.attrs = {required("sharding", AttrKind::kSharding, "a layout for each dimension of x")};
  op.constraints = {{"C1", "sharding has as many dimensions as x"}};
  op.stages = ir::stages(ir::Stage::kTraced, ir::Stage::kSharded);
  op.infer = [](const InferContext& ctx) -> InferResult {
    const ir::Sharding& s = ctx.attrs.get_sharding("sharding");
    if (static_cast<int>(s.dims.size()) != ctx.rank(0))
      return ctx.fail(Code::kShapeMismatch, "C1", "{} is the layout of {} dimensions", s.str(), s.dims.size());
    return Types{ctx.operands[0]};
  };
  op.vjp = [](VjpContext& ctx) { return std::vector<MaybeVal>{ctx.b.op("shard", {ctx.ct()}, ctx.attrs())}; };
  op.jvp = jvp_linear;
  op.batch = [](BatchContext& ctx) {
    ir::Sharding s = ctx.attrs().get_sharding("sharding");
    for (const ir::AxisRef& a : axes_of(s)) {
      if (a.name != ctx.spmd_axis) continue;
      ctx.functions->refuse(fmt::format("spmd_axis_name is {}, and the layout {} names it already", a.name, s.str()));
      s.dims.insert(s.dims.begin(), ir::DimSharding{});
      return batch_with(ctx, {{"sharding", s}});
    }
    return batch_with(ctx, {{"sharding", with_batch(ctx, std::move(s))}});
  };
  op.examples = {{{operand(f32({4, 3}))}, {{"sharding", layout(2)}}}};
  op.draw = [=](Rng& rng) {
    int rank = static_cast<int>(random_int(rng, 0, 3));
    return Example{{operand(f32(random_shape(rng, rank)))}, {{"sharding", layout(static_cast<size_t>(rank))}}};
  };
  op.rejects = {{"C1", {f32({4})}, {{"sharding", layout(2)}}}};
  return op;
}

OpDef checkpoint_name_op() {
  OpDef op = transparent_op("checkpoint_name", "movement",
                            "x under a name that the policy of a remat around it may keep. Reverse mode keeps it in "
                            "any case where it needs it, though it could compute it again.");
  op.traits.kept = true;
  op.attrs = {required("name", AttrKind::kString, "the name, without commas")};
  op.constraints = {{"C1", "the name is not empty and has no comma"}};
  op.infer = [](const InferContext& ctx) -> InferResult {
    const std::string& name = ctx.attrs.get_string("name");
    if (name.empty() || name.find(',') != std::string::npos)
      return ctx.fail(Code::kBadAttribute, "C1", "the name is \"{}\"", name);
    return Types{ctx.operands[0]};
  };
  for (Example& e : op.examples) e.attrs = {{"name", std::string("hidden")}};
  op.draw = [draw = op.draw](Rng& rng) {
    Example e = draw(rng);
    e.attrs = {{"name", std::string("hidden")}};
    return e;
  };
  op.rejects = {{"C1", {f32({2})}, {{"name", std::string("a,b")}}}};
  return op;
}

}  // namespace

std::vector<OpDef> movement_ops() {
  std::vector<OpDef> out = {reshape_op(), transpose_op(), broadcast_op(),      stop_gradient_op(),
                            copy_op(),    fence_op(),     checkpoint_name_op(), shard_op()};
  for (OpDef& op : cut_ops()) out.push_back(std::move(op));
  out.push_back(section_op());
  return out;
}

}  // namespace nabla::ops
