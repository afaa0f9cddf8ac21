// The counter-based random numbers. Element i is a function of the key and i alone, i being the row-major position in
// the whole tensor; rng_bits uses word i of the key's stream, and what needs two words uses 2i and 2i+1.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

#include "ir/kernel_ir/philox.h"
#include "ir/kernel_ir/rows.h"
#include "ir/kernel_ir/scalar.h"
#include "ir/ops/all_ops.h"
#include "ir/ops/movement/creation.h"
#include "ir/ops/movement/placed.h"
#include "ir/ops/movement/strided.h"

namespace nabla::ops {
namespace {

using kernel_ir::Expr;
using kernel_ir::Fragment;

constexpr const char* kKeyIsInteger = "the key is an integer";

struct Key {
  uint32_t k0, k1;
};
Key key_of(const EvalContext& ctx) {
  return {static_cast<uint32_t>(ctx.operands[0].get_i(0)), static_cast<uint32_t>(ctx.operands[0].get_i(1))};
}

Expr philox(const TypedOp& op, Expr word) {
  Expr k0 = load_operand(op, 0, {kernel_ir::index(0)}), k1 = load_operand(op, 0, {kernel_ir::index(1)});
  return kernel_ir::call_as(DType::kU32, "philox", {k0, k1, std::move(word)});
}

bool has_keys(const TypedOp& op) { return op.operands[0].rank() == 2; }

// The row-major position of an element in the whole, or in its row where the first dimension counts keys.
Expr linear_position(const TypedOp& op, const std::vector<int>& axes, size_t first = 0) {
  Place place = place_of(op);
  Expr position = kernel_ir::index(0);
  for (size_t d = first; d < axes.size(); ++d) {
    Expr at = kernel_ir::axis(axes[d]);
    if (!place.offset[d].is(0)) at = at + kernel_ir::dim(place.offset[d]);
    position = position * kernel_ir::dim(place.whole[d]) + at;
  }
  return position;
}

// f(position in the whole, position in the result, count) for runs of elements that stand one after the other in both.
template <class F>
void for_each_run(const TypedOp& op, size_t first, F f) {
  Place place = place_of(op);
  std::vector<int64_t> shape = op.results[0].extents();
  int64_t rows = 1, run = 1;
  size_t inner = shape.size();  // dimensions from here on are whole: they belong to the run, and so does the one before
  while (inner > first && Dim(shape[inner - 1]) == place.whole[inner - 1]) run *= shape[--inner];
  if (inner > first) run *= shape[--inner];
  for (size_t d = first; d < inner; ++d) rows *= shape[d];
  for (int64_t row = 0; row < rows; ++row) {
    int64_t position = 0, stride = 1, rest = row;
    for (size_t d = shape.size(); d-- > first;) {
      int64_t at = place.offset[d].value();
      if (d < inner) at += rest % shape[d], rest /= shape[d];
      position += at * stride;
      stride *= place.whole[d].value();
    }
    f(position, row * run, run);
  }
}

Status require_key(const InferContext& ctx, std::string_view constraint) {
  if (ctx.operands[0].dtype != DType::kU32)
    return ctx.fail(Code::kDTypeMismatch, constraint, "the key must be u32[2], got {}", ctx.operands[0].str());
  if (ctx.rank(0) != 1 || !ctx.shape(0)[0].is(2))
    return ctx.fail(Code::kShapeMismatch, constraint, "the key must be u32[2], got {}", ctx.operands[0].str());
  return Ok{};
}

Attrs part_of(Attrs attrs, const std::vector<int64_t>& offset, const std::vector<int64_t>& whole) {
  attrs.set("offset", ir::static_shape(offset));
  attrs.set("whole", ir::static_shape(whole));
  return attrs;
}

Operand key_operand() { return operand(u32({2}), between(0, 1e9)); }

// What the three draws of tensors share; the caller adds doc, types, reference, access and examples.
OpDef random_op(std::string name, std::string doc, std::vector<AttrDef> attrs, std::vector<ir::Constraint> constraints,
                std::function<InferResult(const InferContext&)> infer,
                std::function<Literals(const EvalContext&)> reference, std::function<Fragment(const TypedOp&)> access,
                int flops, std::vector<Example> examples, std::function<Example(Rng&)> draw,
                std::vector<Reject> rejects) {
  return {
      .name = std::move(name),
      .version = 1,
      .category = "random",
      .doc = std::move(doc),
      .operands = {{"key", "u32[2]"}},
      .attrs = with_place(std::move(attrs)),
      .results = {{"y", "of the given shape"}},
      .constraints = std::move(constraints),
      .traits = {},
      .stages = ir::kTensorStages,
      .infer = std::move(infer),
      .reference = std::move(reference),
      .fold = ir::no_rule("a folded draw would swell the bundle"),
      .decompose = ir::no_rule("primitive"),
      .vjp = ir::not_differentiable(kKeyIsInteger),
      .jvp = ir::not_differentiable(kKeyIsInteger),
      .batch = batch_in_loop,
      .factors = [](const TypedOp& op) { return placed_factors(op, has_keys(op)); },
      .localise = localise_place,
      .access = std::move(access),
      .linearity = ir::not_linear(),
      .lower = Lowering::kAccess,
      .cost = [flops](const TypedOp& op) { return ir::pointwise_cost(op, flops); },
      .dtypes = DTypes::kAsWritten,
      .examples = std::move(examples),
      .draw = std::move(draw),
      .rejects = std::move(rejects),
  };
}

InferResult infer_rng_bits(const InferContext& ctx) {
  const Shape& shape = ctx.attrs.get_shape("shape");
  if (ctx.rank(0) != 2 || ctx.operands[0].dtype != DType::kU32 || !ctx.shape(0)[1].is(2))
    NABLA_TRY(require_key(ctx, "C1"));
  NABLA_TRY(require_nonnegative(ctx, shape, "C2"));
  if (ctx.rank(0) == 2) {
    if (shape.empty()) return ctx.fail(Code::kShapeMismatch, "C3", "the shape has no dimension for several keys");
    NABLA_TRY(ctx.require_equal(shape[0], ctx.shape(0)[0], "C3", "rows and keys"));
  }
  NABLA_TRY(require_place(ctx, shape, "C4"));
  return Types{{DType::kU32, shape}};
}

Literals reference_rng_bits(const EvalContext& ctx) {
  Literal out = zeros(ctx.op.results[0]);
  int64_t keys = ctx.operands[0].size() / 2, words = keys > 0 ? out.size() / keys : 0;
  for (int64_t i = 0; i < keys; ++i) {
    Key key = {static_cast<uint32_t>(ctx.operands[0].get_i(2 * i)),
               static_cast<uint32_t>(ctx.operands[0].get_i(2 * i + 1))};
    auto* own = static_cast<uint32_t*>(out.mutable_data()) + i * words;
    for_each_run(ctx.op, has_keys(ctx.op), [&](int64_t position, int64_t begin, int64_t count) {
      kernel_ir::philox_words(key.k0, key.k1, position, std::span(own + begin, static_cast<size_t>(count)));
    });
  }
  return {out};
}

Fragment access_rng_bits(const TypedOp& op) {
  Fragment out;
  const Shape& shape = op.results[0].shape;
  std::vector<int> axes = out.add_axes("i", shape);
  if (!has_keys(op)) {
    out.results = {out.map("y", DType::kU32, axes, philox(op, linear_position(op, axes)))};
    return out;
  }
  auto half = [&](int i) { return load_operand(op, 0, {kernel_ir::axis(axes[0]), kernel_ir::index(i)}); };
  Expr word = linear_position(op, axes, 1);
  out.results = {out.map("y", DType::kU32, axes, kernel_ir::call_as(DType::kU32, "philox", {half(0), half(1), word}))};
  return out;
}

// A key per example.
std::vector<Val> batch_rng_bits(BatchContext& ctx) {
  Shape shape = ctx.op.results[0].shape, full = shape;
  Attrs attrs = ctx.attrs();
  full.insert(full.begin(), ctx.size);
  auto set = [&](const Shape& part) {
    attrs.set("shape", part);
    if (attrs.get_shape("offset").empty()) return;
    Place place = place_of(ctx.op);
    size_t keyed = has_keys(ctx.op) ? 1 : 0;
    place.offset.erase(place.offset.begin(), place.offset.begin() + keyed);
    place.whole.erase(place.whole.begin(), place.whole.begin() + keyed);
    place.offset.insert(place.offset.begin(), Dim(0));
    place.whole.insert(place.whole.begin(), part[0]);
    attrs.set("offset", place.offset);
    attrs.set("whole", place.whole);
  };
  if (!has_keys(ctx.op)) {
    set(full);
    return {ctx.b.op("rng_bits", ctx.operands, attrs)};
  }
  shape[0] = ctx.size * shape[0];
  set(shape);
  Val keys = reshape(ctx.operands[0], {shape[0], 2});
  return {reshape(ctx.b.op("rng_bits", {keys}, attrs), full)};
}

OpDef rng_bits_op() {
  OpDef op = random_op(
      "rng_bits",
      "Uniform random bits. Element i is word i of the stream Philox4x32-10(key) (Salmon et al., \"Parallel random "
      "numbers: as easy as 1, 2, 3\", 2011), i being the row-major position. With several keys row r of the result is "
      "what key r draws alone.",
      {required("shape", AttrKind::kShape, "of the result")},
      {{"C1", "the key is u32[2], or u32[n, 2]"},
       {"C2", "no size is negative"},
       {"C3", "with several keys the first size is their number"},
       place_constraint("C4")},
      infer_rng_bits, reference_rng_bits, access_rng_bits, 40,
      {{{key_operand()}, {{"shape", ir::static_shape({7})}}},
       {{key_operand()}, {{"shape", Shape{}}}},
       {{operand(u32({9, 2}), between(0, 1e9))}, {{"shape", ir::static_shape({9})}}},
       {{operand(u32({3, 2}), between(0, 1e9))}, {{"shape", ir::static_shape({3, 5, 2})}}},
       {{key_operand()}, part_of({{"shape", ir::static_shape({2, 3})}}, {1, 4}, {3, 9})},
       {{operand(u32({3, 2}), between(0, 1e9))}, part_of({{"shape", ir::static_shape({3, 2})}}, {0, 3}, {3, 7})}},
      [](Rng& rng) -> Example {
        return {{key_operand()}, {{"shape", random_shape(rng, static_cast<int>(random_int(rng, 0, 3)))}}};
      },
      {{"C1", {i32({2})}, {{"shape", Shape{}}}},
       {"C1", {u32({3})}, {{"shape", Shape{}}}},
       {"C1", {u32({3, 3})}, {{"shape", ir::static_shape({3})}}},
       {"C2", {u32({2})}, {{"shape", ir::static_shape({-4})}}},
       {"C3", {u32({3, 2})}, {{"shape", Shape{}}}},
       {"C3", {u32({3, 2})}, {{"shape", ir::static_shape({2, 3})}}},
       {"C4", {u32({2})}, part_of({{"shape", ir::static_shape({3})}}, {2}, {4})}});
  op.operands = {{"key", "u32[2], or u32[n, 2]"}};
  op.batch = batch_rng_bits;
  return op;
}

// ---- uniform and normal

// f(words of the element) for all elements, each of which takes as many words as `words` says.
template <class F>
Literals draw_from_words(const EvalContext& ctx, int64_t words, F f) {
  Literal out = zeros(ctx.op.results[0]);
  Key key = key_of(ctx);
  std::vector<uint32_t> stream(words * kRowBlock);
  std::vector<double> row(kRowBlock);
  for_each_run(ctx.op, 0, [&](int64_t position, int64_t begin, int64_t length) {
    for (int64_t done = 0; done < length; done += kRowBlock) {
      int64_t count = std::min(kRowBlock, length - done);
      kernel_ir::philox_words(key.k0, key.k1, words * (position + done), std::span(stream).first(words * count));
      for (int64_t i = 0; i < count; ++i) row[i] = f(&stream[words * i]);
      write_row(out, begin + done, 1, count, row.data());
    }
  });
  return {out};
}

// How the words of an element become a number in [0, 1): 24 bits fill an f32, 53 an f64.
double unit_from_words(DType dtype, const uint32_t* words) {
  if (dtype != DType::kF64) return (words[0] >> 8) * 0x1p-24;
  uint64_t high = words[0] >> 5, low = words[1] >> 6;
  return static_cast<double>((high << 26) + low) * 0x1p-53;
}

Expr shifted_word(const TypedOp& op, DType dtype, Expr word, int64_t shift) {
  Expr bits =
      kernel_ir::call("shift_right", {philox(op, std::move(word)), kernel_ir::constant_int(DType::kU32, shift)});
  return kernel_ir::convert(dtype, bits);
}

// The largest value of `dtype` below `high`: rounding may otherwise reach the excluded bound.
double largest_below(DType dtype, double high) {
  double rounded = round_to(dtype, high);
  if (rounded < high) return rounded;
  double step = std::max(std::fabs(rounded) * epsilon_of(dtype) / 2, std::ldexp(1.0, -149));
  // Within a binade the spacing is constant; half a spacing further down rounds to the next value.
  for (double candidate = rounded; step < HUGE_VAL; step *= 1.5) {
    candidate = round_to(dtype, rounded - step);
    if (candidate < rounded) return candidate;
  }
  return rounded;
}

Status infer_random_float(const InferContext& ctx) {
  NABLA_TRY(require_key(ctx, "C1"));
  NABLA_TRY(require_nonnegative(ctx, ctx.attrs.get_shape("shape"), "C2"));
  DType dtype = ctx.attrs.get_dtype("dtype");
  if (!is_float(dtype) || bytes_of(dtype) == 1)
    return ctx.fail(Code::kBadAttribute, "C3", "dtype must be f16, bf16, f32 or f64, got {}", name_of(dtype));
  return require_place(ctx, ctx.attrs.get_shape("shape"), "C5");
}

std::vector<AttrDef> random_float_attrs(AttrDef first, AttrDef second) {
  return {required("shape", AttrKind::kShape, "of the result"), optional("dtype", "of the result", DType::kF32),
          std::move(first), std::move(second)};
}

InferResult infer_uniform(const InferContext& ctx) {
  NABLA_TRY(infer_random_float(ctx));
  double low = ctx.attrs.get_float("low"), high = ctx.attrs.get_float("high");
  DType dtype = ctx.attrs.get_dtype("dtype");
  if (!(low < high) || !std::isfinite(high - low) || round_to(dtype, low) > largest_below(dtype, high))
    return ctx.fail(Code::kBadAttribute, "C4", "[{}, {}) holds no value of {}", low, high, name_of(dtype));
  return Types{{dtype, ctx.attrs.get_shape("shape")}};
}

Literals uniform_reference(const EvalContext& ctx) {
  DType dtype = ctx.op.results[0].dtype;
  double low = ctx.attrs().get_float("low"), high = ctx.attrs().get_float("high");
  double top = largest_below(dtype, high);
  return draw_from_words(ctx, dtype == DType::kF64 ? 2 : 1, [&](const uint32_t* words) {
    return std::min(low + unit_from_words(dtype, words) * (high - low), top);
  });
}

Fragment uniform_access(const TypedOp& op) {
  Fragment out;
  DType dtype = op.results[0].dtype, wide = accumulation_type(dtype);
  double low = op.attrs.get_float("low"), high = op.attrs.get_float("high");
  std::vector<int> axes = out.add_axes("i", op.results[0].shape);
  Expr i = linear_position(op, axes);
  Expr unit;
  if (dtype == DType::kF64) {
    Expr major = shifted_word(op, wide, kernel_ir::index(2) * i, 5);
    Expr minor = shifted_word(op, wide, kernel_ir::index(2) * i + kernel_ir::index(1), 6);
    unit =
        (major * kernel_ir::constant(wide, std::ldexp(1, 26)) + minor) * kernel_ir::constant(wide, std::ldexp(1, -53));
  } else {
    unit = shifted_word(op, wide, i, 8) * kernel_ir::constant(wide, std::ldexp(1, -24));
  }
  Expr value = kernel_ir::constant(wide, low) + unit * kernel_ir::constant(wide, high - low);
  value = kernel_ir::call("minimum", {value, kernel_ir::constant(wide, largest_below(dtype, high))});
  out.results = {out.map("y", dtype, axes, kernel_ir::convert(dtype, value))};
  return out;
}

OpDef rng_uniform_op() {
  auto attrs = [](Shape shape, DType dtype, double low, double high) {
    return Attrs{{"shape", std::move(shape)}, {"dtype", dtype}, {"low", low}, {"high", high}};
  };
  return random_op(
      "rng_uniform",
      "Uniform numbers in [low, high). f32 and narrower types use the top 24 bits of word i of the key's stream (see "
      "rng_bits), f64 53 bits of words 2i and 2i+1; so the f64 stream is not the f32 stream widened.",
      random_float_attrs(optional("low", "included", 0.0), optional("high", "excluded", 1.0)),
      {{"C1", "the key is u32[2]"},
       {"C2", "no size is negative"},
       {"C3", "the dtype is f16, bf16, f32 or f64"},
       {"C4", "[low, high) holds a value of the dtype, and high - low is finite"},
       place_constraint("C5")},
      infer_uniform, uniform_reference, uniform_access, 45,
      {{{key_operand()}, attrs({33}, DType::kF32, 0, 1)},
       {{key_operand()}, attrs({3, 5}, DType::kBF16, -1, 1)},
       {{key_operand()}, attrs({7}, DType::kF64, -2, 5)},
       {{key_operand()}, part_of(attrs({2, 3, 2}, DType::kF64, 0, 1), {1, 2, 0}, {4, 7, 2})}},
      [attrs](Rng& rng) -> Example {
        constexpr DType kTypes[] = {DType::kF32, DType::kF16, DType::kF64};
        Shape shape = random_shape(rng, static_cast<int>(random_int(rng, 0, 3)));
        return {{key_operand()},
                attrs(shape, kTypes[random_int(rng, 0, 2)], -1, static_cast<double>(random_int(rng, 0, 3)))};
      },
      {{"C1", {u32({})}, attrs({3}, DType::kF32, 0, 1)},
       {"C2", {u32({2})}, attrs({-3}, DType::kF32, 0, 1)},
       {"C3", {u32({2})}, attrs({3}, DType::kI32, 0, 1)},
       {"C4", {u32({2})}, attrs({3}, DType::kF32, 1, 1)},
       {"C5", {u32({2})}, part_of(attrs({3}, DType::kF32, 0, 1), {1, 0}, {4, 4})}});
}

InferResult infer_normal(const InferContext& ctx) {
  NABLA_TRY(infer_random_float(ctx));
  double stddev = ctx.attrs.get_float("stddev");
  if (!(stddev >= 0) || !std::isfinite(stddev) || !std::isfinite(ctx.attrs.get_float("mean")))
    return ctx.fail(Code::kBadAttribute, "C4", "mean {} and stddev {} are not finite with stddev >= 0",
                    ctx.attrs.get_float("mean"), stddev);
  return Types{{ctx.attrs.get_dtype("dtype"), ctx.attrs.get_shape("shape")}};
}

// Bits of each word that a normal of this dtype uses.
int normal_bits(DType dtype) { return dtype == DType::kF64 ? 32 : 24; }

Literals normal_reference(const EvalContext& ctx) {
  int bits = normal_bits(ctx.op.results[0].dtype);
  double unit = std::ldexp(1, -bits), mean = ctx.attrs().get_float("mean"), stddev = ctx.attrs().get_float("stddev");
  return draw_from_words(ctx, 2, [=](const uint32_t* words) {
    double u1 = ((words[0] >> (32 - bits)) + 1.0) * unit, u2 = (words[1] >> (32 - bits)) * unit;
    double z = std::sqrt(-2 * std::log(u1)) * std::cos(2 * std::numbers::pi * u2);
    return mean + stddev * z;
  });
}

Fragment normal_access(const TypedOp& op) {
  Fragment out;
  DType dtype = op.results[0].dtype, wide = accumulation_type(dtype);
  auto number = [wide](double v) { return kernel_ir::constant(wide, v); };
  int bits = normal_bits(dtype);
  std::vector<int> axes = out.add_axes("i", op.results[0].shape);
  Expr twice = kernel_ir::index(2) * linear_position(op, axes);
  Expr unit = number(std::ldexp(1, -bits));
  Expr u1 = (shifted_word(op, wide, twice, 32 - bits) + number(1)) * unit;
  Expr u2 = shifted_word(op, wide, twice + kernel_ir::index(1), 32 - bits) * unit;
  Expr radius = kernel_ir::call("sqrt", {number(-2) * kernel_ir::call("log", {u1})});
  Expr z = radius * kernel_ir::call("cos", {number(2 * std::numbers::pi) * u2});
  Expr value = number(op.attrs.get_float("mean")) + number(op.attrs.get_float("stddev")) * z;
  out.results = {out.map("y", dtype, axes, kernel_ir::convert(dtype, value))};
  return out;
}

OpDef rng_normal_op() {
  auto attrs = [](Shape shape, DType dtype, double mean, double stddev) {
    return Attrs{{"shape", std::move(shape)}, {"dtype", dtype}, {"mean", mean}, {"stddev", stddev}};
  };
  return random_op(
      "rng_normal",
      "Normal numbers by the transform of Box and Muller (1958): sqrt(-2 ln u1) cos(2 pi u2), u1 in (0, 1] from word "
      "2i "
      "and u2 in [0, 1) from word 2i+1 of the key's stream (see rng_bits); 24 bits of each, 32 for f64.",
      random_float_attrs(optional("mean", "of the distribution", 0.0), optional("stddev", ">= 0", 1.0)),
      {{"C1", "the key is u32[2]"},
       {"C2", "no size is negative"},
       {"C3", "the dtype is f16, bf16, f32 or f64"},
       {"C4", "mean and stddev are finite and stddev >= 0"},
       place_constraint("C5")},
      infer_normal, normal_reference, normal_access, 100,
      {{{key_operand()}, attrs({33}, DType::kF32, 0, 1)},
       {{key_operand()}, attrs({2, 3}, DType::kF64, 1, 0.02)},
       {{key_operand()}, part_of(attrs({3, 2}, DType::kF32, 0, 1), {1, 3}, {4, 6})}},
      [attrs](Rng& rng) -> Example {
        constexpr DType kTypes[] = {DType::kF32, DType::kBF16, DType::kF64};
        Shape shape = random_shape(rng, static_cast<int>(random_int(rng, 0, 3)));
        return {{key_operand()},
                attrs(shape, kTypes[random_int(rng, 0, 2)], 0, static_cast<double>(random_int(rng, 0, 3)))};
      },
      {{"C1", {f32({2})}, attrs({3}, DType::kF32, 0, 1)},
       {"C2", {u32({2})}, attrs({-3}, DType::kF32, 0, 1)},
       {"C3", {u32({2})}, attrs({3}, DType::kF8E4M3, 0, 1)},
       {"C4", {u32({2})}, attrs({3}, DType::kF32, 0, -1)},
       {"C5", {u32({2})}, part_of(attrs({3}, DType::kF32, 0, 1), {}, {4})}});
}

// ---- rng_fold_in

// Derived keys come from words that no draw reaches, so that a key may be both drawn from and folded.
constexpr int64_t kFoldOffset = int64_t{1} << 62;

OpDef rng_fold_in_op() {
  return {
      .name = "rng_fold_in",
      .version = 1,
      .category = "random",
      .doc =
          "A new key from a key and a number (a step, a layer): the first two words of Philox4x32-10(key) at block "
          "2^60 + data, which no draw of less than 2^61 elements uses.",
      .operands = {{"key", "u32[2]"}, {"data", "u32[]"}},
      .attrs = {},
      .results = {{"key", "u32[2]"}},
      .constraints = {{"C1", "the key is u32[2]"}, {"C2", "data is u32[]"}},
      .traits = {},
      .stages = ir::kTensorStages,
      .infer = [](const InferContext& ctx) -> InferResult {
        NABLA_TRY(require_key(ctx, "C1"));
        if (ctx.operands[1].dtype != DType::kU32 || ctx.rank(1) != 0)
          return ctx.fail(Code::kDTypeMismatch, "C2", "data must be u32[], got {}", ctx.operands[1].str());
        return Types{u32({2})};
      },
      .reference =
          [](const EvalContext& ctx) {
            Literal out(DType::kU32, {2});
            Key key = key_of(ctx);
            for (int64_t j = 0; j < 2; ++j)
              out.set_i(j, kernel_ir::philox_word(key.k0, key.k1, kFoldOffset + 4 * ctx.operands[1].get_i(0) + j));
            return Literals{out};
          },
      .fold = fold_by_reference(),
      .decompose = ir::no_rule("primitive"),
      .vjp = ir::not_differentiable(kKeyIsInteger),
      .jvp = ir::not_differentiable(kKeyIsInteger),
      .batch = batch_in_loop,
      .factors = fixed_factors,
      .access =
          [](const TypedOp& op) {
            Fragment out;
            std::vector<int> axes = out.add_axes("j", op.results[0].shape);
            Expr data = kernel_ir::convert(DType::kI64, load_operand(op, 1, {}));
            Expr word = kernel_ir::index(kFoldOffset) + kernel_ir::index(4) * data + kernel_ir::axis(axes[0]);
            out.results = {out.map("y", DType::kU32, axes, philox(op, word))};
            return out;
          },
      .linearity = ir::not_linear(),
      .lower = Lowering::kAccess,
      .cost = [](const TypedOp& op) { return ir::pointwise_cost(op, 40); },
      .dtypes = DTypes::kAsWritten,
      .examples = {{{key_operand(), operand(u32({}), between(0, 100))}, {}}},
      .draw = [](Rng&) -> Example {
        return {{key_operand(), operand(u32({}), between(0, 4e9))}, {}};
      },
      .rejects = {{"C1", {u32({4}), u32({})}, {}}, {"C2", {u32({2}), i32({})}, {}}},
  };
}

}  // namespace

std::vector<OpDef> random_ops() { return {rng_bits_op(), rng_uniform_op(), rng_normal_op(), rng_fold_in_op()}; }

}  // namespace nabla::ops
