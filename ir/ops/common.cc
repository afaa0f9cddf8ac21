#include "ir/ops/common.h"

#include <algorithm>
#include <cstring>

namespace nabla::ops {

AttrDef required(std::string name, AttrKind kind, std::string doc) {
  return {std::move(name), kind, std::move(doc), std::nullopt};
}
AttrDef optional(std::string name, std::string doc, Attr default_value) {
  AttrKind kind = ir::kind_of(default_value);
  return {std::move(name), kind, std::move(doc), std::move(default_value)};
}

Type f32(Shape shape) { return {DType::kF32, std::move(shape)}; }
Type i32(Shape shape) { return {DType::kI32, std::move(shape)}; }
Type i64(Shape shape) { return {DType::kI64, std::move(shape)}; }
Type u32(Shape shape) { return {DType::kU32, std::move(shape)}; }
Type boolean(Shape shape) { return {DType::kBool, std::move(shape)}; }

Shape prepend(const Dim& d, Shape shape) {
  shape.insert(shape.begin(), d);
  return shape;
}

Shape without_axes(const Shape& shape, const Ints& axes) {
  Shape out;
  for (int64_t i : other_axes(static_cast<int>(shape.size()), axes)) out.push_back(shape[i]);
  return out;
}

Ints other_axes(int rank, const Ints& axes) {
  Ints out;
  for (int i = 0; i < rank; ++i)
    if (!contains(axes, i)) out.push_back(i);
  return out;
}

bool contains(const Ints& list, int64_t value) { return std::find(list.begin(), list.end(), value) != list.end(); }

Ints shifted(const Ints& axes) {
  Ints out = axes;
  for (int64_t& a : out) ++a;
  return out;
}

Status require_float(const InferContext& ctx, int i, std::string_view constraint) {
  if (is_float(ctx.operands[i].dtype)) return Ok{};
  return ctx.fail(Code::kDTypeMismatch, constraint, "operand {} must be floating, got {}", i,
                  name_of(ctx.operands[i].dtype));
}

Status require_integer(const InferContext& ctx, int i, std::string_view constraint) {
  if (is_integer(ctx.operands[i].dtype)) return Ok{};
  return ctx.fail(Code::kDTypeMismatch, constraint, "operand {} must be an integer, got {}", i,
                  name_of(ctx.operands[i].dtype));
}

Status require_rank(const InferContext& ctx, int i, int rank, std::string_view constraint) {
  if (ctx.rank(i) == rank) return Ok{};
  return ctx.fail(Code::kShapeMismatch, constraint, "operand {} must have rank {}, got {}", i, rank,
                  ir::str(ctx.shape(i)));
}

Status require_axes(const InferContext& ctx, const Ints& axes, int rank, std::string_view constraint) {
  std::vector<bool> seen(rank, false);
  for (int64_t axis : axes) {
    NABLA_TRY(ctx.require_axis(axis, rank, constraint));
    if (seen[axis]) return ctx.fail(Code::kBadAttribute, constraint, "axis {} is named twice", axis);
    seen[axis] = true;
  }
  return Ok{};
}

// ---- Derivatives.

static std::vector<MaybeVal> as_maybe(const std::vector<Val>& values) { return {values.begin(), values.end()}; }

Attrs localise_shape(const ir::Shard& shard) {
  Attrs attrs = shard.op.attrs;
  attrs.set("shape", shard.result(0).shape);
  return attrs;
}

std::vector<MaybeVal> jvp_linear(JvpContext& ctx) {
  std::vector<Val> tangents;
  for (size_t i = 0; i < ctx.operands.size(); ++i) tangents.push_back(ctx.tangent(static_cast<int>(i)));
  return as_maybe(ctx.b.add(ctx.op.op.name, tangents, ctx.attrs()));
}

std::function<std::vector<MaybeVal>(JvpContext&)> jvp_linear_in(std::vector<int> linear) {
  return [linear = std::move(linear)](JvpContext& ctx) -> std::vector<MaybeVal> {
    std::vector<Val> operands = ctx.operands;
    bool any = false;
    for (int i : linear) {
      any |= ctx.tangents[i].has_value();
      operands[i] = ctx.tangent(i);
    }
    if (!any) return std::vector<MaybeVal>(ctx.results.size());
    return as_maybe(ctx.b.add(ctx.op.op.name, operands, ctx.attrs()));
  };
}

std::function<std::vector<MaybeVal>(JvpContext&)> jvp_linear_in_each(std::vector<int> linear) {
  return [linear = std::move(linear)](JvpContext& ctx) {
    std::vector<MaybeVal> sum(ctx.results.size());
    for (int i : linear) {
      if (!ctx.tangents[i]) continue;
      std::vector<Val> operands = ctx.operands;
      operands[i] = *ctx.tangents[i];
      std::vector<Val> term = ctx.b.add(ctx.op.op.name, operands, ctx.attrs());
      for (size_t r = 0; r < sum.size(); ++r) sum[r] = add_maybe(sum[r], term[r]);
    }
    return sum;
  };
}

MaybeVal add_maybe(MaybeVal a, MaybeVal b) {
  if (!a) return b;
  return b ? MaybeVal(*a + *b) : a;
}

// ---- Evaluation.

Literal zeros(const Type& type) { return Literal(type.dtype, type.extents()); }

void copy_element(Literal& target, int64_t to, const Literal& source, int64_t from) {
  int64_t bytes = bytes_of(source.dtype());
  std::memcpy(static_cast<char*>(target.mutable_data()) + to * bytes,
              static_cast<const char*>(source.data()) + from * bytes, bytes);
}

int64_t position_of(const Extents& index, const Extents& shape) {
  int64_t position = 0;
  for (size_t d = 0; d < shape.size(); ++d) position = position * shape[d] + index[d];
  return position;
}

// ---- Access.

kernel_ir::Expr load_operand(const TypedOp& op, int k, std::vector<kernel_ir::Expr> indices) {
  return kernel_ir::load(op.operands[k].dtype, k, std::move(indices));
}

kernel_ir::Expr load_wide(const TypedOp& op, int k, std::vector<kernel_ir::Expr> indices) {
  return kernel_ir::convert(accumulation_type(op.operands[k].dtype), load_operand(op, k, std::move(indices)));
}

int round_definition(kernel_ir::Fragment& fragment, int d, DType dtype, std::string name) {
  if (fragment.definitions[d].dtype == dtype) return d;
  std::vector<int> axes = fragment.definitions[d].axes;
  return fragment.map(std::move(name), dtype, std::move(axes), kernel_ir::convert(dtype, fragment.at(d)));
}

// ---- Batching.

std::vector<Val> batch_with(BatchContext& ctx, Attrs attrs) {
  std::vector<Val> operands;
  for (size_t i = 0; i < ctx.operands.size(); ++i) operands.push_back(ctx.batched_operand(static_cast<int>(i)));
  return ctx.b.add(ctx.op.op.name, operands, std::move(attrs));
}

std::vector<Val> batch_in_loop(BatchContext& ctx) {
  const std::string& op = ctx.op.op.name;
  FunctionBuilder body(op + ".one", ctx.b.ops(), ctx.b.module());
  body.set_location(ctx.b.location());
  std::vector<Val> inner(ctx.operands.size()), operands;
  int64_t consts = 0;
  for (bool sliced : {false, true})
    for (size_t i = 0; i < inner.size(); ++i) {
      if (ctx.batched[i] != sliced) continue;
      inner[i] = body.param(fmt::format("x{}", i), ctx.op.operands[i]);
      operands.push_back(ctx.operands[i]);
      consts += !sliced;
    }
  std::string name = ctx.functions->define(body.finish(body.add(op, inner, ctx.attrs())));
  return ctx.b.add("scan", operands, {{"body", FunctionRef{name}}, {"consts", consts}, {"length", Shape{ctx.size}}});
}

std::vector<Val> batch_elementwise(BatchContext& ctx) { return batch_with(ctx, ctx.attrs()); }

std::function<std::vector<Val>(BatchContext&)> batch_shifting(std::vector<std::string> names) {
  return [names = std::move(names)](BatchContext& ctx) {
    Attrs attrs = ctx.attrs();
    for (const std::string& name : names) {
      if (ir::kind_of(*attrs.find(name)) == AttrKind::kInt)
        attrs.set(name, attrs.get_int(name) + 1);
      else
        attrs.set(name, shifted(attrs.get_ints(name)));
    }
    return batch_with(ctx, std::move(attrs));
  };
}

// ---- Examples and draws.

Operand operand(Type type, ValueSpec values) { return {std::move(type), values}; }
ValueSpec between(double low, double high) { return {low, high, false, false}; }
ValueSpec awkward(double low, double high) { return {low, high, false, true}; }
ValueSpec distinct(double low, double high) { return {low, high, true, false}; }

int64_t random_int(Rng& rng, int64_t low, int64_t high) {
  return low + static_cast<int64_t>(rng() % static_cast<uint64_t>(high - low + 1));
}
bool random_bool(Rng& rng) { return rng() % 2 == 0; }

int64_t random_dim(Rng& rng, int64_t max) { return random_int(rng, 0, 15) == 0 ? 0 : random_positive_dim(rng, max); }

int64_t random_positive_dim(Rng& rng, int64_t max) {
  constexpr int64_t kSizes[] = {1, 2, 3, 5, 7, 16, 17, 33};
  int64_t fitting = std::max<int64_t>(1, std::upper_bound(std::begin(kSizes), std::end(kSizes), max) - kSizes);
  return kSizes[random_int(rng, 0, fitting - 1)];
}

Extents random_extents(Rng& rng, int rank, int64_t max_elements) {
  Extents out(rank);
  int64_t left = max_elements;
  for (int64_t& extent : out) {
    extent = random_dim(rng, std::max<int64_t>(left, 1));
    left /= std::max<int64_t>(extent, 1);
  }
  std::shuffle(out.begin(), out.end(), rng);
  return out;
}

Shape random_shape(Rng& rng, int rank, int64_t max_elements) {
  return ir::static_shape(random_extents(rng, rank, max_elements));
}

Ints random_permutation(Rng& rng, int n) {
  Ints out = ir::iota_ints(n);
  std::shuffle(out.begin(), out.end(), rng);
  return out;
}

Ints random_axes(Rng& rng, int n, int at_least) {
  Ints out = random_permutation(rng, n);
  out.resize(random_int(rng, std::min(at_least, n), n));
  std::sort(out.begin(), out.end());
  return out;
}

}  // namespace nabla::ops
