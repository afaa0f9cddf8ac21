#include "frontend/python/native/eager_rewrites.h"

#include <algorithm>

#include "ir/builder.h"
#include "ir/ops/all_ops.h"

namespace nabla::python {
namespace {

using ir::Dim;
using ir::Ints;
using ir::Shape;
using ir::Val;

Ints without(int rank, const Ints& axes) {
  Ints out;
  for (int64_t d = 0; d < rank; ++d)
    if (std::find(axes.begin(), axes.end(), d) == axes.end()) out.push_back(d);
  return out;
}

Ints joined(Ints a, const Ints& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

Val in_order(Val x, const Ints& order) {
  return std::is_sorted(order.begin(), order.end()) ? x : ir::transpose(x, order);
}

Dim extent_of(const Val& x, const Ints& dims) {
  Dim n = 1;
  for (int64_t d : dims) n = n * x.shape()[d];
  return n;
}

// ---- Products of matrices.

/// An operand of a product as a matrix, or as a batch of them.
struct Matrix {
  Val value;
  bool contracts_last;
};

Matrix matrix_of(Val x, const Ints& batch, const Ints& contract, bool contracts_last) {
  Ints free = without(x.rank(), joined(batch, contract));
  auto order_of = [&](bool last) { return joined(joined(batch, last ? free : contract), last ? contract : free); };
  Ints other = order_of(!contracts_last);
  if (std::is_sorted(other.begin(), other.end())) contracts_last = !contracts_last;  // it lies the other way round
  Shape shape;
  if (!batch.empty()) shape.push_back(extent_of(x, batch));
  Dim rows = extent_of(x, free), depth = extent_of(x, contract);
  shape.push_back(contracts_last ? rows : depth);
  shape.push_back(contracts_last ? depth : rows);
  return {ir::reshape(in_order(x, order_of(contracts_last)), shape), contracts_last};
}

Val dot(Val a, const Ints& a_batch, const Ints& a_contract, Val b, const Ints& b_batch, const Ints& b_contract,
        const Shape& result) {
  Matrix l = matrix_of(a, a_batch, a_contract, true), r = matrix_of(b, b_batch, b_contract, false);
  int64_t first = a_batch.empty() ? 0 : 1;
  Ints batch = a_batch.empty() ? Ints{} : Ints{0};
  Val out = a.b->op("dot_general", {l.value, r.value},
                    {{"lhs_contract", Ints{first + l.contracts_last}},
                     {"rhs_contract", Ints{first + r.contracts_last}},
                     {"lhs_batch", batch},
                     {"rhs_batch", batch}});
  return ir::reshape(out, result);
}

Val any_product(const ir::TypedOp& op, const std::vector<Val>& x) {
  auto list = [&](const char* name) { return op.attrs.get_ints(name); };
  return dot(x[0], list("lhs_batch"), list("lhs_contract"), x[1], list("rhs_batch"), list("rhs_contract"),
             op.results[0].shape);
}

// ---- Along other dimensions than those that kernels know.

Val reduction_of_last(const ir::TypedOp& op, Val x) {
  const Ints& axes = op.attrs.get_ints("axes");
  Ints kept = without(x.rank(), axes), last;
  for (size_t d = kept.size(); d < x.shape().size(); ++d) last.push_back(static_cast<int64_t>(d));
  return x.b->op(op.op.name, {in_order(x, joined(kept, axes))}, {{"axes", last}});
}

Val rows_of_last(const ir::TypedOp& op, Val x) {
  int64_t axis = op.attrs.get_int("axis"), last = x.rank() - 1;
  Ints order = joined(without(x.rank(), {axis}), {axis}), back(order.size());
  for (size_t d = 0; d < order.size(); ++d) back[order[d]] = static_cast<int64_t>(d);
  Val out = x.b->op(op.op.name, {ir::transpose(x, order)}, {{"axis", last}});
  return out.rank() == x.rank() ? ir::transpose(out, back) : out;
}

// ---- Convolutions.

/// A window along one dimension: output o reads, with tap t, what stands at o * stride + t * dilation after `low`
/// zeros, when `gap` zeros are between any two elements.
struct Slide {
  int64_t taps, outputs, stride, dilation, low, gap;
};

/// What the outputs read, [images * outputs, taps * channels], of x [images, space..., channels].
Val patches(Val x, const std::vector<Slide>& slides) {
  size_t rank = x.shape().size();
  Ints low(rank, 0), high(rank, 0), gap(rank, 0), ones(rank, 1), tap(slides.size(), 0);
  for (size_t d = 0; d < slides.size(); ++d) {
    const Slide& s = slides[d];
    int64_t size = (x.shape()[d + 1].value() - 1) * (s.gap + 1) + 1;
    int64_t needed = (s.outputs - 1) * s.stride + (s.taps - 1) * s.dilation + 1;
    low[d + 1] = s.low, gap[d + 1] = s.gap, high[d + 1] = needed - size - s.low;
  }
  Val zero = x.b->fill(x.dtype(), {}, 0);
  Val padded = x.b->op("pad", {x, zero}, {{"low", low}, {"high", high}, {"interior", gap}});
  std::vector<Val> parts;
  Dim outputs = x.shape()[0], depth = x.shape().back();
  for (const Slide& s : slides) outputs = outputs * s.outputs, depth = depth * s.taps;
  while (true) {
    Ints starts(rank, 0), limits(rank, -1), strides(rank, 1);
    for (size_t d = 0; d < slides.size(); ++d) {
      const Slide& s = slides[d];
      starts[d + 1] = tap[d] * s.dilation, strides[d + 1] = s.stride;
      limits[d + 1] = starts[d + 1] + (s.outputs - 1) * s.stride + 1;
    }
    parts.push_back(x.b->op("slice", {padded}, {{"starts", starts}, {"limits", limits}, {"strides", strides}}));
    size_t d = slides.size();
    while (d > 0 && ++tap[d - 1] == slides[d - 1].taps) tap[--d] = 0;
    if (d == 0) break;
  }
  Val all = x.b->op("concatenate", parts, {{"axis", static_cast<int64_t>(rank) - 1}});
  return ir::reshape(all, {outputs, depth});
}

/// [a..., b] as a matrix.
Val by_last(Val x) { return ir::reshape(x, {Dim::floordiv(x.type().count(), x.shape().back()), x.shape().back()}); }

Val convolution(const ir::TypedOp& op, const std::vector<Val>& x) {
  bool to_input = op.op.name == "conv_input_grad", to_filter = op.op.name == "conv_filter_grad";
  const Shape& input = to_input ? op.results[0].shape : op.operands[0].shape;
  const Shape& filter = to_filter ? op.results[0].shape : op.operands[1].shape;
  const Shape& output = to_input ? op.operands[0].shape : to_filter ? op.operands[1].shape : op.results[0].shape;
  std::vector<Slide> slides;
  Ints turned;
  for (size_t d = 0; d + 2 < filter.size(); ++d) {
    auto number = [&](const char* name) { return op.attrs.get_ints(name)[d]; };
    int64_t taps = filter[d].value(), dilation = number("dilation"), low = number("padding_low");
    // The gradient by the input slides the filter, turned round, over the cotangent: with gaps where outputs were left
    // out.
    if (to_input)
      slides.push_back({taps, input[d + 1].value(), 1, dilation, dilation * (taps - 1) - low, number("strides") - 1});
    else
      slides.push_back({taps, output[d + 1].value(), number("strides"), dilation, low, 0});
    turned.push_back(static_cast<int64_t>(d));
  }
  Val read = patches(x[0], slides);
  if (to_filter) return dot(read, {}, {0}, by_last(x[1]), {}, {0}, filter);
  if (!to_input) return dot(read, {}, {1}, by_last(x[1]), {}, {0}, output);
  int64_t rank = static_cast<int64_t>(filter.size());
  Val back = x[1].b->op("reverse", {x[1]}, {{"axes", turned}});
  back = ir::transpose(back, joined(turned, {rank - 1, rank - 2}));
  return dot(read, {}, {1}, by_last(back), {}, {0}, input);
}

bool slides_one_group(const ir::TypedOp& op) {
  const std::string& name = op.op.name;
  return (name == "convolution" || name == "conv_input_grad" || name == "conv_filter_grad") &&
         op.attrs.get_int("groups") == 1;
}

}  // namespace

std::optional<ir::Function> rewritten(const ir::Module& module, const ir::TypedOp& op) {
  const std::string& name = op.op.name;
  ir::FunctionBuilder b("rewritten", ops::all_ops(), &module);
  std::vector<Val> x;
  for (const ir::Type& t : op.operands) x.push_back(b.param(fmt::format("x{}", x.size()), t));
  if (op.op.traits.composite && op.op.decompose.exists()) {
    ir::DecomposeContext ctx{b, op, x};
    return b.finish(op.op.decompose(ctx));
  }
  if (name == "dot_general") return b.finish({any_product(op, x)});
  if (slides_one_group(op)) return b.finish({convolution(op, x)});
  if (name.starts_with("reduce_") && op.op.attrs.size() == 1 && !op.attrs.get_ints("axes").empty())
    return b.finish({reduction_of_last(op, x[0])});
  if (name == "softmax" || name == "log_softmax" || name == "logsumexp") return b.finish({rows_of_last(op, x[0])});
  return std::nullopt;
}

}  // namespace nabla::python
