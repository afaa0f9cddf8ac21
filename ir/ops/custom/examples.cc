// What custom_call is checked with: kernels that are compiled for both machines, and calls that are refused.
#include "ir/ops/custom/examples.h"

#include <limits>

namespace nabla::ops {
namespace {

constexpr const char* kScale = R"(
#include <math.h>
// y[i, j] = x[i, j] * s[j] + 1; sums[i] = the sum of x[i, j].
void scale_rows(const T* x, const T* s, T* y, T* sums, int64_t n, int64_t d) {
  for (int64_t i = 0; i < n; ++i) {
    T sum = 0;
    for (int64_t j = 0; j < d; ++j) {
      sum += x[i * d + j];
      y[i * d + j] = x[i * d + j] * s[j] + T(1);
    }
    sums[i] = sum;
  }
}
)";
// A block per row; its threads share out the columns and meet in shared memory.
constexpr const char* kScaleCuda = R"(
__device__ void scale_rows(const T* x, const T* s, T* y, T* sums, int64_t n, int64_t d) {
  __shared__ T parts[64];
  const int64_t i = blockIdx.x;
  T sum = 0;
  for (int64_t j = threadIdx.x; i < n && j < d; j += blockDim.x) {
    sum += x[i * d + j];
    y[i * d + j] = x[i * d + j] * s[j] + T(1);
  }
  parts[threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.x != 0 || i >= n) return;
  for (unsigned t = 1; t < blockDim.x; ++t) sum += parts[t];
  sums[i] = sum;
}
)";
constexpr const char* kScaleExamples = R"(
static void scale_row(const T* x, const T* s, T* y, T* sums, int64_t d) {
  T sum = 0;
  for (int64_t j = 0; j < d; ++j) sum += x[j], y[j] = x[j] * s[j] + T(1);
  *sums = sum;
}
void scale_rows(const T* x, const T* s, T* y, T* sums, int64_t batch, int64_t n, int64_t d) {
  for (int64_t b = 0; b < batch; ++b)
    for (int64_t i = 0; i < n; ++i)
      scale_row(x + (b * n + i) * d, s + b * d, y + (b * n + i) * d, sums + b * n + i, d);
}
)";
// A thread per row of all examples, in strides of the grid.
constexpr const char* kScaleExamplesCuda = R"(
void scale_rows(const T* x, const T* s, T* y, T* sums, int64_t batch, int64_t n, int64_t d) {
  for (int64_t row = int64_t(blockIdx.x) * blockDim.x + threadIdx.x; row < batch * n;
       row += int64_t(gridDim.x) * blockDim.x) {
    T sum = 0;
    for (int64_t j = 0; j < d; ++j) {
      sum += x[row * d + j];
      y[row * d + j] = x[row * d + j] * s[row / n * d + j] + T(1);
    }
    sums[row] = sum;
  }
}
)";
constexpr const char* kRotate = R"(
void rotate(const T* x, T* y, int64_t n) {
  for (int64_t i = 0; i < n; ++i) y[i] = x[(i + 1) % n];
}
)";
constexpr const char* kRotateCuda = R"(
void rotate(const T* x, T* y, int64_t n) {
  const int64_t i = int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < n) y[i] = x[(i + 1) % n];
}
)";

struct Texts {
  const char *cpp, *cuda, *blocks;
};

Attrs user_attrs(const char* name, const Texts& texts, const char* signature, const char* factors,
                 const char* batching) {
  return {{"name", std::string(name)},
          {"cpp", std::string(texts.cpp)},
          {"file", std::string("kernels.cc")},
          {"line", int64_t{7}},
          {"cuda", std::string(texts.cuda)},
          {"cuda_file", std::string("kernels.cu")},
          {"cuda_line", int64_t{3}},
          {"threads", int64_t{64}},
          {"blocks", std::string(texts.blocks)},
          {"signature", std::string(signature)},
          {"factors", std::string(factors)},
          {"batching", std::string(batching)},
          {"reference", ir::FunctionRefs{FunctionRef{"f"}}}};
}

Example scale_example(int64_t n, int64_t d, bool leading, const char* dtype) {
  std::string text = fmt::format(R"(
func @f(%x: {2}[{0},{1}], %s: {2}[{1}]) {{
  %w = broadcast_in_dim(%s) {{dims=[1], shape=[{0}, {1}]}}
  %p = mul(%x, %w)
  %c = constant() {{value={2}[]{{1}}}}
  %one = broadcast_in_dim(%c) {{dims=[], shape=[{0}, {1}]}}
  %y = add(%p, %one)
  %sums = reduce_sum(%x) {{axes=[1]}}
  return %y, %sums
}}
)",
                                 n, d, dtype);
  Texts texts = leading ? Texts{kScaleExamples, kScaleExamplesCuda, "min(ceildiv(batch * n, 64), 2)"}
                        : Texts{kScale, kScaleCuda, "n"};
  Attrs attrs = user_attrs("scale_rows", texts, "T[n,d], T[d] -> T[n,d], T[n]", leading ? "" : "nd,d->nd,n",
                           leading ? "leading" : "sequential");
  DType t = *dtype_from_name(dtype);
  return {{operand({t, {n, d}}), operand({t, {d}})}, attrs, text};
}

Example rotate_example(DType dtype) {
  std::string text = fmt::format(R"(
func @f(%x: {0}[5]) {{
  %a = slice(%x) {{starts=[1], limits=[5], strides=[1]}}
  %b = slice(%x) {{starts=[0], limits=[1], strides=[1]}}
  %y = concatenate(%a, %b) {{axis=0}}
  return %y
}}
)",
                                 name_of(dtype));
  return {{operand({dtype, {5}})},
          user_attrs("rotate", {kRotate, kRotateCuda, ""}, "T[n] -> T[n]", "", "sequential"),
          text};
}

Attrs with(Attrs attrs, const char* name, Attr value) {
  attrs.set(name, std::move(value));
  return attrs;
}

}  // namespace

std::vector<Example> custom_call_examples() {
  return {scale_example(4, 3, false, "f32"), scale_example(4, 3, true, "f32"),  scale_example(7, 1, false, "f64"),
          scale_example(3, 5, true, "f64"),  scale_example(2, 3, false, "i32"), scale_example(0, 3, false, "f32"),
          scale_example(3, 0, false, "f32"), rotate_example(DType::kF32),       rotate_example(DType::kBF16),
          rotate_example(DType::kF16),       rotate_example(DType::kU8),        rotate_example(DType::kBool)};
}

Example draw_custom_call(Rng& rng) {
  return scale_example(random_dim(rng), random_dim(rng, 17), random_bool(rng), "f32");
}

std::vector<Reject> custom_call_rejects() {
  Example e = scale_example(4, 3, false, "f32");
  Types types = {f32({4, 3}), f32({3})};
  auto text = [&](const char* name, const char* value) { return with(e.attrs, name, std::string(value)); };
  auto bad = [&](const char* constraint, Attrs attrs) {
    return Reject{constraint, types, std::move(attrs), e.functions};
  };
  auto functions = [&](const char* attr, std::initializer_list<const char*> names) {
    ir::FunctionRefs list;
    for (const char* n : names) list.push_back({n});
    return with(e.attrs, attr, list);
  };
  std::vector<Reject> out = {bad("C1", text("name", "two words")), bad("C1", text("name", "3d"))};
  for (const char* signature : {"", "f32[n]", "T[n,d] T[d] -> T[n]", "float[n,d], T[d] -> T[n]", "T[n,d], T[d] -> T[m]",
                                "f32[n,d], f32[d] -> T[n]", "T[2*n,d], T[d] -> T[n]", "T[n,d], T[d] -> T[n",
                                "T[n,d], T[d] -> T[min(n,d)]", "T[n,d], T[d] -> T[n] \"", "T[n,d], T[d] -> T[n] n"})
    out.push_back(bad("C2", text("signature", signature)));
  out.push_back(bad("C3", text("batching", "never")));
  out.push_back(bad("C3", with(e.attrs, "batch_dims", int64_t{1})));
  out.push_back(bad("C3", with(e.attrs, "batch_dims", int64_t{-1})));
  Attrs taken = with(text("batching", "leading"), "signature", std::string("T[batch,d], T[d] -> T[d]"));
  out.push_back(bad("C3", taken));
  for (const char* signature : {"T[n,d] -> T[n,d]", "T[n,d], i32[d] -> T[n]", "T[n,d], T[n] -> T[n]",
                                "T[n,d], T[d,n] -> T[n]", "T[4,d], T[d+1] -> T[d]", "T[5,d], T[d] -> T[d]"})
    out.push_back(bad("C4", text("signature", signature)));
  out.push_back({"C4", {f32({4, 3}), i32({3})}, e.attrs, e.functions});
  out.push_back(bad("C5", text("signature", "T[n,d], T[d] -> T[d-n], T[n]")));
  for (const char* factors : {"nd,d", "nd,d->n", "nd->nd,n", "nd,n->nd,n", "nd,d->nk,n", "n,d->nd,n", "n1,d->nd,n"})
    out.push_back(bad("C6", text("factors", factors)));
  Attrs batched = text("batching", "leading");
  out.push_back(bad("C3", with(batched, "batch_dims", INT64_MAX)));
  out.push_back(bad("C7", with(e.attrs, "line", int64_t{0})));
  out.push_back(bad("C7", with(e.attrs, "line", int64_t{1} << 31)));
  for (const char* file : {"a\nb.cc", "\"a.cc"}) out.push_back(bad("C7", text("file", file)));
  for (const char* file : {"a\nb.cu", "\"a.cu"}) out.push_back(bad("C7", text("cuda_file", file)));
  out.push_back(bad("C7", with(e.attrs, "cuda_line", int64_t{-1})));
  out.push_back(bad("C8", functions("reference", {"missing"})));
  out.push_back(bad("C8", functions("reference", {"f", "f"})));
  out.push_back(bad("C8", text("signature", "T[n,d], T[d] -> T[n,d]")));
  out.push_back(bad("C8", text("signature", "T[n,d], T[d] -> T[n,d], T[d]")));
  out.push_back(bad("C9", functions("vjp", {"f"})));
  for (int64_t threads : {-1, 0, 1025}) out.push_back(bad("C10", with(e.attrs, "threads", threads)));
  for (int64_t bytes : {-1, (227 << 10) + 1}) out.push_back(bad("C10", with(e.attrs, "shared_bytes", bytes)));
  out.push_back(bad("C10", text("cuda", "")));
  for (const char* blocks : {"m", "n +", "n / 2", "batch", "floordiv(n, d - 3)", "2147483648", "n 2"})
    out.push_back(bad("C11", text("blocks", blocks)));
  // Both of these are refused for their factors unless those are left out.
  for (Reject& r : out)
    if (r.constraint == "C8") r.attrs.set("factors", std::string());
  return out;
}

}  // namespace nabla::ops
