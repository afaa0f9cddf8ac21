#include "tests/cuda/size_programs.h"

namespace nabla::emulator {
namespace {

using In = const std::vector<Tensor>&;
using Name = const std::string&;
using Size = const ir::Dim&;

constexpr DType kF32 = DType::kF32, kF64 = DType::kF64, kBF16 = DType::kBF16, kF16 = DType::kF16;
const std::vector<DType> kFloats = {kF32, kF64, kBF16, kF16};
const std::vector<DType> kAnyDType = {kF32, kF64, kBF16, kF16, i8, i32, u64};

// One side of a tile, of a warp, of a block, and one more or less.
const std::vector<RowsColumns> kShort = {{1, 1}, {2, 3}, {3, 33}, {31, 32}, {33, 31}};
const std::vector<RowsColumns> kAll = {{1, 1},   {1, 2},    {2, 3},    {3, 2},    {31, 32},
                                       {32, 33}, {33, 31},  {127, 3},  {129, 32}, {255, 2},
                                       {2, 257}, {3, 1023}, {1025, 2}, {1, 1025}, {5, 255}};
const std::vector<RowsColumns> kBound = {{1, 1},   {2, 3},    {31, 33},  {33, 127},
                                         {129, 2}, {257, 31}, {1025, 1}, {1, 1023}};

const std::vector<SizeProgram> kRows = {
    {"pointwise",
     [](Program& p, Name name, Size r, Size c, DType d) {
       p.entry(name, {{"x", d, {r, c}}, {"y", d, {r, c}}}, [](In in) -> Outputs {
         return {{"z", in[0] * in[1] + in[0]}, {"b", in[0] < in[1]}};
       });
     },
     kAll, kAnyDType, kBound},
    {"gelu_of_sum",
     [](Program& p, Name name, Size r, Size c, DType d) {
       p.entry(name, {{"x", d, {r, c}}, {"b", d, {c}}}, [](In in) -> Outputs {
         return {{"y", gelu(in[0] + in[1]) * in[0]}};
       });
     },
     kAll, kFloats, kBound},
    {"row_reductions",
     [](Program& p, Name name, Size r, Size c, DType d) {
       p.entry(name, {{"x", d, {r, c}}}, [](In in) -> Outputs {
         return {{"s", sum(in[0], {1})}, {"m", amax(in[0], {1})}};
       });
     },
     kAll, kAnyDType, kBound},
    {"column_reductions",
     [](Program& p, Name name, Size r, Size c, DType d) {
       p.entry(name, {{"x", d, {r, c}}}, [](In in) -> Outputs {
         return {{"s", sum(in[0], {0})}, {"m", amin(in[0], {0})}};
       });
     },
     kAll, kAnyDType, kBound},
    {"full_reductions",
     [](Program& p, Name name, Size r, Size c, DType d) {
       p.entry(name, {{"x", d, {r, c}}}, [](In in) -> Outputs { return {{"s", sum(in[0])}, {"m", amax(in[0])}}; });
     },
     kAll, kAnyDType, kBound},
    {"softmax",
     [](Program& p, Name name, Size r, Size c, DType d) {
       p.entry(name, {{"x", d, {r, c}}}, [](In in) -> Outputs {
         return {{"rows", softmax(in[0], 1)}, {"columns", softmax(in[0], 0)}};
       });
     },
     kAll, kFloats, kBound},
    {"masked_softmax",
     [](Program& p, Name name, Size r, Size c, DType d) {
       p.entry(name, {{"x", d, {r, c}}, {"z", d, {r, c}}}, [](In in) -> Outputs {
         return {{"rows", softmax(select(in[0] > 0, in[0], in[1]), 1)}};
       });
     },
     kAll, kFloats, kBound},
    {"layer_norm_gradient",
     [](Program& p, Name name, Size r, Size c, DType d) {
       p.entry(name, {{"x", d, {r, c}}, {"g", d, {c}}, {"b", d, {c}}, {"w", d, {r, c}}}, [](In in) -> Outputs {
         Tensor w = in[3];
         auto loss = [=](Tensor x, Tensor g, Tensor b) { return sum(layer_norm(x, g, b, 0.1) * w); };
         auto [value, slopes] = value_and_grad(loss, Wrt<0, 1, 2>{})(in[0], in[1], in[2]);
         return {{"v", value}, {"x", std::get<0>(slopes)}, {"g", std::get<1>(slopes)}, {"b", std::get<2>(slopes)}};
       });
     },
     kAll,
     {kF32, kF64},
     kBound},
    {"cross_entropy_gradient",
     [](Program& p, Name name, Size r, Size c, DType d) {
       p.entry(name, {{"x", d, {r, c}}, {"column", i32, {r}}}, [](In in) -> Outputs {
         Tensor labels = in[1];
         auto [value, slope] = value_and_grad([=](Tensor x) { return sum(cross_entropy(x, labels)); })(in[0]);
         return {{"v", value}, {"x", slope}};
       });
     },
     kAll,
     {kF32, kF64},
     kBound},
    {"argmax",
     [](Program& p, Name name, Size r, Size c, DType d) {
       p.entry(name, {{"x", d, {r, c}}}, [](In in) -> Outputs {
         return {{"rows", argmax(in[0], 1)}, {"columns", argmin(in[0], 0)}};
       });
     },
     kAll, kAnyDType, kBound},
    {"bias_gradient",
     [](Program& p, Name name, Size r, Size c, DType d) {
       p.entry(name, {{"x", d, {r, c}}, {"b", d, {c}}}, [](In in) -> Outputs {
         Tensor x = in[0];
         return {{"b", grad([=](Tensor b) { return sum(tanh(x + b)); })(in[1])}};
       });
     },
     kAll,
     {kF32, kF64},
     kBound},
    {"transposes",
     [](Program& p, Name name, Size r, Size c, DType d) {
       p.entry(name, {{"x", d, {r, c}}, {"z", d, {r, 3, c}}}, [](In in) -> Outputs {
         return {{"t", transpose(in[0]) + 1}, {"p", transpose(in[1], Ints{2, 0, 1})}};
       });
     },
     kAll, kAnyDType, kBound},
    {"gather_and_scatter_add",
     [](Program& p, Name name, Size r, Size c, DType d) {
       p.entry(name, {{"table", d, {r, c}}, {"row", i32, {33}}, {"w", d, {33, c}}}, [](In in) -> Outputs {
         Tensor ids = in[1], w = in[2];
         auto [value, slope] = value_and_grad([=](Tensor t) { return sum(embedding(t, ids) * w); })(in[0]);
         return {{"v", value}, {"table", slope}, {"rows", take(in[0], ids)}};
       });
     },
     kAll,
     {kF32, kF64},
     kBound},
    {"casts",
     [](Program& p, Name name, Size r, Size c, DType d) {
       p.entry(name, {{"x", d, {r, c}}}, [](In in) -> Outputs {
         const Tensor& x = in[0];
         return {{"e4", convert(x, DType::kF8E4M3)},
                 {"e5", convert(x * 3, DType::kF8E5M2)},
                 {"back", convert(convert(x, DType::kF8E4M3), f32) * 2},
                 {"half", convert(x, x.dtype() == f16 ? bf16 : f16)},
                 {"small", convert(convert(x, f32) * 100, i8)},
                 {"wide", convert(x, f64)}};
       });
     },
     kAll, kFloats, kBound},
    {"random",
     [](Program& p, Name name, Size r, Size c, DType d) {
       p.entry(name, {{"x", d, {r, c}}, {"key", DType::kU32, {2}}}, [](In in) -> Outputs {
         const ir::Shape& shape = in[0].shape();
         return {{"bits", rng_bits(in[1], shape)},
                 {"dropped", select(rng_uniform(in[1], shape, in[0].dtype()) < 0.3, in[0], 0)},
                 {"noisy", softmax(in[0] + rng_normal(in[1], shape, in[0].dtype()), 1)}};
       });
     },
     kAll, kFloats, kBound},
    {"eight_bit_transposes",
     [](Program& p, Name name, Size r, Size c, DType d) {
       p.entry(name, {{"x", d, {r, c}}}, [](In in) -> Outputs {
         return {{"t", transpose(in[0])}, {"s", convert(transpose(in[0]), f32) * 0.5}};
       });
     },
     kAll,
     {DType::kF8E4M3, DType::kF8E5M2},
     kBound},
    {"adamw",
     [](Program& p, Name name, Size r, Size c, DType d) {
       State w = p.state(name + ".w", d, {r, c}), m = p.state(name + ".m", d, {r, c}),
             v = p.state(name + ".v", d, {r, c});
       p.entry(name, {{"g", d, {r, c}}, {"step", i32, {}}}, [=](In in) {
         auto [nw, nm, nv] = adamw_update(w.get(), in[0], m.get(), v.get() * v.get(), in[1] + 1, 0.01, 0.1);
         w.set(nw), m.set(nm), v.set(nv);
       });
     },
     kAll,
     {kF32, kF64}},
    {"cache_append",
     [](Program& p, Name name, Size r, Size c, DType d) {
       State cache = p.state(name + ".cache", d, {3, r, c});
       p.entry(name, {{"x", d, {3, 1, c}}, {"row", i32, {}}}, [=](In in) -> Outputs {
         cache.set(nn::cache_append(cache.get(), in[0], in[1], 1));
         return {{"s", sum(cache.get(), {0, 1})}};
       });
     },
     kAll,
     {kF32, kBF16}},
};

const std::vector<RowsColumns> kTiles = {{1, 1}, {2, 3}, {3, 129}, {31, 33}, {33, 32}, {65, 17}, {127, 1}, {129, 31}};
const std::vector<RowsColumns> kImages = {{1, 1}, {2, 3}, {3, 31}, {17, 5}, {33, 2}};

const std::vector<SizeProgram> kProducts = {
    {"product",
     [](Program& p, Name name, Size r, Size c, DType d) {
       p.entry(name, {{"x", d, {r, 33}}, {"w", d, {33, c}}, {"b", d, {c}}}, [](In in) -> Outputs {
         return {{"y", gelu(matmul(in[0], in[1]) + in[2])}};
       });
     },
     kTiles, kFloats, kTiles},
    {"product_over_columns",  // tails of the contracted axis
     [](Program& p, Name name, Size r, Size c, DType d) {
       p.entry(name, {{"x", d, {r, c}}, {"w", d, {c, 24}}}, [](In in) -> Outputs {
         return {{"y", matmul(in[0], in[1])}};
       });
     },
     kTiles,
     {kF32, kBF16, kF16, i32},
     kTiles},
    {"transposed_products",
     [](Program& p, Name name, Size r, Size c, DType d) {
       p.entry(name, {{"x", d, {32, r}}, {"w", d, {c, 32}}}, [](In in) -> Outputs {
         return {{"y", matmul(transpose(in[0]), transpose(in[1]))}};
       });
     },
     kTiles,
     {kF32, kBF16, kF16},
     kTiles},
    {"products_of_bytes",  // converted for it, and multiplied as they are
     [](Program& p, Name name, Size r, Size c, DType d) {
       p.entry(name, {{"x", d, {r, 40}}, {"w", d, {40, c}}, {"v", d, {c, 40}}, {"b", f32, {c}}}, [](In in) -> Outputs {
         Tensor scaled = matmul(convert(in[0], f32), convert(in[1], f32)) * 0.5 + in[3];
         return {{"y", matmul(convert(in[0], bf16), transpose(convert(in[2], bf16)))}, {"z", gelu(scaled)}};
       });
     },
     kTiles,
     {DType::kF8E4M3, DType::kF8E5M2},
     kTiles},
    {"aligned_products",  // sixteen bytes at a time
     [](Program& p, Name name, Size r, Size c, DType d) {
       p.entry(name, {{"x", d, {r, 40}}, {"w", d, {40, 48}}, {"b", d, {48}}, {"columns", d, {1, c}}},
               [](In in) -> Outputs {
                 return {{"y", relu(matmul(in[0], in[1]) + in[2])}, {"c", sum(in[3])}};
               });
     },
     {{1, 1}, {31, 1}, {129, 1}},
     {kBF16, kF16},
     {{1, 1}, {17, 1}, {129, 1}}},
    {"batched_products",
     [](Program& p, Name name, Size r, Size c, DType d) {
       p.entry(name, {{"q", d, {3, r, 17}}, {"k", d, {3, c, 17}}}, [](In in) -> Outputs {
         return {{"s", matmul(in[0], transpose(in[1])) * 0.25}};
       });
     },
     {{1, 1}, {2, 33}, {31, 3}, {33, 65}},
     {kF32, kBF16},
     {{1, 1}, {2, 33}, {31, 3}, {33, 65}}},
    {"product_gradients",
     [](Program& p, Name name, Size r, Size c, DType d) {
       p.entry(name, {{"x", d, {r, 20}}, {"w", d, {20, c}}}, [](In in) -> Outputs {
         auto [dx, dw] = grad([](Tensor x, Tensor w) { return sum(tanh(matmul(x, w))); }, Wrt<0, 1>{})(in[0], in[1]);
         return {{"x", dx}, {"w", dw}};
       });
     },
     {{1, 1}, {2, 33}, {33, 3}, {65, 33}},
     {kF32, kF64},
     {{1, 1}, {2, 33}, {33, 3}, {65, 33}}},
    {"attention",
     [](Program& p, Name name, Size r, Size c, DType d) {
       p.entry(name, {{"q", d, {2, 3, r, 8}}, {"k", d, {2, 3, c, 8}}, {"v", d, {2, 3, c, 8}}}, [](In in) -> Outputs {
         Tensor weights = softmax(matmul(in[0], transpose(in[1], Ints{0, 1, 3, 2})) * 0.35, -1);
         return {{"y", matmul(weights, in[2])}};
       });
     },
     {{1, 1}, {2, 33}, {33, 31}},
     {kF32, kBF16},
     {{1, 1}, {2, 33}, {33, 31}}},
    {"convolution_and_gradients",
     [](Program& p, Name name, Size r, Size c, DType d) {
       p.entry(name, {{"x", d, {2, r, c, 3}}, {"f", d, {3, 3, 3, 4}}}, [](In in) -> Outputs {
         auto loss = [](Tensor x, Tensor f) {
           Tensor y = conv2d(x, f, 1, 1);
           return sum(y * y);
         };
         auto [value, slopes] = value_and_grad(loss, Wrt<0, 1>{})(in[0], in[1]);
         return {{"v", value},
                 {"x", std::get<0>(slopes)},
                 {"f", std::get<1>(slopes)},
                 {"strided", conv2d(in[0], in[1], 2, 1)}};
       });
     },
     kImages,
     {kF32, kF64}},
    {"convolution_on_tensor_cores",
     [](Program& p, Name name, Size r, Size c, DType d) {
       p.entry(name, {{"x", d, {2, r, c, 8}}, {"f", d, {3, 3, 8, 16}}}, [](In in) -> Outputs {
         auto loss = [](Tensor x, Tensor f) { return sum(conv2d(x, f, 2, 1)); };
         auto [value, slopes] = value_and_grad(loss, Wrt<0, 1>{})(in[0], in[1]);
         return {{"y", relu(conv2d(in[0], in[1], 1, 1))}, {"x", std::get<0>(slopes)}, {"f", std::get<1>(slopes)}};
       });
     },
     {{9, 7}, {5, 17}},
     {kBF16, kF16}},
    {"convolution_in_groups",
     [](Program& p, Name name, Size r, Size c, DType d) {
       p.entry(name, {{"x", d, {2, r, c, 16}}, {"f", d, {3, 3, 8, 24}}}, [](In in) -> Outputs {
         auto loss = [](Tensor x, Tensor f) { return sum(conv2d(x, f, 1, 1, 1, 2)); };
         auto [value, slopes] = value_and_grad(loss, Wrt<0, 1>{})(in[0], in[1]);
         return {{"v", value}, {"x", std::get<0>(slopes)}, {"f", std::get<1>(slopes)}};
       });
     },
     {{6, 5}},
     {kF32, kBF16}},
    {"pooling_and_gradients",
     [](Program& p, Name name, Size r, Size c, DType d) {
       p.entry(name, {{"x", d, {2, r, c, 3}}}, [](In in) -> Outputs {
         auto loss = [](Tensor x) {
           Tensor y = nn::max_pool2d(x, {.window = {3, 3}, .stride = {2, 2}, .padding = {1, 1}});
           return sum(y * y) + sum(nn::avg_pool2d(x, {.window = {1, 1}}));
         };
         auto [value, slope] = value_and_grad(loss)(in[0]);
         return {{"v", value}, {"x", slope}};
       });
     },
     kImages,
     {kF32, kF64}},
    {"rope",
     [](Program& p, Name name, Size r, Size c, DType d) {
       p.entry(name, {{"x", d, {3, r, c * 2}}, {"row", i32, {r}}}, [](In in) -> Outputs {
         return {{"y", rope(in[0], in[1])}, {"z", rope(in[0], in[1], 100, 0.5, true)}};
       });
     },
     kShort,
     {kF32, kBF16},
     kShort},
    {"running_sums",
     [](Program& p, Name name, Size r, Size c, DType d) {
       p.entry(name, {{"x", d, {r, c}}}, [](In in) -> Outputs {
         return {{"rows", cumsum(in[0], 1)}, {"columns", cumsum(in[0], 0, true, true)}, {"most", cummax(in[0], 0)}};
       });
     },
     kAll,
     {kF32, kBF16, i32},
     kBound},
    {"order",
     [](Program& p, Name name, Size r, Size c, DType d) {
       p.entry(name, {{"x", d, {r, c}}}, [](In in) -> Outputs {
         auto [values, places] = top_k(in[0], 1, 1);
         return {{"sorted", sort(in[0], 1)}, {"places", argsort({in[0]}, 0, true)}, {"top", values}, {"at", places}};
       });
     },
     kAll,
     {kF32, kBF16, i32},
     kBound},
    {"scan",
     [](Program& p, Name name, Size r, Size c, DType d) {
       p.entry(name, {{"x", d, {r, c}}, {"y", d, {r, c}}}, [](In in) -> Outputs {
         return {{"s", cumsum(in[0] * in[1], 1) * 2}, {"e", logsumexp(in[0], 0)}};
       });
     },
     kShort,
     {kF32, kF64},
     kShort},
};

}  // namespace

const std::vector<SizeProgram>& row_programs() { return kRows; }
const std::vector<SizeProgram>& product_programs() { return kProducts; }

}  // namespace nabla::emulator
