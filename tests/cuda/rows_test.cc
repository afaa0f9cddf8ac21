// Rows that teams of threads move in packs, and tiles that blocks turn: against the interpreter, at addresses that admit packs and
// at others, and what their accesses cost.
#include <fmt/format.h>

#include "ir/kernel_ir/row_packs.h"
#include "ir/kernel_ir/stores.h"
#include "ir/kernel_ir/turned.h"
#include "tests/cuda/kernel_text.h"

namespace nabla::kernel_ir {
namespace {

constexpr emulator::Expectation kRows{
    .tolerance = 2e-2, .most_sectors = 1.25, .most_bank_clocks = 1.5, .as_gpus_round = true, .at_odd_addresses = true};

Kernel parsed(const std::string& text) {
  auto k = parse_kernel(text, "kernel");
  EXPECT_TRUE(k.ok()) << (k.ok() ? "" : to_string(k.errors()));
  return *k;
}
RowPacks packs_of(const Kernel& k, int team) { return find_row_packs(k, grid_statements(k)[0].body, team); }

// Moved in packs of `width`, with `kept` loads in registers.
void expect_packs(const std::string& text, int width, size_t kept, const emulator::Expectation& e = kRows) {
  Kernel k = parsed(text);
  auto code = print_for_gpu(k, "nk_" + k.name, gpu());
  ASSERT_TRUE(code.ok()) << to_string(code.errors());
  EXPECT_EQ(code->text.find("nb_load_pack<") != std::string::npos, width > 1) << code->text;
  if (width > 1) {
    EXPECT_NE(code->text.find(fmt::format("nb_load_pack<{}>", width)), std::string::npos) << code->text;
  }
  for (size_t i = 0; i < 4; ++i) EXPECT_EQ(code->text.find(fmt::format(" kept{}_[", i)) != std::string::npos, i < kept) << code->text;
  emulator::expect_right(k, *code, draw_buffers(k), e);
  if (testing::Test::HasFailure()) ADD_FAILURE() << code->text;
}

std::string softmax(const std::string& dtype, int64_t rows, int64_t columns) {
  return fmt::format(R"(kernel @softmax(in x: {0}[{1},{2}], out y: {0}[{1},{2}]) {{
  axes i = {1}, j = {2}
  for i {{
    let m: f32 = max(j) convert.f32(x[i, j])
    let s: f32 = sum(j) exp(convert.f32(x[i, j]) - m)
    let r: f32 = 1.0:f32 / s
    store y[i, j] over j = convert.{0}(exp(convert.f32(x[i, j]) - m) * r)
  }}
}})", dtype, rows, columns);
}

TEST(RowPacks, ARowIsReadOnceWhereRegistersHoldIt) {
  expect_packs(softmax("f32", 6, 128), 4, 1);
  expect_packs(softmax("f32", 3, 3072), 4, 1);
  expect_packs(softmax("bf16", 3, 2048), 8, 1);
  expect_packs(softmax("f16", 2, 4096), 8, 1);
}
TEST(RowPacks, LongRowsAreReadAgain) { expect_packs(softmax("f32", 1, 65536), 4, 0); }
TEST(RowPacks, ShortRowsMoveNarrowPacksSoThatAllThreadsHaveWork) {
  expect_packs(softmax("f32", 5, 64), 2, 1);
  expect_packs(softmax("bf16", 5, 128), 4, 1);
  expect_packs(softmax("f32", 5, 32), 1, 0);
}
TEST(RowPacks, OddRowsMoveElements) {
  emulator::Expectation e = kRows;
  e.most_sectors = 2;  // rows begin within sectors
  expect_packs(softmax("f32", 3, 1027), 1, 0, e);
  expect_packs(softmax("bf16", 3, 1026), 2, 1, e);
}

TEST(RowPacks, DtypesOfDifferentWidthsShareAWidth) {
  expect_packs(R"(kernel @norm(in x: bf16[5,512], in add: f32[5,512], in g: bf16[512],
  out y: bf16[5,512], out h: f32[5,512], out m: f32[5]) {
  axes i = 5, j = 512
  for i {
    let s: f32 = sum(j) convert.f32(x[i, j]) + add[i, j]
    let mean: f32 = s / 512.0:f32
    let d[j]: f32 = convert.f32(x[i, j]) + add[i, j] - mean
    let q: f32 = sum(j) d[j] * d[j]
    let r: f32 = rsqrt(q / 512.0:f32 + 0.00001:f32)
    store h[i, j] over j = convert.f32(x[i, j]) + add[i, j]
    store y[i, j] over j = convert.bf16(d[j] * r * convert.f32(g[j]))
    store m[i] = mean
  }
})", 2, 2);
}

// Rows of a team in shared memory.
TEST(RowPacks, RowsOfATeamMovePacksToo) {
  expect_packs(R"(kernel @rows(in x: bf16[3,2,1024], out y: bf16[3,2,1024]) {
  axes i = 3, a = 2, j = 1024
  for i {
    let e[a, j]: f32 = exp(convert.f32(x[i, a, j]))
    let s: f32 = sum(a, j) e[a, j]
    store y[i, a, j] over a, j = convert.bf16(e[a, j] / s)
  }
})", 8, 0);
}

// Few sums are made by all threads together; what is looked up, guarded or read in strides goes element by element.
// Philox makes four words at a time: a pack that begins at a multiple of four takes all of each block.
TEST(RowPacks, RandomWordsComeFromWholeBlocks) {
  auto expect_blocks = [](const std::string& results, const std::string& word, int blocks, const std::string& key = "k[0], k[1]") {
    const std::string text = fmt::format(
        "kernel @words(in k: u32[2], out y: {}) {{\n  axes i = 3, j = {}\n  for i, j {{\n    store y[i, j] = {}\n  }}\n}}", results,
        results.substr(results.find(',') + 1, results.find(']') - results.find(',') - 1), fmt::format(fmt::runtime(word), key));
    Kernel k = parsed(text);
    const std::string code = print_for_gpu(k, "nk_words", gpu(), true).value().text;
    int found = 0;
    for (size_t at = 0; (at = code.find("nb_philox_block(", at)) != std::string::npos; ++at) ++found;
    EXPECT_EQ(found, blocks) << code;
    EXPECT_EQ(code.find("nb_philox(") == std::string::npos, blocks > 0) << code;
    expect_text(text);
  };
  expect_blocks("u32[3,8]", "philox.u32({}, i * 8 + j)", 1);
  expect_blocks("u32[3,8]", "philox.u32({}, i * 8 + j + 12)", 1);
  expect_blocks("u32[3,8]", "philox.u32({}, (i * 8 + j) * 3 + 2)", 3);
  expect_blocks("u32[3,8]", "philox.u32({0}, (i * 8 + j) * 2) + philox.u32({0}, (i * 8 + j) * 2 + 1)", 2);
  expect_blocks("u32[3,8]", "philox.u32({}, i * 8 + j) + philox.u32(k[1], k[0], i * 8 + j)", 2);
  expect_blocks("u32[3,8]", "philox.u32({}, i * 8 + j + 2)", 0);   // begins within a block
  expect_blocks("u32[3,8]", "philox.u32({}, i * 10 + j)", 0);      // does in some rows
  expect_blocks("u32[3,8]", "philox.u32({}, j - i * 8 + 16)", 1);
  expect_blocks("u64[3,8]", "convert.u64(philox.u32({0}, (i * 8 + j) * 2) + philox.u32({0}, (i * 8 + j) * 2 + 1))", 1);  // two elements
  expect_blocks("u64[3,8]", "convert.u64(philox.u32({}, i * 8 + j))", 0);
}
TEST(RowPacks, OtherAccessesGoElementByElement) {
  emulator::Expectation e = kRows;
  e.most_sectors = e.most_bank_clocks = 0;
  expect_packs(R"(kernel @mixed(in x: f32[4,1024], in t: f32[1024,4], in w: f32[3,1024],
  out y: f32[4,1024], out z: f32[4,3]) {
  axes i = 4, j = 1024, b = 3
  for i {
    let few[b]: f32 = sum(j) x[i, j] * w[b, j]
    let s: f32 = sum(j) x[i, j] * t[j, i] + select(j < 900, x[i, 1023 - j], 0.0:f32)
    store y[i, j] over j = x[i, j] + s + few[1] * w[2, j]
    store z[i, b] over b = few[b]
  }
})", 4, 1, e);
}

TEST(RowPacks, ResultsMayLieWhereOperandsLie) {
  Kernel k = parsed(softmax("f32", 3, 1024));
  auto code = print_for_gpu(k, "nk_softmax", gpu());
  ASSERT_TRUE(code.ok());
  auto object = emulator::Object::compile(codegen::cuda_prelude() + code->text, true);
  ASSERT_TRUE(object.ok()) << to_string(object.errors());
  std::vector<Literal> given = draw_buffers(k), want = given;
  std::vector<Literal*> at = {&want[0], &want[1]};
  interpret(k, at);
  emulator::KernelRun run = run_kernel(k, *code, **object, true, given, {}, {}, {{1, 0}});
  EXPECT_TRUE(run.report.clean()) << run.report.str();
  for (int64_t n = 0; n < want[1].size(); ++n) ASSERT_NEAR(run.buffers[1].get(n), want[1].get(n), 1e-5) << n;
}

// Elements that are sums of their own, and ordered loops, keep to elements.
TEST(RowPacks, RowsOfSumsAreNotCut) {
  Kernel k = parsed(R"(kernel @sums(in x: f32[4,16,512], out y: f32[4,512]) {
  axes i = 4, a = 16, j = 512
  for i {
    let s[j]: f32 = sum(a) x[i, a, j]
    let m: f32 = max(j) s[j]
    store y[i, j] over j = s[j] - m
  }
})");
  EXPECT_EQ(packs_of(k, 32).width, 1);
  expect_kernel(k);
}
TEST(RowPacks, WidthsFollowFromWhatRowsAre) {
  Kernel k = parsed(softmax("bf16", 3, 512));
  EXPECT_EQ(packs_of(k, 32).width, 8);
  EXPECT_EQ(packs_of(k, 64).width, 8);
  EXPECT_EQ(packs_of(k, 256).width, 2);
  EXPECT_EQ(packs_of(k, 1024).width, 1);
  EXPECT_EQ(packs_of(k, 32).buffers, (std::vector<int>{0, 1}));
}

// ---- Tiles

std::optional<Turned> turned_of(const Kernel& k) {
  GridStatement s = grid_statements(k)[0];
  return find_turned(k, s.axes, s.body);
}

void expect_turned(const std::string& text, bool turned = true) {
  Kernel k = parsed(text);
  auto code = print_for_gpu(k, "nk_" + k.name, gpu());
  ASSERT_TRUE(code.ok()) << to_string(code.errors());
  EXPECT_EQ(code->text.find("__shared__") != std::string::npos, turned) << code->text;
  emulator::Expectation e{.tolerance = 1e-2, .most_bank_clocks = 1.5, .as_gpus_round = true, .at_odd_addresses = true};
  emulator::expect_right(k, *code, draw_buffers(k), e);
  if (testing::Test::HasFailure()) ADD_FAILURE() << code->text;
}

std::string transposition(const std::string& dtype, int64_t rows, int64_t columns) {
  return fmt::format(R"(kernel @turn(in x: {0}[{1},{2}], out y: {0}[{2},{1}]) {{
  axes i = {2}, j = {1}
  for i, j {{
    store y[i, j] = x[j, i]
  }}
}})", dtype, rows, columns);
}

TEST(Turned, TranspositionsOfEveryWidth) {
  for (const char* dtype : {"f32", "bf16", "f64", "u8", "bool", "f8e4m3"}) expect_turned(transposition(dtype, 96, 64));
}
TEST(Turned, OddSizes) {
  for (auto [rows, columns] : {std::pair{33, 32}, {32, 33}, {63, 65}, {129, 35}}) expect_turned(transposition("f32", rows, columns));
  expect_turned(transposition("f32", 31, 64), false);
  expect_turned(transposition("f32", 64, 31), false);
}
// Each sector is read once and written once.
TEST(Turned, NeighboursReadAndStoreNeighbours) {
  Kernel k = parsed(transposition("f32", 128, 64));
  expect_kernel(k, gpu(), {.most_traffic = 2 * 4 * 128 * 64, .most_sectors = 1.01, .most_bank_clocks = 1.01});
}
TEST(Turned, SeveralLoadsBesideOthers) {
  expect_turned(R"(kernel @turn(in x: f32[3,40,64], in z: bf16[3,40,64], in b: f32[40],
  in w: f32[3,64,40], in s: f32[1], out y: bf16[3,64,40], out v: f32[3,64,40]) {
  axes a = 3, i = 64, j = 40
  let scale: f32 = s[0] * 2.0:f32
  for a, i, j {
    let t: f32 = x[a, j, i] * convert.f32(z[a, j, i]) + b[j]
    store y[a, i, j] = convert.bf16(t * scale + x[a, j, i])
    store v[a, i, j] = w[a, i, j] - t
  }
})");
}
// What stores walk decides which axis is the last.
TEST(Turned, TheOrderOfTheLoopDoesNotMatter) {
  expect_turned(R"(kernel @turn(in x: f32[48,64], in z: f32[48,64], out y: f32[64,48]) {
  axes i = 64, j = 48
  for j, i {
    store y[i, j] = x[j, i] + z[j, i]
  }
})");
}
TEST(Turned, WhatIsReadAlongBothWaysIsNotTurned) {
  Kernel k = parsed(R"(kernel @diagonal(in x: f32[64,64], out y: f32[64,32]) {
  axes i = 64, j = 32
  for i, j {
    store y[i, j] = x[i, j + j]
  }
})");
  EXPECT_FALSE(turned_of(k));
  expect_kernel(k);
}

}  // namespace
}  // namespace nabla::kernel_ir
