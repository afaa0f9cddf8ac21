#include "frontend/cpp/quantize.h"

#include "frontend/cpp/emit.h"
#include "frontend/cpp/frame.h"

namespace nabla {
namespace {

/// [..., n] as [..., n / block, block].
Tensor blocks_of(const Arg& x, int64_t block, const char* function) {
  const Tensor& t = need_tensor(x, function);
  if (t.rank() < 1 || block < 1 || t.size(-1) % block != 0)
    throw error_at(x.site(), Code::kShapeMismatch, "{}: blocks of {} in {}", function, block, t.type().str());
  Shape shape = t.shape();
  shape.back() = ir::Dim(t.size(-1) / block);
  shape.emplace_back(block);
  return reshape(x, shape);
}

double largest(DType dtype, const Site& site) {
  if (dtype == DType::kI8) return 127;
  if (dtype == DType::kF8E4M3) return 448;
  if (dtype == DType::kF8E5M2) return 57344;
  throw error_at(site, Code::kBadAttribute, "quantize: dtype is {}, expected i8, f8e4m3 or f8e5m2", name_of(dtype));
}

}  // namespace

Quantized quantize(const Arg& x, int64_t block, DType dtype) {
  AtSite at(x);
  double most = largest(dtype, x.site());
  Tensor blocks = blocks_of(x, block, "quantize");
  Tensor top = amax(abs(blocks), {-1}, true);
  Tensor scale = select(gt(top, 0), top / most, ones(top.shape(), top.dtype()));
  Tensor scaled = clip(blocks / scale, -most, most);
  Tensor values = convert(is_float(dtype) ? scaled : round(scaled), dtype);
  return {reshape(values, x.tensor().shape()), squeeze(scale, {-1})};
}

Tensor dequantize(const Arg& values, const Arg& scales) {
  AtSite at(values);
  const Tensor &v = need_tensor(values, "dequantize"), &s = need_tensor(scales, "dequantize");
  if (v.rank() < 1 || s.rank() != v.rank() || s.size(-1) < 1 || v.size(-1) % s.size(-1) != 0)
    throw error_at(values.site(), Code::kShapeMismatch, "dequantize: scales {} for {}", s.type().str(), v.type().str());
  Tensor blocks = blocks_of(values, v.size(-1) / s.size(-1), "dequantize");
  return reshape(convert(blocks, s.dtype()) * unsqueeze(scales, -1), v.shape());
}

Tensor fake_quantize(const Arg& x, int64_t block, DType dtype) {
  AtSite at(x);
  Quantized q = quantize(x, block, dtype);
  return x + stop_gradient(dequantize(q.values, q.scales) - x);
}

// ---- NF4

namespace {

/// Quantiles of the normal distribution, scaled to [-1, 1], with an exact zero.
constexpr double kCodebook[16] = {-1.0,       -0.6961928, -0.5250731, -0.3949175, -0.2844414, -0.1847734,
                                  -0.0910500, 0.0,        0.0795803,  0.1609302,  0.2461123,  0.3379152,
                                  0.4407098,  0.5626170,  0.7229568,  1.0};

Tensor codebook() {
  Literal values(DType::kF32, {16});
  for (int i = 0; i < 16; ++i) values.set(i, kCodebook[i]);
  return constant(values);
}

}  // namespace

Quantized quantize_nf4(const Arg& w, int64_t block) {
  AtSite at(w);
  Tensor flat = flatten(need_tensor(w, "quantize_nf4"));
  if (block % 2 != 0)
    throw error_at(w.site(), Code::kBadAttribute, "quantize_nf4: a block of {} elements, expected an even number",
                   block);
  Tensor blocks = convert(blocks_of(flat, block, "quantize_nf4"), f32);
  Tensor top = amax(abs(blocks), {-1}, true);
  Tensor scale = select(gt(top, 0), top, ones(top.shape()));
  // The nearest code: how many of the 15 midpoints lie below.
  Tensor scaled = reshape(blocks / scale, Shape{flat.shape()[0], 1});
  Tensor codes = codebook();
  Tensor middles = (slice_axis(codes, 0, 0, 15) + slice_axis(codes, 0, 1, 16)) * 0.5;
  Tensor code = sum(convert(gt(scaled, middles), i32), {1});
  Tensor pairs = reshape(code, Shape{flat.size(0) / 2, 2});
  Tensor bytes = slice_axis(pairs, 1, 0, 1) * 16 + slice_axis(pairs, 1, 1, 2);
  return {convert(squeeze(bytes, {1}), u8), reshape(scale, Shape{flat.size(0) / block})};
}

Tensor dequantize_nf4(const Quantized& q, const Shape& shape) {
  AtSite at(Arg(q.values));
  Tensor bytes = convert(q.values, i32);
  Tensor codes = flatten(stack({div(bytes, 16), rem(bytes, 16)}, 1));
  Tensor values = reshape(take(codebook(), codes), Shape{q.scales.shape()[0], codes.size(0) / q.scales.size(0)});
  return reshape(values * unsqueeze(q.scales, 1), shape);
}

}  // namespace nabla
