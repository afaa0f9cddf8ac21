#include "bench/gpu_check/kinds.h"

#include <algorithm>

namespace nabla::gpu_check {
namespace {

// A warp per row.
UserKernel row_sums() {
  return cpp_kernel("row_sums", "f32[n,d] -> f32[n]", R"(
void row_sums(const float* x, float* y, int64_t n, int64_t d) {
  for (int64_t i = 0; i < n; ++i) {
    y[i] = 0;
    for (int64_t j = 0; j < d; ++j) y[i] += x[i * d + j];
  }
})")
      .cuda(R"(
__device__ void row_sums(const float* x, float* y, int64_t n, int64_t d) {
  const int64_t row = int64_t(blockIdx.x) * (blockDim.x / 32) + threadIdx.x / 32, lane = threadIdx.x % 32;
  if (row >= n) return;
  float sum = 0;
  for (int64_t j = lane; j < d; j += 32) sum += x[row * d + j];
  for (int lanes = 16; lanes > 0; lanes /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, lanes);
  if (lane == 0) y[row] = sum;
})",
            {.threads = 128, .blocks = "ceildiv(n, 4)"});
}

// Collects kinds while it declares their entries.
class Kinds {
 public:
  explicit Kinds(Program& program) : program_(program) {}
  template <class F>
  void add(Kind kind, const std::vector<Spec>& inputs, F f) {
    program_.entry(kind.name, inputs, [&](const std::vector<Tensor>& x) -> Outputs {
      Outputs out;
      for (const Tensor& t : f(x)) out.push_back({"y" + std::to_string(out.size()), t});
      return out;
    });
    kinds_.push_back(std::move(kind));
  }
  std::vector<Kind> take() { return std::move(kinds_); }

 private:
  Program& program_;
  std::vector<Kind> kinds_;
};

using In = const std::vector<Tensor>&;
using Out = std::vector<Tensor>;

// With x[3] a key for dropout, or a mask.
Out slopes_of_attention(In x) {
  const bool drops = x.size() > 3 && x[3].dtype() == u32;
  std::vector<Arg> extras;
  if (x.size() > 3) extras.emplace_back(x[3]);
  auto loss = [&](Tensor q, Tensor k, Tensor v) {
    Tensor y = attention(q, k, v, extras, true, drops ? 0.2 : 0.0, drops ? 0.25 : 0.0);
    return sum(y * y);
  };
  auto [dq, dk, dv] = grad(loss, wrt<0, 1, 2>)(x[0], x[1], x[2]);
  return {dq, dk, dv};
}

void add_pointwise(Kinds& kinds, const Scale& s) {
  const int64_t rows = s.of(1021, 13), columns = s.of(1027, 37), deep = s.of(20011, 300);
  kinds.add({"pointwise_f32"}, {{"x", f32, {rows, columns}}, {"z", f32, {columns}}}, [](In x) -> Out {
    return {gelu(x[0]) * x[1] + tanh(x[0]), exp(x[0])};
  });
  kinds.add({"pointwise_bf16", 1e-2}, {{"x", bf16, {rows, columns + 1}}},
            [](In x) -> Out { return {x[0] * x[0] + x[0]}; });
  kinds.add({"pointwise_bf16_packed", 1e-2}, {{"x", bf16, {rows + 3, 1024}}, {"z", bf16, {1024}}},
            [](In x) -> Out { return {gelu(x[0]) + x[1], convert(x[0], f32) * 3.0}; });
  kinds.add({"pointwise_i32", 0}, {{"x", i32, {rows, columns}}}, [](In x) -> Out { return {x[0] * x[0] + 3}; });
  kinds.add({"sum_of_rows", 1e-4}, {{"x", f32, {rows, columns}}}, [](In x) -> Out { return {sum(x[0], {1})}; });
  kinds.add({"sum_of_long_rows", 1e-3}, {{"x", f32, {3, deep}}}, [](In x) -> Out {
    return {sum(x[0], {1}), amax(x[0], {1})};
  });
  kinds.add({"sum_of_columns", 1e-3}, {{"x", f32, {rows, columns}}}, [](In x) -> Out { return {sum(x[0], {0})}; });
  kinds.add({"sum_of_all", 1e-3}, {{"x", f32, {rows, columns}}}, [](In x) -> Out { return {sum(x[0])}; });
  kinds.add({"softmax"}, {{"x", f32, {rows, columns}}}, [](In x) -> Out { return {softmax(x[0], -1)}; });
  kinds.add({"layer_norm", 1e-4}, {{"x", f32, {rows, columns}}, {"g", f32, {columns}}, {"b", f32, {columns}}},
            [](In x) -> Out { return {layer_norm(x[0], x[1], x[2])}; });
  kinds.add({"transpose", 0}, {{"x", f32, {rows, columns}}}, [](In x) -> Out { return {transpose(x[0]) * 2.0}; });
}

// Products of bf16 and what is fused into them, with sizes that fill tiles and such as do not.
void add_epilogues(Kinds& kinds, const Scale& s) {
  for (bool even : {true, false}) {
    const int64_t m = even ? s.of(512, 16) : s.of(515, 21), n = even ? s.of(384, 32) : s.of(387, 35);
    const int64_t k = even ? s.of(256, 16) : s.of(259, 19);
    const std::string size = even ? "_even" : "_odd";
    const Spec a("a", bf16, {m, k}), b("b", bf16, {k, n}), bias("bias", bf16, {n}), add("add", bf16, {m, n});
    kinds.add({"product_bias_gelu_bf16" + size, 3e-2}, {a, b, bias},
              [](In x) -> Out { return {gelu(matmul(x[0], x[1]) + x[2])}; });
    kinds.add({"product_bias_addend_bf16" + size, 3e-2}, {a, b, bias, add},
              [](In x) -> Out { return {matmul(x[0], x[1]) + x[2] + x[3]}; });
    kinds.add({"product_tn_bf16" + size, 3e-2}, {{"a", bf16, {k, m}}, b},
              [](In x) -> Out { return {matmul(transpose(x[0]), x[1])}; });
    kinds.add({"product_nt_bf16" + size, 3e-2}, {a, {"b", bf16, {n, k}}},
              [](In x) -> Out { return {matmul(x[0], transpose(x[1]))}; });
    kinds.add({"product_bf16_to_f32" + size, 3e-2}, {a, b},
              [](In x) -> Out { return {convert(matmul(x[0], x[1]), f32) * 0.5}; });
  }
}

// Products of 8-bit floats, as programs write them: k fastest in both, in one, in none; two formats; many sums in a row.
void add_byte_products(Kinds& kinds, const Scale& s) {
  constexpr DType e4m3 = DType::kF8E4M3, e5m2 = DType::kF8E5M2;
  for (bool even : {true, false}) {
    const int64_t m = even ? s.of(512, 16) : s.of(515, 21), n = even ? s.of(384, 32) : s.of(387, 35);
    const int64_t k = even ? s.of(256, 16) : s.of(259, 19), deep = even ? s.of(4096, 48) : s.of(4099, 51);
    const std::string size = even ? "_even" : "_odd";
    kinds.add({"product_f8_nt_bias_gelu" + size, 3e-2}, {{"a", e4m3, {m, k}}, {"b", e4m3, {n, k}}, {"bias", bf16, {n}}},
              [](In x) -> Out { return {gelu(matmul(convert(x[0], bf16), transpose(convert(x[1], bf16))) + x[2])}; });
    kinds.add({"product_f8_nn_scaled" + size, 1e-2}, {{"a", e4m3, {m, k}}, {"b", e5m2, {k, n}}, {"scale", f32, {n}}},
              [](In x) -> Out { return {matmul(convert(x[0], f32), convert(x[1], f32)) * x[2]}; });
    kinds.add({"product_f8_tn" + size, 1e-2}, {{"a", e5m2, {k, m}}, {"b", e5m2, {k, n}}},
              [](In x) -> Out { return {matmul(transpose(convert(x[0], f32)), convert(x[1], f32))}; });
    kinds.add({"product_f8_batched_nt" + size, 1e-2}, {{"a", e4m3, {3, m / 2, k}}, {"b", e5m2, {3, n, k}}},
              [](In x) -> Out { return {matmul(convert(x[0], f32), transpose(convert(x[1], f32), {0, 2, 1}))}; });
    kinds.add({"product_f8_deep_nt" + size, 1e-2}, {{"a", e4m3, {m / 2, deep}}, {"b", e4m3, {n / 2, deep}}},
              [](In x) -> Out { return {matmul(convert(x[0], f32), transpose(convert(x[1], f32)))}; });
  }
}

// Sizes for the code that is hardest to get right. On an H100 these are the widest tiles of warpgroups (128 x 256) with edges, a ring of
// tiles in shared memory that is filled several times, batches, and few sums of many products, which are cut along k.
void add_large_products(Kinds& kinds, const Scale& s) {
  const int64_t m = s.of(2056, 40), n = s.of(2824, 72), k = s.of(1032, 136), deep = s.of(16392, 264), batch = s.of(9, 2);
  const int64_t rows = s.of(264, 24), columns = s.of(392, 40);
  for (auto [name, dtype, tolerance] : {std::tuple{"bf16", bf16, 3e-2}, {"f16", f16, 1e-2}}) {
    const std::string of = name;
    kinds.add({"product_wide_tiles_" + of, tolerance}, {{"a", dtype, {m, k}}, {"b", dtype, {k, n}}},
              [](In x) -> Out { return {matmul(x[0], x[1])}; });
    kinds.add({"product_wide_tiles_tn_" + of, tolerance}, {{"a", dtype, {k, m}}, {"b", dtype, {k, n}}},
              [](In x) -> Out { return {matmul(transpose(x[0]), x[1])}; });
    kinds.add({"product_wide_tiles_nt_" + of, tolerance}, {{"a", dtype, {m, k}}, {"b", dtype, {n, k}}},
              [](In x) -> Out { return {matmul(x[0], transpose(x[1]))}; });
    kinds.add({"product_wide_batched_" + of, tolerance}, {{"a", dtype, {batch, m / 4, k}}, {"b", dtype, {batch, k, n / 2}}},
              [](In x) -> Out { return {matmul(x[0], x[1])}; });
    kinds.add({"product_cut_along_k_" + of, tolerance}, {{"a", dtype, {deep, rows}}, {"b", dtype, {deep, columns}}},
              [](In x) -> Out { return {matmul(transpose(x[0]), x[1])}; });
  }
  kinds.add({"product_f8_nt_deep_wide", 1e-2}, {{"a", DType::kF8E4M3, {m / 2, k * 2}}, {"b", DType::kF8E4M3, {n / 2, k * 2}}},
            [](In x) -> Out { return {matmul(convert(x[0], f32), transpose(convert(x[1], f32)))}; });
}

// Attention in f16 and bf16 with 64, 128 and 256 features, grouped heads (two of queries share one of keys), and an added mask.
void add_wide_attention(Kinds& kinds, const Scale& s) {
  for (int64_t features : {64, 128, 256}) {
    const int64_t batch = 2, heads = s.of(4, 2), queries = s.of(200, 70), keys = s.of(264, 72);
    const int64_t width = s.small ? features / 8 : features;
    std::vector<Spec> in = {{"q", bf16, {batch, heads, queries, width}},
                            {"k", bf16, {batch, heads / 2, keys, width}},
                            {"v", bf16, {batch, heads / 2, keys, width}}};
    const std::string name = fmt::format("attention_of_{}_grouped", features);
    kinds.add({name, 2e-2}, in, [](In x) -> Out { return {attention(x[0], x[1], x[2], {}, false)}; });
    kinds.add({name + "_slopes", 0.12}, in, slopes_of_attention);
    in.emplace_back("mask", f32, Shape{batch, 1, queries, keys});
    kinds.add({name + "_masked", 2e-2}, in, [](In x) -> Out { return {attention(x[0], x[1], x[2], {x[3]}, false)}; });
    kinds.add({name + "_masked_slopes", 0.12}, in, slopes_of_attention);
  }
}

void add_products(Kinds& kinds, const Scale& s) {
  const int64_t m = s.of(515, 21), n = s.of(387, 35), k = s.of(259, 19), batch = s.of(7, 2);
  for (auto [name, dtype, tolerance] :
       {std::tuple{"product_f32", f32, 1e-3}, {"product_bf16", bf16, 3e-2}, {"product_f16", f16, 5e-3}})
    kinds.add({name, tolerance}, {{"a", dtype, {m, k}}, {"b", dtype, {k, n}}},
              [](In x) -> Out { return {matmul(x[0], x[1])}; });
  kinds.add({"product_of_transposed", 1e-3}, {{"a", f32, {k, m}}, {"b", f32, {n, k}}},
            [](In x) -> Out { return {matmul(transpose(x[0]), transpose(x[1]))}; });
  kinds.add({"product_batched", 3e-2}, {{"a", bf16, {batch, m / 4, k}}, {"b", bf16, {batch, k, n / 4}}},
            [](In x) -> Out { return {matmul(x[0], x[1])}; });
  kinds.add({"convolution", 1e-3}, {{"x", f32, {batch, 14, 13, 8}}, {"w", f32, {3, 3, 8, 16}}},
            [](In x) -> Out { return {conv2d(x[0], x[1])}; });
  add_epilogues(kinds, s);
  add_byte_products(kinds, s);
  add_large_products(kinds, s);
  add_wide_attention(kinds, s);
  const Shape heads = {2, s.of(4, 2), s.of(130, 9), s.of(64, 8)};
  std::vector<Spec> qkv = {{"q", f32, heads}, {"k", f32, heads}, {"v", f32, heads}};
  kinds.add({"attention", 1e-4}, qkv, [](In x) -> Out { return {attention(x[0], x[1], x[2], {}, true)}; });
  kinds.add({"attention_slopes", 1e-3}, qkv, slopes_of_attention);
  for (auto [name, dtype, tolerance] : {std::tuple{"attention_bf16", bf16, 2e-2}, {"attention_f16", f16, 5e-3}}) {
    std::vector<Spec> narrow = {{"q", dtype, heads}, {"k", dtype, heads}, {"v", dtype, heads}};
    kinds.add({name, tolerance}, narrow, [](In x) -> Out {
      return {attention(x[0], x[1], x[2], {}, true), attention(x[0], x[1], x[2], {}, false)};
    });
    kinds.add({name + std::string("_slopes"), 6 * tolerance}, narrow, slopes_of_attention);
    narrow.emplace_back("key", u32, Shape{2});
    kinds.add({name + std::string("_with_dropout_slopes"), 6 * tolerance, 1 << 20}, narrow, slopes_of_attention);
  }
  qkv.emplace_back("key", u32, Shape{2});
  kinds.add({"attention_with_dropout", 1e-4, 1 << 20}, qkv,
            [](In x) -> Out { return {attention(x[0], x[1], x[2], {x[3]}, true, 0.2, 0.25)}; });
  kinds.add({"attention_with_dropout_slopes", 1e-3, 1 << 20}, qkv, slopes_of_attention);
  Shape examples = heads;
  examples.insert(examples.begin(), 3);
  kinds.add({"attention_of_examples", 1e-4}, {{"q", f32, examples}, {"k", f32, heads}, {"v", f32, heads}},
            [](In x) -> Out { return {vmap([&](Tensor q) { return attention(q, x[1], x[2], {}, true); })(x[0])}; });
}

void add_indexed(Kinds& kinds, const Scale& s) {
  const int64_t rows = s.of(1000, 23), width = s.of(192, 12), count = s.of(777, 31), wide = s.of(5003, 61);
  Spec table("table", f32, {rows, width}), ids("ids", i32, {count});
  kinds.add({"gather", 0, rows}, {table, ids}, [](In x) -> Out { return {embedding(x[0], x[1])}; });
  kinds.add({"scatter_add", 1e-3, rows}, {table, ids}, [](In x) -> Out {
    return {grad([&](Tensor t) {
      Tensor y = embedding(t, x[1]);
      return sum(y * y);
    })(x[0])};
  });
  kinds.add({"cross_entropy", 1e-4, wide}, {{"logits", f32, {count, wide}}, {"labels", i32, {count}}}, [](In x) -> Out {
    auto [loss, slope] = value_and_grad([&](Tensor t) { return mean(cross_entropy(t, x[1])); })(x[0]);
    return {loss, slope};
  });
  kinds.add({"sort", 0}, {{"x", f32, {s.of(33, 3), s.of(2000, 50)}}}, [](In x) -> Out { return {sort(x[0], -1)}; });
  kinds.add({"cumsum", 1e-3}, {{"x", f32, {s.of(33, 3), s.of(2000, 50)}}},
            [](In x) -> Out { return {cumsum(x[0], 1)}; });
  kinds.add({"random_bits", 1e-6, 1 << 20}, {{"key", u32, {2}}}, [&](In x) -> Out {
    return {rng_uniform(x[0], {rows, 3}, f32, 0, 1)};
  });
  kinds.add({"loop", 1e-4}, {{"x", f32, {rows}}}, [](In x) -> Out {
    Tensor y = x[0];
    return {fori_loop(
        0, 5, [](Tensor, Tensor v) { return sin(v) + v * 0.5; }, y)};
  });
  kinds.add({"user_kernel", 1e-3}, {{"x", f32, {count, width}}}, [](In x) -> Out { return {row_sums()(x[0])}; });
}

}  // namespace

std::vector<Kind> add_library_kinds(Program& program, const Scale& s) {
  Kinds kinds(program);
  const int64_t m = s.of(515, 21), n = s.of(387, 35), k = s.of(259, 19), batch = s.of(17, 2), space = s.of(30, 6);
  for (auto [name, dtype, tolerance] :
       {std::tuple{"library_product_f32", f32, 1e-3}, {"library_product_bf16", bf16, 3e-2}})
    kinds.add({name, tolerance}, {{"a", dtype, {m, k}}, {"b", dtype, {k, n}}},
              [](In x) -> Out { return {matmul(x[0], x[1])}; });
  for (bool even : {true, false}) {
    const std::string size = even ? "_even" : "_odd";
    const int64_t rows = even ? s.of(512, 16) : m, columns = even ? s.of(384, 32) : n, deep = even ? s.of(256, 16) : k;
    const Spec a("a", bf16, {rows, deep}), b("b", bf16, {deep, columns});
    kinds.add({"library_product_bias_gelu_bf16" + size, 3e-2}, {a, b, {"bias", bf16, {columns}}},
              [](In x) -> Out { return {gelu(matmul(x[0], x[1]) + x[2])}; });
    kinds.add({"library_product_addend_bf16" + size, 3e-2}, {a, b, {"add", bf16, {rows, columns}}},
              [](In x) -> Out { return {matmul(x[0], x[1]) + x[2]}; });
    kinds.add({"library_product_tn_bf16" + size, 3e-2}, {{"a", bf16, {deep, rows}}, b},
              [](In x) -> Out { return {matmul(transpose(x[0]), x[1])}; });
    kinds.add({"library_product_batched_bf16" + size, 3e-2}, {{"a", bf16, {3, rows, deep}}, {"b", bf16, {3, columns, deep}}},
              [](In x) -> Out { return {matmul(x[0], transpose(x[1], {0, 2, 1}))}; });
  }
  for (DType wide : {bf16, f32})
    kinds.add({wide == f32 ? "library_product_f8_to_f32" : "library_product_f8_to_bf16", 3e-2},
              {{"a", DType::kF8E4M3, {s.of(512, 16), s.of(256, 16)}}, {"b", DType::kF8E5M2, {s.of(384, 32), s.of(256, 16)}}},
              [=](In x) -> Out { return {relu(matmul(convert(x[0], wide), transpose(convert(x[1], wide))))}; });
  for (auto [name, dtype, tolerance] :
       {std::tuple{"library_convolution_f32", f32, 1e-3}, {"library_convolution_bf16", bf16, 3e-2}})
    kinds.add({name, tolerance},
              {{"x", dtype, {batch, space, space - 1, 16}},
               {"w", dtype, {3, 3, 16, 24}},
               {"g", dtype, {batch, space, space - 1, 24}}},
              [](In x) -> Out {
                auto of_x = [&](Tensor t) { return sum(conv2d(t, x[1], 1, 1) * x[2]); };
                auto of_w = [&](Tensor t) { return sum(conv2d(x[0], t, 1, 1) * x[2]); };
                return {conv2d(x[0], x[1], 1, 1), grad(of_x)(x[0]), grad(of_w)(x[1])};
              });
  return kinds.take();
}

std::vector<Kind> add_tf32_kinds(Program& program, const Scale& s) {
  Kinds kinds(program);
  const int64_t m = s.of(515, 21), n = s.of(387, 35), k = s.of(259, 19);
  kinds.add({"tf32_product", 5e-2}, {{"a", f32, {m, k}}, {"b", f32, {k, n}}},
            [](In x) -> Out { return {matmul(x[0], x[1])}; });
  kinds.add({"tf32_product_even", 5e-2}, {{"a", f32, {s.of(512, 16), s.of(256, 16)}}, {"b", f32, {s.of(256, 16), s.of(384, 32)}}},
            [](In x) -> Out { return {matmul(x[0], x[1])}; });
  kinds.add({"tf32_product_nt", 5e-2}, {{"a", f32, {m, k}}, {"b", f32, {n, k}}},
            [](In x) -> Out { return {matmul(x[0], transpose(x[1]))}; });
  kinds.add({"tf32_convolution", 5e-2}, {{"x", f32, {s.of(7, 2), 14, 13, 8}}, {"w", f32, {3, 3, 8, 16}}},
            [](In x) -> Out { return {conv2d(x[0], x[1])}; });
  return kinds.take();
}

std::vector<Kind> add_kinds(Program& program, const Scale& scale) {
  Kinds kinds(program);
  add_pointwise(kinds, scale);
  add_products(kinds, scale);
  add_indexed(kinds, scale);
  return kinds.take();
}

namespace {

// Of operands and results of an entry; the L2 cache of no GPU holds a tenth of it.
constexpr double kMostBytes = 1 << 30;

double bytes_of(DType dtype, const Shape& shape) {
  return static_cast<double>(ir::Type(dtype, shape).bytes().value());
}

// State that an entry reads or writes, and how `fill` fills it: random numbers, or zeros for what is written.
struct Filled {
  State state;
  bool random = true;
};

class Speeds {
 public:
  Speeds(Program& program, const Scale& scale) : program_(program), most_(static_cast<int>(scale.of(20, 2))) {}

  // An entry that does `work` units several times per run, with operands and results of these types as state.
  void add(const std::string& name, std::vector<std::pair<DType, Shape>> operands, std::pair<DType, Shape> result,
           double work, Unit unit, const std::function<Tensor(In)>& f) {
    double bytes = bytes_of(result.first, result.second);
    for (const auto& [dtype, shape] : operands) bytes += bytes_of(dtype, shape);
    const int launches = launches_of(bytes, kMostBytes, most_);
    std::vector<std::vector<State>> from(static_cast<size_t>(launches));
    std::vector<State> to;
    for (std::vector<State>& own : from) {
      const std::string at = name + std::to_string(to.size());
      for (const auto& [dtype, shape] : operands) {
        own.push_back(program_.state(at + ".x" + std::to_string(own.size()), dtype, shape));
        filled_.push_back({own.back()});
      }
      to.push_back(program_.state(at + ".y", result.first, result.second));
      filled_.push_back({to.back(), false});
    }
    program_.entry(name, std::vector<Spec>{}, [&](In) -> Outputs {
      for (size_t i = 0; i < to.size(); ++i) {
        std::vector<Tensor> x;
        for (const State& s : from[i]) x.push_back(s.get());
        to[i].set(f(x));
      }
      return {};
    });
    out_.push_back({name, work * launches, unit, launches});
  }
  std::vector<Speed> take() {
    program_.entry("fill", {{"seed", u32, {2}}}, [&](Tensor seed) {
      for (const Filled& f : filled_) {
        const ir::Type& type = f.state.type();
        f.state.set(f.random ? rng_uniform(seed, type.shape, type.dtype, -1, 1) : zeros(type.shape, type.dtype));
      }
    });
    return std::move(out_);
  }

 private:
  Program& program_;
  const int most_;
  std::vector<Filled> filled_;
  std::vector<Speed> out_;
};

void add_product_speeds(Speeds& speeds, const Scale& s) {
  auto product = [&](const std::string& name, DType dtype, int64_t m, int64_t n, int64_t k) {
    m = s.of(m, 24), n = s.of(n, 24), k = s.of(k, 24);
    double flops = 2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k);
    speeds.add(name, {{dtype, {m, k}}, {dtype, {k, n}}}, {dtype, {m, n}}, flops,
               dtype == f32 ? Unit::kFlops : Unit::kTensorFlops, [](In x) { return matmul(x[0], x[1]); });
  };
  product("product_bf16_4096", bf16, 4096, 4096, 4096);
  product("product_bf16_8192", bf16, 8192, 8192, 8192);
  product("product_f32_4096", f32, 4096, 4096, 4096);
  product("product_bf16_gpt2_up", bf16, 8192, 3072, 768);
  product("product_bf16_gpt2_logits", bf16, 8192, 50304, 768);
}

// Of the sizes of GPT-2 124M with 8 sequences of 1,024 tokens.
void add_layer_speeds(Speeds& speeds, const Scale& s) {
  const int64_t tokens = s.of(8192, 24), width = s.of(768, 16), wide = s.of(3072, 32);
  const int64_t words = s.of(50304, 61), length = s.of(1024, 16), heads = s.of(12, 2), deep = s.of(64, 8);
  auto same = [&](const std::string& name, DType dtype, const Shape& shape, double times,
                 const std::function<Tensor(In)>& f) {
    speeds.add(name, {{dtype, shape}}, {dtype, shape}, times * bytes_of(dtype, shape), Unit::kBytes, f);
  };
  same("layer_norm", f32, {tokens, width}, 2, [&](In x) { return layer_norm(x[0], ones({width}), zeros({width})); });
  same("gelu_bf16", bf16, {tokens, wide}, 2, [](In x) { return gelu(x[0]); });
  same("softmax", f32, {tokens, wide}, 2, [](In x) { return softmax(x[0], -1); });
  same("transpose", f32, {tokens, wide}, 2, [&](In x) { return reshape(transpose(x[0]), {tokens, wide}); });
  speeds.add("sum_of_columns", {{f32, {tokens, wide}}}, {f32, {wide}}, bytes_of(f32, {tokens, wide}), Unit::kBytes,
             [](In x) { return sum(x[0], {0}); });
  speeds.add("sum_of_rows", {{f32, {tokens, wide}}}, {f32, {tokens}}, bytes_of(f32, {tokens, wide}), Unit::kBytes,
             [](In x) { return sum(x[0], {1}); });
  same("cross_entropy_slopes_bf16", bf16, {tokens, words}, 3, [&](In x) {
    return grad([&](Tensor t) { return mean(cross_entropy(convert(t, f32), iota({tokens}, 0))); })(x[0]);
  });
  const Shape shape = {s.of(8, 2), heads, length, deep};
  // Two products of length x length x deep each per head, half of them masked.
  double flops = 2.0 * static_cast<double>(length) * bytes_of(bf16, shape) / 2;
  auto causal = [](Tensor q, Tensor k, Tensor v) { return attention(q, k, v, {}, true); };
  speeds.add("attention_bf16", {{bf16, shape}, {bf16, shape}, {bf16, shape}}, {bf16, shape}, flops, Unit::kTensorFlops,
             [=](In x) { return causal(x[0], x[1], x[2]); });
  // Of which the way back has five, and it needs the way forward.
  speeds.add("attention_bf16_slopes", {{bf16, shape}, {bf16, shape}, {bf16, shape}}, {bf16, shape}, 3.5 * flops,
             Unit::kTensorFlops, [=](In x) {
               auto loss = [&](Tensor q, Tensor k, Tensor v) { return sum(convert(causal(q, k, v), f32)); };
               auto [dq, dk, dv] = grad(loss, wrt<0, 1, 2>)(x[0], x[1], x[2]);
               return dq + dk + dv;
             });
}

}  // namespace

int launches_of(double bytes, double most_bytes, int most) { return std::clamp(static_cast<int>(most_bytes / bytes), 1, most); }

std::vector<Speed> add_product_speeds(Program& program, const Scale& scale) {
  Speeds speeds(program, scale);
  add_product_speeds(speeds, scale);
  return speeds.take();
}

std::vector<Speed> add_speeds(Program& program, const Scale& scale) {
  Speeds speeds(program, scale);
  const int64_t elements = scale.of(int64_t{256} << 20, 1000);
  speeds.add("copy", {{f32, {elements}}}, {f32, {elements}}, 8 * static_cast<double>(elements), Unit::kBytes,
             [](In x) { return x[0] + 1.0; });
  add_product_speeds(speeds, scale);
  add_layer_speeds(speeds, scale);
  return speeds.take();
}

void add_launches(Program& program, const Scale& scale) {
  State link = program.state("link", f32, {64});
  program.entry("fill_link", {{"seed", u32, {2}}}, [&](Tensor) { link.set(zeros({64})); });
  program.entry("one", std::vector<Spec>{}, [&](In) -> Outputs {
    link.set(sin(link.get()));
    return {};
  });
  program.entry("chain", std::vector<Spec>{}, [&](In) -> Outputs {
    link.set(fori_loop(
        0, scale.of(512, 6), [](Tensor, Tensor v) { return sin(v); }, link.get()));
    return {};
  });
}

}  // namespace nabla::gpu_check
