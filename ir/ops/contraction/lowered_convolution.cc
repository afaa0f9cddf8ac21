// Convolution as a library computes it, which exists after lowering only.
#include "ir/library/implementation.h"
#include "ir/ops/all_ops.h"
#include "ir/ops/contraction/library_attrs.h"
#include "ir/ops/contraction/window_geometry.h"

namespace nabla::ops {
namespace {

/// The sizes of the three tensors. The filter is [O, taps..., C/groups], wherever the node has its O.
struct Sizes {
  Shape input, filter, output;
  int64_t groups = 1;
};

bool is_kind(const std::string& kind) { return kind == "forward" || kind == "input_grad" || kind == "filter_grad"; }

Shape spatial_of(const Shape& s) { return Shape(s.begin() + 1, s.end() - 1); }
Shape shape_of(Dim first, Shape spatial, Dim last) {
  spatial.insert(spatial.begin(), std::move(first));
  spatial.push_back(std::move(last));
  return spatial;
}

bool is_last(const Attrs& attrs) { return attrs.get_string("filter_outputs") == "last"; }

/// The permutation that takes a filter of this rank from where the node has its O to O first, or back.
Ints filter_permutation(const Attrs& attrs, int rank, bool back) {
  int shift = !is_last(attrs) ? 0 : back ? 1 : rank - 1;
  Ints out;
  for (int d = 0; d < rank; ++d) out.push_back((d + shift) % rank);
  return out;
}

Shape turned(const Attrs& attrs, const Shape& filter, bool back) {
  Shape out;
  for (int64_t d : filter_permutation(attrs, static_cast<int>(filter.size()), back)) out.push_back(filter[d]);
  return out;
}

Sizes sizes_of(const Attrs& attrs, const Shape& a, const Shape& b) {
  const std::string& kind = attrs.get_string("kind");
  const Shape& spatial = attrs.get_shape("spatial");
  Sizes s;
  s.groups = attrs.get_int("groups");
  if (kind == "filter_grad") {
    s.input = a, s.output = b;
    s.filter = shape_of(b.back(), spatial, Dim::floordiv(a.back(), s.groups));
  } else {
    s.filter = turned(attrs, b, false);
    s.input = kind == "forward" ? a : shape_of(a[0], spatial, s.filter.back() * s.groups);
    s.output = kind == "forward" ? shape_of(a[0], output_extents(attrs, spatial_of(a), spatial_of(s.filter)), s.filter[0]) : a;
  }
  return s;
}

InferResult infer_conv(const InferContext& ctx) {
  const std::string& kind = ctx.attrs.get_string("kind");
  NABLA_TRY(ctx.require_same_dtype(0, 1, "C1"));
  if (!is_kind(kind)) return ctx.fail(Code::kBadAttribute, "C2", "kind is \"{}\"", kind);
  int rank = ctx.rank(0);
  if (rank < 3 || rank > 5 || ctx.rank(1) != rank)
    return ctx.fail(Code::kShapeMismatch, "C3", "operands of {} and {} dimensions", rank, ctx.rank(1));
  NABLA_TRY(check_windows(ctx, rank - 2, "C3"));
  size_t given = kind == "forward" ? 0 : rank - 2;
  if (ctx.attrs.get_int("groups") < 1 || ctx.attrs.get_shape("spatial").size() != given)
    return ctx.fail(Code::kBadAttribute, "C3", "{} groups, spatial {}", ctx.attrs.get_int("groups"),
                    ir::str(ctx.attrs.get_shape("spatial")));
  const std::string& outputs_at = ctx.attrs.get_string("filter_outputs");
  if (outputs_at != "first" && outputs_at != "last")
    return ctx.fail(Code::kBadAttribute, "C5", "filter_outputs is \"{}\"", outputs_at);
  const std::string& implementation = ctx.attrs.get_string("implementation");
  if (!ir::find_implementation("convolution", implementation))
    return ctx.fail(Code::kBadAttribute, "C6", "implementation is \"{}\"", implementation);
  Sizes s = sizes_of(ctx.attrs, ctx.shape(0), ctx.shape(1));
  Shape outputs = shape_of(s.input[0], output_extents(ctx.attrs, spatial_of(s.input), spatial_of(s.filter)), s.filter[0]);
  for (int d = 0; d < rank; ++d)
    NABLA_TRY(ctx.require_equal(s.output[d], outputs[d], "C4", fmt::format("outputs in dimension {}", d)));
  NABLA_TRY(ctx.require_equal(s.input.back(), s.filter.back() * s.groups, "C4", "channels of input and filter"));
  Dim features = Dim::floordiv(s.filter[0], s.groups) * s.groups;
  NABLA_TRY(ctx.require_equal(s.filter[0], features, "C4", "features and a multiple of groups"));
  return Types{Type(ctx.operands[0].dtype, kind == "forward" ? s.output
                                               : kind == "input_grad" ? s.input
                                                                      : turned(ctx.attrs, s.filter, true))};
}

std::vector<Val> decompose_conv(ir::DecomposeContext& ctx) {
  const std::string& kind = ctx.attrs().get_string("kind");
  Attrs attrs;
  for (const char* name : {"strides", "padding_low", "padding_high", "dilation"}) attrs.set(name, ctx.attrs().get_ints(name));
  attrs.set("groups", ctx.attrs().get_int("groups"));
  // The ops themselves have O last.
  int rank = ctx.operand(0).rank();
  Ints to_last, to_node;
  for (int d = 0; d < rank; ++d) to_last.push_back((d + 1) % rank), to_node.push_back((d + rank - 1) % rank);
  auto turn = [&](Val filter, const Ints& permutation) {
    return is_last(ctx.attrs()) ? filter : ir::transpose(filter, permutation);
  };
  const Shape& spatial = ctx.attrs().get_shape("spatial");
  if (kind == "filter_grad") {
    attrs.set("filter_spatial", spatial);
    return {turn(ctx.b.op("conv_filter_grad", ctx.operands, attrs), to_node)};
  }
  if (kind == "input_grad") attrs.set("input_spatial", spatial);
  return {ctx.b.op(kind == "forward" ? "convolution" : "conv_input_grad",
                   {ctx.operand(0), turn(ctx.operand(1), to_last)}, attrs)};
}

// Version 1 was a GPU's.
Attrs with_cudnn(Attrs attrs) {
  attrs.set("implementation", std::string("cudnn"));
  return attrs;
}

Attrs lowered_attrs(std::string kind, Shape spatial, int64_t groups) {
  return {{"kind", std::move(kind)}, {"spatial", std::move(spatial)},   {"strides", Ints{1}},
          {"padding_low", Ints{0}},  {"padding_high", Ints{0}},         {"dilation", Ints{1}},
          {"groups", groups},        {"implementation", std::string("cudnn")}};
}

Attrs with(Attrs attrs, const char* name, const char* value) {
  attrs.set(name, std::string(value));
  return attrs;
}

std::vector<ir::Reject> lowered_rejects() {
  Type x = f32({2, 5, 4}), w = f32({6, 2, 2});
  return {{"C1", {x, i32({6, 2, 2})}, lowered_attrs("forward", {}, 2)},
          {"C2", {x, w}, lowered_attrs("backward", {}, 2)},
          {"C3", {x, f32({6, 2})}, lowered_attrs("forward", {}, 2)},
          {"C3", {x, w}, lowered_attrs("forward", {4}, 2)},
          {"C3", {x, w}, lowered_attrs("forward", {}, 0)},
          {"C4", {x, w}, lowered_attrs("forward", {}, 1)},
          {"C4", {x, f32({5, 2, 2})}, lowered_attrs("forward", {}, 2)},
          {"C4", {f32({2, 4, 6}), w}, lowered_attrs("input_grad", {6}, 2)},
          {"C5", {x, w}, with(lowered_attrs("forward", {}, 2), "filter_outputs", "middle")},
          {"C6", {x, w}, with(lowered_attrs("forward", {}, 2), "implementation", "matmul")}};
}

}  // namespace

std::vector<OpDef> lowered_convolution_ops() {
  return {{
      .name = "conv",
      .version = 2,
      .category = "lowered",
      .doc = "A convolution or one of its gradients that a library computes: input [N, space..., C], filter [O, "
             "taps..., C/groups] or, where filter_outputs is \"last\", [taps..., C/groups, O], output [N, space'..., O]. "
             "Of a GPU's program the kernel `fallback`, which `fuse` adds, computes the same without the library.",
      .operands = {{"a", "the input; of an input_grad the cotangent of the output"},
                   {"b", "the filter; of a filter_grad the cotangent of the output"}},
      .attrs = with_call_attrs({
          required("kind", AttrKind::kString, "\"forward\", \"input_grad\" or \"filter_grad\""),
          optional("spatial", "of a gradient: the result's spatial sizes", Shape{}),
          required("strides", AttrKind::kInts, "as in convolution"),
          required("padding_low", AttrKind::kInts, "as in convolution"),
          required("padding_high", AttrKind::kInts, "as in convolution"),
          required("dilation", AttrKind::kInts, "as in convolution"),
          optional("groups", "as in convolution", int64_t{1}),
          optional("filter_outputs", "where the filter has its O: \"first\" or \"last\"", std::string("first"))}),
      .results = {{"out", "the output, or the gradient of the input or of the filter"}},
      .constraints = {{"C1", "the operands have one dtype"},
                      {"C2", "kind is \"forward\", \"input_grad\" or \"filter_grad\""},
                      {"C3",
                       "both operands have rank 3 to 5, the same; lists have one entry per spatial dimension, `spatial`"
                       " in gradients; strides, dilation and groups are at least 1, padding at least 0"},
                      {"C4", "sizes agree as in convolution, and the groups divide the channels"},
                      {"C5", "filter_outputs is \"first\" or \"last\""},
                      {"C6", "implementation is a library's way to compute convolutions"}},
      .traits = {},
      .stages = ir::stages(ir::Stage::kLocal, ir::Stage::kPlanned),
      .infer = infer_conv,
      .reference = ir::by_decomposition(),
      .fold = ir::no_rule(kLowered),
      .decompose = decompose_conv,
      .vjp = ir::not_differentiable(kLowered),
      .jvp = ir::not_differentiable(kLowered),
      .batch = ir::no_rule(kLowered),
      .factors = ir::no_rule(kLowered),
      .access = ir::no_rule(kLowered),
      .linearity = ir::not_linear(),
      .lower = Lowering::kLibrary,
      .cost =
          [](const TypedOp& op) {
            Sizes s = sizes_of(op.attrs, op.operands[0].shape, op.operands[1].shape);
            Cost cost = pointwise_cost(op, 0);
            Shape sums(s.filter.begin() + 1, s.filter.end());
            cost.flops = Type(DType::kF32, s.output).count() * Type(DType::kF32, sums).count() * 2;
            return cost;
          },
      .upgrades = {with_cudnn},
      .dtypes = DTypes::kFloats,
      .examples = {{{operand(f32({2, 5, 4})), operand(f32({6, 2, 2}))}, lowered_attrs("forward", {}, 2)},
                   {{operand(f32({2, 4, 6})), operand(f32({6, 2, 2}))}, lowered_attrs("input_grad", {5}, 2)},
                   {{operand(f32({2, 5, 4})), operand(f32({2, 4, 6}))}, lowered_attrs("filter_grad", {2}, 2)},
                   {{operand(f32({2, 5, 4})), operand(f32({2, 2, 6}))},
                    with(lowered_attrs("forward", {}, 2), "filter_outputs", "last")},
                   {{operand(f32({2, 4, 6})), operand(f32({2, 2, 6}))},
                    with(lowered_attrs("input_grad", {5}, 2), "filter_outputs", "last")},
                   {{operand(f32({2, 5, 4})), operand(f32({2, 4, 6}))},
                    with(lowered_attrs("filter_grad", {2}, 2), "filter_outputs", "last")}},
      .draw =
          [](Rng& rng) {
            Dim channels = random_positive_dim(rng), taps = random_int(rng, 1, 2);
            Shape input = {random_positive_dim(rng), Dim(random_int(rng, 2, 7)), channels};
            return Example{{operand(f32(input)), operand(f32({random_positive_dim(rng), taps, channels}))},
                           lowered_attrs("forward", {}, 1)};
          },
      .rejects = lowered_rejects(),
  }};
}

}  // namespace nabla::ops
