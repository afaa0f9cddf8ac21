#include "tests/cuda/budget_programs.h"

namespace nabla::codegen {
namespace {

using In = const std::vector<Tensor>&;
using Out = std::vector<Tensor>;

constexpr int64_t kTokens = 8192, kWidth = 768, kWide = 3072, kWords = 50304;
const Shape kWideRows = {kTokens, kWide}, kRows = {kTokens, kWidth}, kHeads = {8, 12, 1024, 64};

void add_pointwise(std::vector<BudgetProgram>& all) {
  const Spec f("x", f32, kWideRows), h("x", bf16, kWideRows);
  all.push_back({"copy_f32", {f}, [](In x) -> Out { return {x[0] + 1.0}; }});
  all.push_back({"gelu_f32", {f}, [](In x) -> Out { return {gelu(x[0])}; }});
  all.push_back({"gelu_bf16", {h}, [](In x) -> Out { return {gelu(x[0])}; }});
  all.push_back({"bias_bf16", {h, {"b", bf16, {kWide}}}, [](In x) -> Out { return {x[0] + x[1]}; }});
  all.push_back({"convert_bf16", {f}, [](In x) -> Out { return {convert(x[0], bf16)}; }});
  all.push_back({"odd_columns_f32", {{"x", f32, {kTokens, 1027}}}, [](In x) -> Out { return {exp(x[0]) * x[0]}; }});
  all.push_back({"transposition_f32", {f}, [](In x) -> Out { return {transpose(x[0])}; }});
  all.push_back({"heads_bf16", {{"x", bf16, {8, 1024, 12, 64}}}, [](In x) -> Out { return {transpose(x[0], {0, 2, 1, 3})}; }});
  all.push_back({"random_f32", {{"key", u32, {2}}}, [](In x) -> Out { return {rng_uniform(x[0], kRows, f32, 0, 1)}; }});
  const Spec p("p", f32, kWideRows);
  all.push_back({"adamw",
                 {p, {"g", f32, kWideRows}, {"m", f32, kWideRows}, {"v", f32, kWideRows}, {"step", i32, {}}, {"lr", f32, {}}},
                 [](In x) -> Out {
                   auto [np, nm, nv] = adamw_update(x[0], x[1], x[2], x[3], x[4], x[5], 0.1);
                   return {np, nm, nv};
                 }});
}

void add_reductions(std::vector<BudgetProgram>& all) {
  const Spec f("x", f32, kWideRows), h("x", bf16, kWideRows), rows("x", f32, kRows);
  const Spec gamma("g", f32, {kWidth}), beta("b", f32, {kWidth}), labels("labels", i32, {kTokens});
  all.push_back({"sum_of_rows_f32", {f}, [](In x) -> Out { return {sum(x[0], {1})}; }});
  all.push_back({"sum_of_columns_f32", {f}, [](In x) -> Out { return {sum(x[0], {0})}; }});
  all.push_back({"sum_of_columns_bf16", {h}, [](In x) -> Out { return {sum(convert(x[0], f32), {0})}; }});
  all.push_back({"sum_of_all_f32", {f}, [](In x) -> Out { return {sum(x[0] * x[0])}; }});
  all.push_back({"softmax_f32", {f}, [](In x) -> Out { return {softmax(x[0], -1)}; }});
  all.push_back({"layer_norm_f32", {rows, gamma, beta}, [](In x) -> Out { return {layer_norm(x[0], x[1], x[2])}; }});
  all.push_back({"rms_norm_bf16", {{"x", bf16, kRows}, {"g", bf16, {kWidth}}}, [](In x) -> Out { return {rms_norm(x[0], x[1])}; }});
  all.push_back({"layer_norm_grad_f32", {rows, gamma, beta, {"ct", f32, kRows}}, [](In x) -> Out {
                   auto loss = [&](Tensor a, Tensor g, Tensor b) { return sum(layer_norm(a, g, b) * x[3]); };
                   auto [dx, dg, db] = grad(loss, wrt<0, 1, 2>)(x[0], x[1], x[2]);
                   return {dx, dg, db};
                 }});
  all.push_back({"cross_entropy_grad_bf16", {{"x", bf16, {kTokens, kWords}}, labels}, [](In x) -> Out {
                   return {grad([&](Tensor t) { return mean(cross_entropy(convert(t, f32), x[1])); })(x[0])};
                 }});
  all.push_back({"argsort_f32", {{"x", f32, {64, 2000}}}, [](In x) -> Out { return {argsort({x[0]}, 1)}; }});
  all.push_back({"cumsum_f32", {{"x", f32, {64, 2000}}}, [](In x) -> Out { return {cumsum(x[0], 1)}; }});
}

void add_products(std::vector<BudgetProgram>& all) {
  auto product = [&](const std::string& name, DType dtype, int64_t m, int64_t n, int64_t k) {
    all.push_back({name, {{"a", dtype, {m, k}}, {"b", dtype, {k, n}}}, [](In x) -> Out { return {matmul(x[0], x[1])}; }});
  };
  product("product_bf16", bf16, kTokens, kWide, kWidth);
  product("product_f32", f32, 4096, 4096, 1024);
  product("small_product_bf16", bf16, 512, 384, 250);
  all.push_back({"product_gelu_bf16", {{"a", bf16, kRows}, {"b", bf16, {kWidth, kWide}}, {"bias", bf16, {kWide}}},
                 [](In x) -> Out { return {gelu(matmul(x[0], x[1]) + x[2])}; }});
  all.push_back({"product_nt_bf16", {{"a", bf16, kRows}, {"b", bf16, {kWide, kWidth}}},
                 [](In x) -> Out { return {matmul(x[0], transpose(x[1]))}; }});
  const Spec byte_rows("a", DType::kF8E4M3, kRows);
  const std::vector<std::string> with_bytes = {"sm_89", "sm_90a"};
  all.push_back({"product_nt_f8", {byte_rows, {"b", DType::kF8E4M3, {kWide, kWidth}}},
                 [](In x) -> Out { return {matmul(convert(x[0], bf16), transpose(convert(x[1], bf16)))}; }, with_bytes});
  all.push_back({"product_nn_f8", {byte_rows, {"b", DType::kF8E5M2, {kWidth, kWide}}},
                 [](In x) -> Out { return {matmul(convert(x[0], f32), convert(x[1], f32))}; }, with_bytes});
  for (auto [name, dtype] : {std::pair{"convolution_bf16", bf16}, {"convolution_f32", f32}})
    all.push_back({name, {{"x", dtype, {32, 28, 28, 64}}, {"w", dtype, {3, 3, 64, 128}}},
                   [](In x) -> Out { return {conv2d(x[0], x[1], 1, 1)}; }});
}

void add_attention(std::vector<BudgetProgram>& all) {
  struct Case {
    std::string name;
    DType dtype;
    Shape heads;
    bool adds = false;  // a mask of numbers
  };
  const std::vector<Case> cases = {{"attention_bf16", bf16, kHeads},
                                   {"attention_f32", f32, kHeads},
                                   {"attention_added_bf16", bf16, kHeads, true},
                                   {"attention_wide_bf16", bf16, {8, 6, 1024, 256}},
                                   {"attention_wide_f32", f32, {8, 6, 1024, 256}}};
  for (const Case& c : cases) {
    std::vector<Spec> back;
    for (const char* name : {"q", "k", "v", "ct"}) back.emplace_back(name, c.dtype, c.heads);
    std::vector<Spec> forward(back.begin(), back.begin() + 3);
    const Spec mask("mask", f32, {1, c.heads[1], c.heads[2], c.heads[2]});
    for (std::vector<Spec>* specs : {&forward, &back})
      if (c.adds) specs->push_back(mask);
    auto attended = [adds = c.adds](Tensor q, Tensor k, Tensor v, In x) {
      return adds ? attention(q, k, v, {x.back()}, true) : attention(q, k, v, {}, true);
    };
    all.push_back({c.name, forward, [=](In x) -> Out { return {attended(x[0], x[1], x[2], x)}; }});
    all.push_back({c.name + "_grad", back, [=](In x) -> Out {
                     auto loss = [&](Tensor q, Tensor k, Tensor v) {
                       return sum(convert(attended(q, k, v, x), f32) * convert(x[3], f32));
                     };
                     auto [dq, dk, dv] = grad(loss, wrt<0, 1, 2>)(x[0], x[1], x[2]);
                     return {dq, dk, dv};
                   }});
  }
}

void add_indexed(std::vector<BudgetProgram>& all) {
  const Spec table("table", f32, {kWords, kWidth}), ids("ids", i32, {kTokens});
  all.push_back({"embedding_f32", {table, ids}, [](In x) -> Out { return {embedding(x[0], x[1])}; }});
  all.push_back({"embedding_grad_f32", {table, ids, {"ct", f32, kRows}}, [](In x) -> Out {
                   return {grad([&](Tensor t) { return sum(embedding(t, x[1]) * x[2]); })(x[0])};
                 }});
}

}  // namespace

std::vector<BudgetProgram> budget_programs() {
  std::vector<BudgetProgram> all;
  add_pointwise(all);
  add_reductions(all);
  add_products(all);
  add_attention(all);
  add_indexed(all);
  return all;
}

}  // namespace nabla::codegen
