#include "ir/library/convolution.h"

#include <algorithm>

namespace nabla::ir {
namespace {

using Extents = std::vector<int64_t>;

Extents most(const Shape& shape) {
  Extents out;
  for (const Dim& d : shape) out.push_back(d.bounds().max);
  return out;
}

// Sizes that a library's call is made for: none is empty, and only the batch may be symbolic.
bool fixed(const ConvolutionRoles& r, const Function& f) {
  for (ValueId id : {r.input, r.filter, r.output}) {
    const Shape& shape = f.type(id).shape;
    if (f.type(id).count().bounds().min <= 0) return false;
    for (size_t d = id == r.filter ? 0 : 1; d < shape.size(); ++d)
      if (!shape[d].is_static()) return false;
  }
  return true;
}

// Do the padding in front on both sides and the stride give the sizes that there are? More at the end may go unread.
bool even_padding(const ConvolutionSpec& s) {
  for (size_t d = 0; d < s.strides.size(); ++d) {
    int64_t window = (s.filter_shape[d] - 1) * s.dilations[d] + 1;
    int64_t room = s.input_shape[d + 1] + 2 * s.padding_low[d] - window;
    if (room < 0 || room / s.strides[d] + 1 != s.output_shape[d + 1]) return false;
  }
  return true;
}

}  // namespace

ConvolutionRoles convolution_roles(const Node& n) {
  bool call = n.op->lower == Lowering::kLibrary;
  bool input_grad = call ? n.attrs.get_string("kind") == "input_grad" : n.op->name == "conv_input_grad";
  bool filter_grad = call ? n.attrs.get_string("kind") == "filter_grad" : n.op->name == "conv_filter_grad";
  ValueId a = n.operands[0], b = n.operands[1], out = n.results[0];
  if (input_grad) return {ConvolutionKind::kInputGrad, out, b, a};
  if (filter_grad) return {ConvolutionKind::kFilterGrad, a, out, b};
  return {ConvolutionKind::kForward, a, b, out};
}

Dim ConvolutionProblem::flops() const {
  double each = spec.flops() / static_cast<double>(spec.output_shape[0]);
  return Dim(static_cast<int64_t>(std::min(each, 9e18))) * batch;
}

ConvolutionSpec convolution_problem(const Node& n, const Function& f) {
  ConvolutionRoles r = convolution_roles(n);
  ConvolutionSpec s;
  s.kind = r.kind;
  s.dtype = f.type(r.input).dtype;
  s.input_shape = most(f.type(r.input).shape), s.output_shape = most(f.type(r.output).shape);
  s.filter_shape = most(f.type(r.filter).shape);
  if (n.op->lower == Lowering::kLibrary && n.attrs.get_string("filter_outputs") == "first") {
    s.filter_shape.push_back(s.filter_shape[0]);
    s.filter_shape.erase(s.filter_shape.begin());
  }
  s.strides = n.attrs.get_ints("strides"), s.dilations = n.attrs.get_ints("dilation");
  s.padding_low = n.attrs.get_ints("padding_low"), s.padding_high = n.attrs.get_ints("padding_high");
  s.groups = n.attrs.get_int("groups");
  return s;
}

std::string convolution_choice(const Node& n, const Function& f, const Target& target) {
  const Type& out = f.type(n.results[0]);
  bool cuda = target.is_cuda();
  bool known = out.dtype == DType::kF32 && (cuda || out.rank() == 4);
  known |= cuda && (out.dtype == DType::kBF16 || out.dtype == DType::kF16);
  if (!target.library || !known || !fixed(convolution_roles(n), f)) return "generated";
  ConvolutionSpec s = convolution_problem(n, f);
  if (cuda && !even_padding(s)) return "generated";
  auto measured = target.choices.find(s.key());
  if (measured == target.choices.end()) measured = target.choices.find("convolution");
  if (measured != target.choices.end()) return measured->second;
  auto least = static_cast<double>(cuda ? target.library_flops : target.library_flops / 4);
  if (s.flops() < least) return "generated";
  return cuda ? "cudnn" : "direct";
}

}  // namespace nabla::ir
