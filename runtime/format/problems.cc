#include "runtime/format/problems.h"

namespace nabla::format {
namespace {

static_assert(static_cast<int>(Epilogue::Gelu) == static_cast<int>(Activation::kGelu));
static_assert(static_cast<int>(ConvKind::FilterGrad) == static_cast<int>(ConvolutionKind::kFilterGrad));

std::vector<int64_t> list(const flatbuffers::Vector<int64_t>* extents) {
  return extents == nullptr ? std::vector<int64_t>() : std::vector<int64_t>(extents->begin(), extents->end());
}

}  // namespace

GemmProblemOf<int64_t> problem_of(const Gemm& g) {
  GemmProblemOf<int64_t> p;
  p.dtype = static_cast<nabla::DType>(g.dtype());
  p.batch = g.batch(), p.m = g.m(), p.n = g.n(), p.k = g.k();
  p.transpose_a = g.transpose_a(), p.transpose_b = g.transpose_b();
  p.lda = g.lda(), p.ldb = g.ldb(), p.ldc = g.ldc();
  p.stride_a = g.stride_a(), p.stride_b = g.stride_b(), p.stride_c = g.stride_c();
  p.activation = static_cast<Activation>(g.epilogue());
  p.bias = g.bias() != nullptr, p.addend = g.addend() != nullptr, p.tf32 = g.tf32();
  return p;
}

void set_problem(GemmT& g, const GemmProblemOf<int64_t>& p) {
  g.dtype = static_cast<DType>(p.dtype);
  g.batch = p.batch, g.m = p.m, g.n = p.n, g.k = p.k;
  g.transpose_a = p.transpose_a, g.transpose_b = p.transpose_b;
  g.lda = p.lda, g.ldb = p.ldb, g.ldc = p.ldc;
  g.stride_a = p.stride_a, g.stride_b = p.stride_b, g.stride_c = p.stride_c;
  g.epilogue = static_cast<Epilogue>(p.activation), g.tf32 = p.tf32;  // bias and addend are operands
}

ConvolutionSpec problem_of(const Convolution& c) {
  ConvolutionSpec s;
  s.kind = static_cast<ConvolutionKind>(c.kind());
  s.dtype = static_cast<nabla::DType>(c.dtype());
  s.input_shape = list(c.input_shape()), s.filter_shape = list(c.filter_shape());
  s.output_shape = list(c.output_shape());
  s.strides = list(c.strides()), s.dilations = list(c.dilations());
  s.padding_low = list(c.padding_low()), s.padding_high = list(c.padding_high());
  s.groups = c.groups(), s.tf32 = c.tf32();
  return s;
}

void set_problem(ConvolutionT& c, const ConvolutionSpec& s) {
  c.kind = static_cast<ConvKind>(s.kind), c.dtype = static_cast<DType>(s.dtype);
  c.input_shape = s.input_shape, c.filter_shape = s.filter_shape, c.output_shape = s.output_shape;
  c.strides = s.strides, c.dilations = s.dilations;
  c.padding_low = s.padding_low, c.padding_high = s.padding_high;
  c.groups = s.groups, c.tf32 = s.tf32;
}

}  // namespace nabla::format
