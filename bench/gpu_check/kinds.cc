#include "bench/gpu_check/kinds.h"

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

// With x[3] a key for dropout.
Out slopes_of_attention(In x) {
  bool drops = x.size() > 3;
  std::vector<Arg> extras;
  if (drops) extras.emplace_back(x[3]);
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
  const Shape heads = {2, s.of(4, 2), s.of(130, 9), s.of(64, 8)};
  std::vector<Spec> qkv = {{"q", f32, heads}, {"k", f32, heads}, {"v", f32, heads}};
  kinds.add({"attention", 1e-4}, qkv, [](In x) -> Out { return {attention(x[0], x[1], x[2], {}, true)}; });
  kinds.add({"attention_slopes", 1e-3}, qkv, slopes_of_attention);
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

std::vector<Kind> add_kinds(Program& program, const Scale& scale) {
  Kinds kinds(program);
  add_pointwise(kinds, scale);
  add_products(kinds, scale);
  add_indexed(kinds, scale);
  return kinds.take();
}

Speed add_speed(Program& program, const Scale& scale) {
  Speed out;
  const int64_t elements = scale.of(int64_t{256} << 20, 1000), n = scale.of(4096, 24), few = 64;
  out.chain = scale.of(512, 6);
  out.copy_bytes = 8 * static_cast<double>(elements);
  State from = program.state("from", f32, {elements}), to = program.state("to", f32, {elements});
  State link = program.state("link", f32, {few});
  struct Operands {
    Product product;
    State a, b, c;
  };
  std::vector<Operands> products;
  for (DType dtype : {bf16, f32}) {
    std::string entry = "product_" + std::string(name_of(dtype));
    auto matrix = [&](const char* which) { return program.state(entry + "." + which, dtype, {n, n}); };
    double flops = 2.0 * static_cast<double>(n) * static_cast<double>(n) * static_cast<double>(n);
    products.push_back({{entry, dtype, flops}, matrix("a"), matrix("b"), matrix("c")});
  }
  program.entry("fill", {{"seed", u32, {2}}}, [&](Tensor seed) {
    from.set(ones({elements}));
    to.set(zeros({elements}));
    link.set(zeros({few}));
    for (Operands& p : products) {
      p.a.set(rng_uniform(seed, {n, n}, p.product.dtype, -1, 1));
      p.b.set(rng_uniform(seed, {n, n}, p.product.dtype, -1, 1));
      p.c.set(zeros({n, n}, p.product.dtype));
    }
  });
  program.entry("copy", std::vector<Spec>{}, [&](In) -> Outputs {
    to.set(from.get() + 1.0);
    return {};
  });
  program.entry("one", std::vector<Spec>{}, [&](In) -> Outputs {
    link.set(sin(link.get()));
    return {};
  });
  program.entry("chain", std::vector<Spec>{}, [&](In) -> Outputs {
    link.set(fori_loop(
        0, out.chain, [](Tensor, Tensor v) { return sin(v); }, link.get()));
    return {};
  });
  for (Operands& p : products) {
    program.entry(p.product.entry, std::vector<Spec>{}, [&](In) -> Outputs {
      p.c.set(matmul(p.a.get(), p.b.get()));
      return {};
    });
    out.products.push_back(p.product);
  }
  return out;
}

}  // namespace nabla::gpu_check
