// The CUDA text of kernels, run thread by thread on the CPU, against the interpreter.
#include <gtest/gtest-spi.h>
#include <gtest/gtest.h>

#include "tests/cuda/kernel_text.h"

namespace nabla::kernel_ir {
namespace {

class NineCudaKernels : public testing::TestWithParam<std::string> {};

TEST_P(NineCudaKernels, AgreeWithTheInterpreterInEveryOrder) {
  expect_kernel(read_kernel(GetParam()), gpu(), {.as_gpus_round = true});
}

INSTANTIATE_TEST_SUITE_P(All, NineCudaKernels, testing::ValuesIn(nine_kernels()),
                         [](const auto& info) { return info.param; });

TEST(CudaKernels, IntegersThatMeetAreCombinedByAtomics) {
  expect_text(R"(kernel @histogram(in x: i32[40], out n: i32[20], out top: i64[20]) {
  axes i = 40
  for i {
    store n[convert.i64(x[i]) + 2] sum= 1:i32
    store top[convert.i64(x[i]) + 2] max= i
  }
})");
}

TEST(CudaKernels, TheLastOfManyStoresToAKnownPlaceWins) {
  expect_text(R"(kernel @last(in x: f32[700], in y: f32[3,70], out a: f32[1], out b: f32[3]) {
  axes i = 700, r = 3, j = 70
  for i {
    store a[0] = x[i]
  }
  for r {
    let e[j]: f32 = exp(y[r, j])
    store b[r] over j = e[j]
  }
})");
}

TEST(CudaKernels, TheLastUpdateOfAScatterWins) {
  expect_text(R"(kernel @scatter_set(in ids: i32[16], in ct: f32[16,3], out init: f32[14,3], inout table: f32[14,3]) {
  axes r = 14, u = 16, j = 3, a = 14, b = 3
  for r {
    store init[r, j] over j = 1.5:f32
  }
  for u {
    store table[convert.i64(ids[u]), j] over j = ct[u, j] if convert.i64(ids[u]) >= 0 & convert.i64(ids[u]) < 14
  }
})");
}

TEST(CudaKernels, SmallFloatsAreRoundedAsTheInterpreterDoes) {
  expect_text(
      R"(kernel @small(in x: f32[50], in h: bf16[50], out a: bf16[50], out b: f16[50], out c: f8e4m3[50], out d: f8e5m2[50]) {
  axes i = 50
  for i {
    store a[i] = convert.bf16(x[i] * 3.7:f32)
    store b[i] = convert.f16(convert.f32(h[i]) * x[i])
    store c[i] = convert.f8e4m3(x[i] * 20.3:f32)
    store d[i] = convert.f8e5m2(x[i] * 0.001:f32)
  }
})");
}

TEST(CudaKernels, AKernelThatCannotBeCutRunsInOneBlock) {
  expect_text(R"(kernel @whole(in x: f32[30], out y: f32[30]) {
  axes i = 30, j = 30
  let m: f32 = max(i) x[i]
  let e[i]: f32 = exp(x[i] - m)
  let s: f32 = sum(j) e[j]
  store y[i] over i = e[29 - i] / s
})");
}

// The first thread writes what all have summed; others read it by their own index.
TEST(CudaKernels, ShortRowsThatAllThreadsMakeAreReadBehindABarrier) {
  expect_text(R"(kernel @means(in x: f32[40,24], out y: f32[40]) {
  axes i = 40, j = 24
  let s[i]: f32 = sum(j) x[i, j]
  let m[i]: f32 = s[i] / 24.0:f32
  store y[i] over i = m[39 - i]
})");
}

// Teams of a thread, a warp, a block and a large block, by the sizes and by what a GPU can hold.
struct Sizes {
  int64_t rows, columns;
};
void PrintTo(const Sizes& s, std::ostream* out) { *out << s.rows << "x" << s.columns; }
class Teams : public testing::TestWithParam<Sizes> {
 protected:
  std::string text(const char* format) const {
    std::string out = format;
    for (auto [mark, value] : {std::pair{"ROWS", GetParam().rows}, {"COLUMNS", GetParam().columns}})
      for (size_t at; (at = out.find(mark)) != std::string::npos;)
        out.replace(at, std::string(mark).size(), std::to_string(value));
    return out;
  }
};

TEST_P(Teams, Softmax) {
  expect_text(text(R"(kernel @softmax_rows(in x: f32[ROWS,COLUMNS], out y: f32[ROWS,COLUMNS]) {
  axes i = ROWS, j = COLUMNS
  for i {
    let m: f32 = max(j) x[i, j]
    let e[j]: f32 = exp(x[i, j] - m)
    let s: f32 = sum(j) e[j]
    store y[i, j] over j = e[j] / s
  }
})"));
}

TEST_P(Teams, NormWithStatistics) {
  expect_text(
      text(R"(kernel @norm(in x: f32[ROWS,COLUMNS], in g: f32[COLUMNS], out y: f32[ROWS,COLUMNS], out mean: f32[ROWS]) {
  axes i = ROWS, j = COLUMNS
  for i {
    let s: f32 = sum(j) x[i, j]
    let m: f32 = s / COLUMNS.0:f32
    let c[j]: f32 = x[i, j] - m
    let v: f32 = sum(j) c[j] * c[j]
    let r: f32 = rsqrt(v / COLUMNS.0:f32 + 0.00001:f32)
    store mean[i] = m
    store y[i, j] over j = c[j] * r * g[j]
  }
})"));
}

TEST_P(Teams, Argmax) {
  expect_text(text(R"(kernel @argmax_rows(in x: f32[ROWS,COLUMNS], out at: i64[ROWS], out top: f32[ROWS]) {
  axes i = ROWS, j = COLUMNS
  for i {
    let m: f32 = max(j) x[i, j]
    let a: i64 = min(j) select(x[i, j] == m, j, COLUMNS)
    store at[i] = a
    store top[i] = m
  }
})"));
}

TEST_P(Teams, BiasGradient) {
  expect_text(text(R"(kernel @bias_gradient(in ct: f32[ROWS,COLUMNS], out bias: f32[COLUMNS], out total: f32[COLUMNS]) {
  axes i = ROWS, j = COLUMNS, k = ROWS
  for j {
    let s: f32 = sum(k) ct[k, j]
    store bias[j] = s
  }
  for i {
    store total[j] over j sum= ct[i, j]
  }
})"));
}

INSTANTIATE_TEST_SUITE_P(Sizes, Teams,
                         testing::Values(Sizes{1, 1}, Sizes{1, 31}, Sizes{45, 31}, Sizes{31, 45}, Sizes{45, 300},
                                         Sizes{300, 45}, Sizes{3, 5000}, Sizes{5000, 3}, Sizes{1, 5000}),
                         [](const auto& info) {
                           return std::to_string(info.param.rows) + "x" + std::to_string(info.param.columns);
                         });

TEST(CudaKernels, RowsLeaveSharedMemoryToOtherBlocksOrTakeAllOfIt) {
  for (int64_t columns : {500, 3000, 20000}) {  // a warp's team, a block's, one beyond 48 KiB
    std::string n = std::to_string(columns);
    expect_text("kernel @reversed(in x: f32[5," + n + "], out y: f32[5," + n + "]) {\n  axes i = 5, j = " + n +
                "\n  for i {\n    let e[j]: f32 = exp(x[i, j])\n    store y[i, j] over j = e[" + n +
                " - 1 - j] + e[j]\n  }\n}\n");
  }
}

TEST(CudaKernels, SizesMayBeKnownAtTheRunOnly) {
  auto rows = std::make_shared<ir::Symbol>(ir::Symbol{"n", 1, 300, 1});
  ReadSize size = [&](std::string_view) -> Result<ir::Dim> { return ir::Dim::symbol(rows); };
  Kernel k = parse_kernel(R"(kernel @rows(in x: f32[dim(n),45], out y: f32[dim(n),45], out total: f32[45]) {
  axes i = dim(n), j = 45
  for i {
    let m: f32 = max(j) x[i, j]
    store y[i, j] over j = x[i, j] - m
  }
  for i {
    store total[j] over j sum= x[i, j]
  }
})",
                          "rows", size)
                 .value();
  auto code = print_for_gpu(k, "nk_rows", gpu());
  ASSERT_TRUE(code.ok()) << to_string(code.errors());
  for (int64_t n : {1, 31, 45, 300}) {
    Kernel sized =
        with_sizes(k, [&](const ir::Dim& d) { return ir::Dim(d.eval([&](const ir::Symbol&) { return n; })); });
    emulator::expect_right(k, *code, draw_buffers(sized), {.extents = {n}});
  }
}

TEST(CudaKernels, MoveNoMoreThanTheirOperandsAndResults) {
  Kernel k = parse_kernel(R"(kernel @scaled(in x: f32[1003], in y: f32[1003], out z: f32[1003]) {
  axes i = 1003
  for i {
    store z[i] = x[i] * 2.0:f32 + y[i]
  }
})",
                          "scaled")
                 .value();
  expect_kernel(k, gpu(), {.most_traffic = 3 * 4 * 1003});
}

// What expect_right says of a text in which `from` has become `to`.
std::string failures_of(const std::string& kernel, const std::string& from, const std::string& to,
                        int64_t traffic = 0) {
  Kernel k = parse_kernel(kernel, "kernel").value();
  codegen::CudaKernel code = print_for_gpu(k, "nk_" + k.name, gpu()).value();
  size_t at = code.text.find(from);
  EXPECT_NE(at, std::string::npos) << code.text;
  if (at != std::string::npos) code.text.replace(at, from.size(), to);
  testing::TestPartResultArray failures;
  {
    testing::ScopedFakeTestPartResultReporter reporter(
        testing::ScopedFakeTestPartResultReporter::INTERCEPT_ONLY_CURRENT_THREAD, &failures);
    emulator::expect_right(k, code, draw_buffers(k), {.most_traffic = traffic});
  }
  std::string out;
  for (int i = 0; i < failures.size(); ++i) out += failures.GetTestPartResult(i).message();
  return out;
}

TEST(CudaKernels, ThatAreWrongFail) {
  const std::string scaled =
      "kernel @scaled(in x: f32[1003], out z: f32[1003]) {\n  axes i = 1003\n  for i {\n"
      "    store z[i] = exp(x[i]) * 2.0:f32\n  }\n}\n";
  const std::string reversed =
      "kernel @reversed(in x: f32[5,300], out y: f32[5,300]) {\n  axes i = 5, j = 300\n  for i {\n"
      "    let e[j]: f32 = exp(x[i, j])\n    store y[i, j] over j = e[299 - j]\n  }\n}\n";
  auto has = [](const std::string& text, const char* part) {
    return text.find(part) != std::string::npos ? "" : fmt::format("no `{}` in: {}", part, text);
  };
  EXPECT_EQ(failures_of(scaled, "2.0f", "2.0f"), "");
  EXPECT_EQ(has(failures_of(scaled, "2.0f", "2.5f"), "the interpreter has"), "");
  EXPECT_EQ(has(failures_of(scaled, "2.0f", "2.0f", 2 * 4 * 1003 - 1), "most_traffic"), "");
  EXPECT_EQ(has(failures_of(reversed, "nb_sync<256>();\n    for (int u1_", "for (int u1_"), "depends on the order"),
            "");
}

TEST(CudaKernels, OldTargetsRunTheSameText) {
  for (const char* name : {"sm_80", "sm_120"}) expect_kernel(read_kernel("softmax"), ir::find_target(name).value());
}

}  // namespace
}  // namespace nabla::kernel_ir
