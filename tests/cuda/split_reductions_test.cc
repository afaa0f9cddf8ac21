// Long reductions, and many updates of few rows, on a GPU, cut into slices: the same numbers as uncut, by the
// interpreter and thread by thread.
#include "passes/lower/schedule_kernels.h"

#include <gtest/gtest.h>

#include <sstream>

#include "codegen/cuda/printer.h"
#include "tests/cuda/emulator/kernel_run.h"
#include "tests/kernel_ir/nine_kernels.h"

namespace nabla::kernel_ir {
namespace {

ir::Target gpu() { return ir::find_target("sm_80").value(); }

Kernel parsed(const std::string& text) {
  auto k = parse_kernel(text, "kernel");
  EXPECT_TRUE(k.ok()) << (k.ok() ? "" : to_string(k.errors()));
  return *k;
}

void expect_split(const std::string& text, const std::string& part) {
  Kernel whole = parsed(text), split = whole;
  passes::split_reductions(split, gpu());
  Status sound = verify(split);
  ASSERT_TRUE(sound.ok()) << to_string(sound.errors()) << print(split);
  EXPECT_NE(print(split).find(part), std::string::npos) << print(split);
  ASSERT_GT(split.buffers.size(), whole.buffers.size()) << print(split);

  std::vector<Literal> given = draw_buffers(split), want(given.begin(), given.begin() + whole.buffers.size());
  std::vector<Literal> got = given;
  std::vector<Literal*> want_at, got_at;
  for (Literal& b : want) want_at.push_back(&b);
  for (Literal& b : got) got_at.push_back(&b);
  interpret(whole, want_at);
  interpret(split, got_at);
  expect_near(whole, want, {got.begin(), got.begin() + whole.buffers.size()});

  auto code = print_for_gpu(split, "nk_split", gpu());
  ASSERT_TRUE(code.ok()) << to_string(code.errors());
  EXPECT_EQ(code->grids.size(), 2u) << code->text;
  emulator::expect_right(split, *code, given);
}

TEST(SplitReductions, ColumnsOfATallMatrix) {
  expect_split(R"(kernel @bias(in x: f32[4,2048,9], in g: f32[4,2048], out y: f32[9], out z: f32[9]) {
  axes i = 9, a = 4, b = 2048
  for i {
    let s: f32 = sum(a, b) x[a, b, i] * g[a, b]
    let t: f32 = max(a, b) x[a, b, i]
    let r: f32 = s * 2.0:f32 + t
    store y[i] = r
    store z[i] = t
  }
})",
               "for slice, i {\n    let s_part: f32 = sum(a, part) x[a, slice * 4 + part, i] * g[a, slice * 4 + part]");
}

TEST(SplitReductions, EverythingIntoOneNumber) {
  expect_split(R"(kernel @norm(in x: f32[70001], out y: f32[]) {
  axes a = 70001
  let s: f32 = sum(a) x[a] * x[a]
  store y[] = sqrt(s)
})",
               "select(");
}

TEST(SplitReductions, LeavesAloneWhatFillsTheMachineOrIsSmall) {
  for (const char* text : {R"(kernel @rows(in x: f32[4096,512], out y: f32[4096]) {
  axes i = 4096, a = 512
  for i {
    let s: f32 = sum(a) x[i, a]
    store y[i] = s
  }
})",
                           R"(kernel @small(in x: f32[100], out y: f32[]) {
  axes a = 100
  let s: f32 = sum(a) x[a]
  store y[] = s
})",
                           R"(kernel @softmax(in x: f32[2,65536], out y: f32[2]) {
  axes i = 2, a = 65536
  for i {
    let m: f32 = max(a) x[i, a]
    let s: f32 = sum(a) exp(x[i, a] - m)
    store y[i] = s
  }
})"}) {
    Kernel whole = parsed(text), split = whole;
    passes::split_reductions(split, gpu());
    EXPECT_EQ(print(split), print(whole));
  }
}

TEST(SplitScatters, FewSegmentsOfManyUpdates) {
  const char* text = R"(kernel @segments(in ids: i32[20001], in x: {0}[20001,2], {1} y: {0}[5,2]) {{
  axes u = 20001, j = 2
  for u {{
    store y[convert.i64(ids[u]), j] over j sum= convert.{0}(convert.f32(x[u, j]) * 0.5:f32)
      if convert.i64(ids[u]) >= 0 & convert.i64(ids[u]) < 5
  }}
}})";
  for (auto [dtype, role] : {std::pair{"f32", "out"}, {"bf16", "out"}, {"f32", "inout"}}) {
    SCOPED_TRACE(std::string(dtype) + " " + role);
    Kernel whole = parsed(fmt::format(fmt::runtime(text), dtype, role)), split = whole;
    passes::split_scatters(split, gpu());
    Status sound = verify(split);
    ASSERT_TRUE(sound.ok()) << to_string(sound.errors()) << print(split);
    ASSERT_EQ(split.body.size(), whole.body.size() + 2) << print(split);
    std::vector<Literal> given = draw_buffers(split);
    codegen::CudaKernel code = print_for_gpu(split, "nk_split", gpu()).value();
    EXPECT_EQ(code.grids.size(), 3u) << code.text;
    emulator::expect_right(split, code, given);
    if (std::string(dtype) == "bf16") continue;  // sums of slices are kept in f32, which is nearer to the truth
    std::vector<Literal> want(given.begin(), given.begin() + 3), got = given;
    std::vector<Literal*> want_at, got_at;
    for (Literal& b : want) want_at.push_back(&b);
    for (Literal& b : got) got_at.push_back(&b);
    interpret(whole, want_at);
    interpret(split, got_at);
    expect_near(whole, want, {got.begin(), got.begin() + 3});
  }
}

TEST(SplitScatters, OthersStayAsTheyAre) {
  for (const char* sizes : {"5 20001 i32", "5 2000 f32", "500 20001 f32"}) {
    std::istringstream in(sizes);
    std::string rows, updates, dtype;
    in >> rows >> updates >> dtype;
    Kernel k = parsed(fmt::format(R"(kernel @segments(in ids: i32[{1}], in x: {2}[{1}], out y: {2}[{0}]) {{
  axes u = {1}
  for u {{
    store y[convert.i64(ids[u])] sum= x[u] if convert.i64(ids[u]) >= 0 & convert.i64(ids[u]) < {0}
  }}
}})",
                                  rows, updates, dtype));
    std::string before = print(k);
    passes::split_scatters(k, gpu());
    EXPECT_EQ(print(k), before);
  }
}

TEST(SplitReductions, LeavesCpusAlone) {
  Kernel k = parsed(
      "kernel @norm(in x: f32[70000], out y: f32[]) {\n  axes a = 70000\n  let s: f32 = sum(a) x[a]\n"
      "  store y[] = s\n}");
  std::string before = print(k);
  passes::split_reductions(k, ir::find_target("cpu").value());
  EXPECT_EQ(print(k), before);
}

}  // namespace
}  // namespace nabla::kernel_ir
