#include "tests/cuda/fake_cudnn/problem.h"

#include <algorithm>
#include <bit>
#include <chrono>
#include <numeric>
#include <thread>

#include "runtime/base/diagnostic.h"

namespace nabla::fake_cudnn {
namespace {

constexpr int kFloat = 0, kHalf = 2, kBfloat16 = 9, kMultiplyAdd = 3;

/// Factors as tensor cores take them: 10 bits of fraction, to nearest even.
float tf32(float x) {
  auto bits = std::bit_cast<uint32_t>(x);
  if ((bits & 0x7f800000u) == 0x7f800000u) return x;
  bits += 0xfffu + ((bits >> 13) & 1u);
  return std::bit_cast<float>(bits & ~0x1fffu);
}

/// The elements of a tensor, row-major by its sizes, and back.
class Elements {
 public:
  Elements(const Tensor& t, const void* at) : tensor_(t), at_(const_cast<void*>(at)) {
    dtype_of(t.type, dtype_);
    values.resize(std::accumulate(t.sizes.begin(), t.sizes.end(), size_t{1}, std::multiplies<>()));
  }
  void load(bool rounded) {
    visit([&](size_t i, int64_t place) {
      auto x = static_cast<float>(get_float(dtype_, at_, place));
      values[i] = rounded ? tf32(x) : x;
    });
  }
  void store() const {
    visit([&](size_t i, int64_t place) { set_float(dtype_, at_, place, static_cast<double>(values[i])); });
  }
  std::vector<float> values;

 private:
  template <class F>
  void visit(F f) const {
    Ints at(tensor_.sizes.size(), 0);
    for (size_t i = 0; i < values.size(); ++i) {
      int64_t place = 0;
      for (size_t d = 0; d < at.size(); ++d) place += static_cast<int64_t>(at[d]) * tensor_.strides[d];
      f(i, place);
      for (size_t d = at.size(); d-- > 0 && ++at[d] == tensor_.sizes[d];) at[d] = 0;
    }
  }
  const Tensor& tensor_;
  void* at_;
  DType dtype_ = DType::kF32;
};

/// Sizes of two or three spatial dimensions as three.
struct Space {
  int sizes[3] = {1, 1, 1};
  explicit Space(const Ints& shape) { std::copy(shape.begin() + 2, shape.end(), sizes + 5 - shape.size()); }
  int count() const { return sizes[0] * sizes[1] * sizes[2]; }
};
struct Window {
  int padding = 0, stride = 1, dilation = 1;
};

std::string fault_of(const Tensor& t, const char* name) {
  DType dtype = DType::kF32;
  if (!dtype_of(t.type, dtype)) return fmt::format("{} has type {}", name, t.type);
  if (t.sizes.size() < 4 || t.sizes.size() > 5) return fmt::format("{} has {} dimensions", name, t.sizes.size());
  for (size_t d = 0; d < t.sizes.size(); ++d)
    if (t.sizes[d] < 1 || t.strides[d] < 1)
      return fmt::format("{} has size {}, stride {}", name, t.sizes[d], t.strides[d]);
  std::vector<size_t> order(t.sizes.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return std::pair(t.strides[a], t.sizes[a]) < std::pair(t.strides[b], t.sizes[b]);
  });
  int64_t packed = 1;
  for (size_t d : order) {
    if (t.strides[d] != packed && t.sizes[d] > 1) return fmt::format("{} is not packed", name);
    packed *= t.sizes[d];
  }
  return "";
}

}  // namespace

bool dtype_of(int type, DType& out) {
  out = type == kHalf ? DType::kF16 : type == kBfloat16 ? DType::kBF16 : DType::kF32;
  return type == kFloat || type == kHalf || type == kBfloat16;
}

uint64_t Tensor::bytes() const {
  DType dtype = DType::kF32;
  dtype_of(type, dtype);
  uint64_t last = 1;
  for (size_t d = 0; d < sizes.size(); ++d)
    last += static_cast<uint64_t>(sizes[d] - 1) * static_cast<uint64_t>(strides[d]);
  return last * static_cast<uint64_t>(bytes_of(dtype));
}

Tensor Filter::as_tensor() const {
  Tensor out{type, sizes, Ints(sizes.size(), 1)};
  int stride = 1;
  if (format == 1) stride *= sizes[1];
  for (size_t d = sizes.size(); d-- > 2;) out.strides[d] = stride, stride *= sizes[d];
  if (format == 0) out.strides[1] = stride, stride *= sizes[1];
  out.strides[0] = stride;
  return out;
}

std::string Problem::fault() const {
  if (w.format != 0 && w.format != 1) return fmt::format("a filter of format {}", w.format);
  const Tensor filter = w.as_tensor();
  for (auto [tensor, name] : {std::pair(&x, "x"), std::pair(&filter, "w"), std::pair(&y, "y")})
    if (std::string wrong = fault_of(*tensor, name); !wrong.empty()) return wrong;
  if (x.type != w.type || y.type != w.type) return fmt::format("types {}, {} and {}", x.type, w.type, y.type);
  size_t rank = x.sizes.size();
  if (w.sizes.size() != rank || y.sizes.size() != rank || windows.padding.size() + 2 != rank)
    return fmt::format("ranks {}, {}, {} and {} windows", rank, w.sizes.size(), y.sizes.size(), windows.padding.size());
  if (windows.mode != 1 || windows.compute != kFloat)
    return fmt::format("mode {}, sums of type {}", windows.mode, windows.compute);
  int groups = windows.groups;
  if (x.sizes[0] != y.sizes[0] || w.sizes[1] * groups != x.sizes[1] || w.sizes[0] != y.sizes[1] || y.sizes[1] % groups)
    return fmt::format("x of {}x{}, w of {}x{}, y of {}x{} in {} groups", x.sizes[0], x.sizes[1], w.sizes[0],
                       w.sizes[1], y.sizes[0], y.sizes[1], groups);
  for (size_t d = 2; d < rank; ++d) {
    int pad = windows.padding[d - 2], stride = windows.strides[d - 2], dilation = windows.dilation[d - 2];
    if (pad < 0 || stride < 1 || dilation < 1) return fmt::format("padding {}, {}, {}", pad, stride, dilation);
    int room = x.sizes[d] + 2 * pad - ((w.sizes[d] - 1) * dilation + 1);
    if (room < 0 || room / stride + 1 != y.sizes[d])
      return fmt::format("dimension {} of y is {}, not {}", d, y.sizes[d], room / stride + 1);
  }
  return "";
}

void Problem::compute() const {
  if (delay_ms > 0) std::this_thread::sleep_for(std::chrono::milliseconds(delay_ms));
  bool rounded = x.type == kFloat && windows.math != kMultiplyAdd;
  const Tensor filter = w.as_tensor();
  Elements xs(x, px), ws(filter, pw), ys(y, py);
  if (kind != kBackwardData) xs.load(rounded);
  if (kind != kBackwardFilter) ws.load(rounded);
  if (kind != kForward) ys.load(rounded);
  Space in(x.sizes), taps(w.sizes), out(y.sizes);
  Window along[3];
  for (size_t d = 0, first = 3 - windows.padding.size(); first + d < 3; ++d)
    along[first + d] = {windows.padding[d], windows.strides[d], windows.dilation[d]};
  int images = x.sizes[0], channels = w.sizes[1], features = y.sizes[1] / windows.groups;
  for (int n = 0; n < images; ++n)
    for (int k = 0; k < y.sizes[1]; ++k)
      for (int o = 0; o < out.count(); ++o)
        for (int t = 0; t < taps.count(); ++t) {
          int rest_o = o, rest_t = t, place = 0, step = 1;
          bool inside = true;
          for (int d = 2; d >= 0; --d) {
            int at =
                rest_o % out.sizes[d] * along[d].stride + rest_t % taps.sizes[d] * along[d].dilation - along[d].padding;
            inside = inside && at >= 0 && at < in.sizes[d];
            place += at * step, step *= in.sizes[d];
            rest_o /= out.sizes[d], rest_t /= taps.sizes[d];
          }
          if (!inside) continue;
          size_t yi = (static_cast<size_t>(n) * y.sizes[1] + k) * out.count() + o;
          for (int c = 0; c < channels; ++c) {
            size_t xi = (static_cast<size_t>(n) * x.sizes[1] + k / features * channels + c) * in.count() + place;
            size_t wi = (static_cast<size_t>(k) * channels + c) * taps.count() + t;
            float &a = xs.values[xi], &b = ws.values[wi], &z = ys.values[yi];
            kind == kForward ? z += a* b : kind == kBackwardData ? a += b* z : b += a * z;
          }
        }
  (kind == kForward ? ys : kind == kBackwardData ? xs : ws).store();
}

}  // namespace nabla::fake_cudnn
