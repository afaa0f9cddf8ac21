// Attention kernels, thread by thread on the CPU, against the interpreter: tiles cut by awkward sizes, shared heads of
// keys, masks, dropout, and widths that tiles pad.
#include <gtest/gtest.h>

#include <bit>

#include "codegen/cuda/printer.h"
#include "tests/cuda/emulator/kernel_run.h"
#include "tests/kernel_ir/nine_kernels.h"
#include "tests/nightly.h"

namespace nabla::kernel_ir {
namespace {

struct Case {
  std::string dtype;
  int64_t batch, heads, kv_heads, queries, keys, features, out;
  bool causal;
  int64_t mask_batch, mask_heads;
  std::string target = "sm_90a";
  float scale = 0.4F;
  int64_t streams = 0;
  double dropout = 0;
  std::vector<int64_t> offset = {}, whole = {};  // of [batch elements of a stream, heads, queries, keys]; empty: all
  std::string mask = "bool";                     // or floats, which are added to scores
};

int64_t bits(float x) { return std::bit_cast<uint32_t>(x); }

std::string numbers_of_place(const Case& c) {
  std::vector<int64_t> at = c.offset, of = c.whole;
  if (at.empty()) at = {0, 0, 0, 0}, of = {c.streams > 0 ? c.batch / c.streams : c.batch, c.heads, c.queries, c.keys};
  return fmt::format("diagonal={}, word={}, word_batch={}, word_head={}, word_query={}", of[3] - of[2] + at[2] - at[3],
                     ((at[0] * of[1] + at[1]) * of[2] + at[2]) * of[3] + at[3], of[1] * of[2] * of[3], of[2] * of[3],
                     of[3]);
}

std::string text_of(const Case& c, bool grad) {
  auto tensor = [&](const char* name, const std::string& dtype, int64_t a, int64_t b, int64_t d) {
    return fmt::format("{}: {}[{},{},{}{}]", name, dtype, c.batch, a, b, d > 0 ? fmt::format(",{}", d) : "");
  };
  std::string q = tensor("q", c.dtype, c.heads, c.queries, c.features);
  std::string k = tensor("k", c.dtype, c.kv_heads, c.keys, c.features);
  std::string v = tensor("v", c.dtype, c.kv_heads, c.keys, c.out);
  std::string in = fmt::format("in {}, in {}, in {}", q, k, v);
  if (grad)
    in += fmt::format(", in {}, in {}, in {}", tensor("lse", "f32", c.heads, c.queries, 0),
                      tensor("delta", "f32", c.heads, c.queries, 0), tensor("ct", c.dtype, c.heads, c.queries, c.out));
  if (c.mask_batch > 0)
    in += fmt::format(", in mask: {}[{},{},{},{}]", c.mask, c.mask_batch, c.mask_heads, c.queries, c.keys);
  if (c.streams > 0) in += fmt::format(", in key: u32[{},2]", c.streams);
  std::string out = grad ? fmt::format("out d{}, out d{}, out d{}", q, k, v)
                         : fmt::format("out {}, out {}", tensor("y", c.dtype, c.heads, c.queries, c.out),
                                       tensor("lse", "f32", c.heads, c.queries, 0));
  return fmt::format(
      "kernel @{}({}, {}) {{\n  procedure {}(outer={}, count={}, inner=1, heads={}, kv_heads={}, keys={}, features={}, "
      "out={}, causal={}, mask_batch={}, mask_heads={}, scale={}, streams={}, least={}, kept={}, {})\n}}\n",
      grad ? "backward" : "forward", in, out, grad ? "attention_grad" : "attention", c.batch * c.heads, c.queries,
      c.heads, c.kv_heads, c.keys, c.features, c.out, c.causal ? 1 : 0, c.mask_batch, c.mask_heads, bits(c.scale),
      c.streams, static_cast<int64_t>(c.dropout * 0x1p32), bits(static_cast<float>(1 / (1 - c.dropout))),
      numbers_of_place(c));
}

bool adds(const Case& c) { return c.mask_batch > 0 && c.mask != "bool"; }
Kernel kernel_of(const Case& c, bool grad) { return parse_kernel(text_of(c, grad), "kernel").value(); }

// With minus infinity at some keys of a mask of numbers, at all keys of one query, and numbers as large as they are, or larger
// than scores can be told apart beside, at all keys of others.
std::vector<Literal> drawn(const Case& c, const Kernel& kernel, size_t first_extra) {
  std::vector<Literal> out = draw_buffers(kernel);
  if (!adds(c)) return out;
  Literal &mask = out[first_extra], &q = out[0];
  // In doubles scores can be told apart beside large numbers.
  for (int64_t i = 0; i < q.size(); ++i)
    if (int64_t query = i / c.features % c.queries; query == 2 || query == 3) q.set(i, 0);
  const double hidden = -std::numeric_limits<double>::infinity(), least = c.mask == "f16" ? -65504 : -0x1.fep127;
  for (int64_t i = 0; i < mask.size(); ++i) {
    int64_t query = i / c.keys % c.queries;
    if (i % 5 == 0 || query == 1) mask.set(i, hidden);
    else if (query == 2) mask.set(i, least);
    else if (query == 3 && c.mask != "f16") mask.set(i, -1e9);
    else mask.set(i, mask.get(i) * 2 - 2);
  }
  return out;
}
// The same of the way back; after the way forward, where scores are large.
std::vector<Literal> drawn_back(const Case& c, const Kernel& kernel) {
  std::vector<Literal> out = drawn(c, kernel, 6);
  if (!adds(c) && c.features <= 128) return out;
  Kernel forward = kernel_of(c, false);
  std::vector<Literal> values = drawn(c, forward, 3);
  std::vector<Literal*> pointers;
  for (size_t i = 0; i < 3; ++i) values[i] = out[i];
  for (size_t i = 6; i + 3 < out.size(); ++i) values[i - 3] = out[i];
  for (Literal& b : values) pointers.push_back(&b);
  interpret(forward, pointers);
  out[3] = values.back();
  return out;
}

class CudaAttention : public testing::TestWithParam<Case> {
 protected:
  void expect_right(bool grad) {
    auto kernel = parse_kernel(text_of(GetParam(), grad), "kernel");
    ASSERT_TRUE(kernel.ok()) << to_string(kernel.errors());
    auto code = print_for_gpu(*kernel, "nk_" + kernel->name, ir::find_target(GetParam().target).value());
    ASSERT_TRUE(code.ok()) << to_string(code.errors());
    // Weights are rounded to the operands' dtype in front of their product.
    double tolerance = GetParam().dtype == "f32" ? 2e-5 : GetParam().dtype == "f16" ? 2e-3 : 1.5e-2;
    std::vector<Literal> buffers = grad ? drawn_back(GetParam(), *kernel) : drawn(GetParam(), *kernel, 3);
    emulator::expect_right(*kernel, *code, buffers, {.tolerance = tolerance, .as_gpus_round = true});
    if (HasFailure()) ADD_FAILURE() << code->text;
  }
};

TEST_P(CudaAttention, ForwardAgreesWithTheInterpreter) { expect_right(false); }
TEST_P(CudaAttention, BackwardAgreesWithTheInterpreter) { expect_right(true); }

INSTANTIATE_TEST_SUITE_P(All, CudaAttention,
                         testing::ValuesIn(every_nth<Case>(3, {Case{"f32", 1, 2, 2, 7, 7, 4, 4, true, 0, 0},
                                         Case{"f32", 2, 4, 2, 33, 50, 20, 8, false, 1, 1},
                                         Case{"f32", 1, 2, 1, 40, 35, 16, 33, true, 1, 2},
                                         Case{"bf16", 1, 2, 2, 65, 65, 32, 32, true, 0, 0},
                                         Case{"bf16", 2, 2, 1, 3, 130, 17, 5, false, 2, 2},
                                         Case{"bf16", 1, 1, 1, 70, 70, 128, 128, true, 0, 0},
                                         Case{"f16", 1, 4, 1, 20, 90, 64, 64, true, 0, 0},
                                         Case{"bf16", 1, 2, 2, 200, 137, 64, 64, true, 0, 0},
                                         Case{"f16", 2, 4, 2, 130, 70, 64, 128, false, 2, 1, "sm_90a", -0.2F},
                                         Case{"bf16", 1, 3, 1, 131, 195, 128, 64, true, 1, 3, "sm_90a", 0.1F, 1, 0.3},
                                         Case{"bf16", 1, 2, 2, 70, 70, 64, 64, true, 0, 0, "sm_90"},
                                         // Maxima of rows that grow by more than 2^8 from tile to tile.
                                         Case{"bf16", 1, 1, 1, 70, 200, 64, 64, false, 0, 0, "sm_90a", 4.0F},
                                         Case{"f16", 1, 1, 1, 70, 200, 64, 64, true, 0, 0, "sm_80", -4.0F},
                                         Case{"f32", 1, 1, 1, 20, 20, 128, 128, false, 0, 0, "sm_86"},
                                         Case{"f32", 1, 2, 2, 33, 39, 5, 7, true, 0, 0, "sm_90a", 0.7F, 1, 0.25},
                                         Case{"f32", 4, 2, 1, 5, 34, 8, 8, false, 2, 2, "sm_80", -0.3F, 2, 0.5},
                                         Case{"bf16", 2, 4, 2, 70, 67, 24, 40, true, 1, 1, "sm_90a", 0.2F, 2, 0.1},
                                         Case{"f16", 6, 1, 1, 3, 68, 16, 16, false, 3, 1, "sm_90a", 0.1F, 3, 0.9},
                                         Case{"bf16", 1, 1, 1, 66, 66, 128, 128, true, 0, 0, "sm_86", 0.1F, 1, 0.1},
                                         Case{"f32", 1, 2, 2, 20, 36, 128, 128, false, 0, 0, "sm_86", 0.1F, 1, 0.1},
                                         Case{"f32", 2, 2, 1, 33, 39, 5, 7, true, 0, 0, "sm_90a", 0.7F, 1, 0.25,
                                              {1, 2, 30, 5}, {4, 6, 70, 61}},
                                         Case{"bf16", 4, 1, 1, 40, 67, 16, 8, true, 1, 1, "sm_80", 0.3F, 2, 0.5,
                                              {0, 3, 0, 66}, {2, 5, 90, 140}},
                                         // More than 128 features.
                                         Case{"f32", 1, 2, 1, 19, 37, 136, 200, true, 0, 0, "sm_80"},
                                         Case{"f32", 1, 1, 1, 35, 33, 256, 256, false, 1, 1, "sm_86", 0.1F, 1, 0.2},
                                         Case{"bf16", 1, 2, 1, 35, 37, 136, 133, true, 1, 1, "sm_90a", 0.1F},
                                         Case{"f16", 1, 1, 1, 70, 39, 160, 160, true, 0, 0, "sm_80", 0.1F, 1, 0.2},
                                         Case{"bf16", 1, 1, 1, 34, 67, 256, 256, false, 1, 1, "sm_86", -0.1F, 1, 0.2},
                                         Case{"f16", 1, 2, 1, 37, 195, 192, 192, true, 0, 0, "sm_90a", 0.1F},
                                         Case{"bf16", 2, 1, 1, 131, 67, 192, 128, true, 1, 1, "sm_90a", 0.1F, 1, 0.2},
                                         Case{"bf16", 1, 1, 1, 67, 195, 256, 256, true, 0, 0, "sm_90a", 0.1F},
                                         Case{"f16", 1, 2, 1, 67, 69, 256, 64, false, 1, 1, "sm_90a", 0.1F, 1, 0.2, {}, {}, "f32"},
                                         // Masks of numbers that are added.
                                         Case{"f32", 2, 4, 2, 33, 50, 20, 8, false, 1, 1, "sm_90a", 0.4F, 0, 0, {}, {}, "f32"},
                                         Case{"f32", 2, 2, 1, 21, 39, 5, 7, true, 2, 2, "sm_80", -0.3F, 2, 0.25, {}, {}, "f32"},
                                         Case{"bf16", 2, 2, 1, 70, 67, 17, 24, false, 1, 2, "sm_80", 0.2F, 0, 0, {}, {}, "bf16"},
                                         Case{"bf16", 1, 2, 1, 70, 140, 40, 40, true, 1, 1, "sm_90a", -0.2F, 1, 0.2, {}, {}, "f32"},
                                         Case{"f16", 2, 2, 2, 67, 131, 64, 64, false, 2, 1, "sm_90a", 0.2F, 0, 0, {}, {}, "f16"},
                                         Case{"bf16", 2, 2, 1, 131, 70, 64, 128, true, 2, 2, "sm_90a", -0.1F, 2, 0.1, {}, {}, "f32"}})),
                         [](const auto& info) {
                           const Case& c = info.param;
                           return fmt::format("{}_{}x{}x{}_{}", c.dtype, c.queries, c.keys, c.features, info.index);
                         });

// Of 256 features, too. Code for sm_80 and PTX also run on GPUs with less than an A100 has.
TEST(CudaAttentionSizes, TilesFitIntoTheSharedMemoryOfEveryTarget) {
  for (const char* target : {"compute_80", "sm_80", "sm_86", "sm_90a", "sm_120"})
    for (const char* dtype : {"f32", "f16"})
      for (auto [features, out] : {std::pair<int64_t, int64_t>{256, 256}, {200, 136}, {256, 1}, {128, 128}})
        for (bool grad : {false, true}) {
          SCOPED_TRACE(fmt::format("{} {} {} {}", target, dtype, features, out));
          ir::Target t = ir::find_target(target).value();
          Case c{dtype, 1, 1, 1, 200, 200, features, out, true, 0, 0, target, 0.1F, 1, 0.1};
          Kernel scheduled = scheduled_for_gpu(kernel_of(c, grad), t).value();
          for (const Grid& g : std::get<CudaSchedule>(*scheduled.schedule).grids)
            EXPECT_LE(g.shared_bytes, t.cuda.compute == 80 ? 99 << 10 : t.cuda.block_shared_bytes);
        }
}

TEST(CudaAttentionSizes, SymbolicSizesAreThoseOfTheRun) {
  auto len = std::make_shared<ir::Symbol>(ir::Symbol{"len", 1, 150, 1});
  ReadSize size = [&](std::string_view) -> Result<ir::Dim> { return ir::Dim::symbol(len); };
  // By multiply-adds, by warps and by warpgroups, with few features and with many.
  for (auto [dtype, features, target] : {std::tuple{"f32", 8, "sm_80"},
                                         {"bf16", 8, "sm_80"},
                                         {"bf16", 64, "sm_90a"},
                                         {"bf16", 144, "sm_90a"},
                                         {"bf16", 192, "sm_90a"}}) {
    SCOPED_TRACE(fmt::format("{} {} {}", dtype, features, target));
    auto kernel = parse_kernel(
        fmt::format("kernel @forward(in q: {0}[1,2,dim(len),{1}], in k: {0}[1,2,dim(len),{1}], in v: {0}[1,2,dim(len),{1}], "
                    "out y: {0}[1,2,dim(len),{1}], out lse: f32[1,2,dim(len)]) {{\n  procedure attention(outer=2, "
                    "count=dim(len), inner=1, heads=2, kv_heads=2, keys=dim(len), features={1}, out={1}, causal=1, "
                    "mask_batch=0, mask_heads=0, scale=1056964608, streams=0, least=0, kept=1065353216, diagonal=0, word=0, "
                    "word_batch=0, word_head=0, word_query=0)\n}}\n",
                    dtype, features),
        "kernel", size);
    ASSERT_TRUE(kernel.ok()) << to_string(kernel.errors());
    auto code = print_for_gpu(*kernel, "nk_forward", ir::find_target(target).value());
    ASSERT_TRUE(code.ok()) << to_string(code.errors());
    for (int64_t n : some_of<int64_t>({1, 80, 31, 150}, 2)) {
      Kernel sized =
          with_sizes(*kernel, [&](const ir::Dim& d) { return ir::Dim(d.eval([&](const ir::Symbol&) { return n; })); });
      emulator::expect_right(*kernel, *code, draw_buffers(sized),
                             {.tolerance = std::string(dtype) == "f32" ? 2e-5 : 1.5e-2, .extents = {n}});
    }
  }
}

}  // namespace
}  // namespace nabla::kernel_ir
