// Convolutions of GPU programs by the library, on the fake driver and the fake cuDNN: against the CPU's program of the
// same bundle, with and without the library; which algorithm is taken, what is kept of it, and training by it.
#include <filesystem>
#include <random>

#include "cli/driver/report.h"
#include "cli/driver/tuning.h"
#include "examples/digits/cnn.h"
#include "frontend/nabla.h"
#include "tests/cuda/library_fixture.h"

namespace nabla {
namespace {

namespace fs = std::filesystem;

class LibraryConvolution : public LibraryTest {
 protected:
  LibraryConvolution() : LibraryTest("cudnn") {}
};

using Convolve = std::function<Tensor(Tensor, Tensor)>;

// y = conv(x, w), and its pullback of g at both operands.
Program all_three(DType dtype, const Shape& x, const Shape& w, const Shape& g, const Convolve& conv) {
  Program program;
  program.entry("f", {{"x", dtype, x}, {"w", dtype, w}, {"g", dtype, g}},
                [&](const std::vector<Tensor>& in) -> Outputs {
                  auto of_x = [&](Tensor t) { return sum(conv(t, in[1]) * in[2]); };
                  auto of_w = [&](Tensor t) { return sum(conv(in[0], t) * in[2]); };
                  return {{"y", relu(conv(in[0], in[1]))}, {"dx", grad(of_x)(in[0])}, {"dw", grad(of_w)(in[1])}};
                });
  return program;
}
Program small(DType dtype) {
  return all_three(dtype, {3, 7, 6, 4}, {3, 3, 4, 5}, {3, 7, 6, 5},
                   [](Tensor x, Tensor w) { return conv2d(x, w, 1, 1); });
}
std::vector<Literal> inputs_of(DType dtype) {
  return {noise(dtype, {3, 7, 6, 4}, 1), noise(dtype, {3, 3, 4, 5}, 2), noise(dtype, {3, 7, 6, 5}, 3)};
}

constexpr const char* kRuns[] = {"cudnnConvolutionForward", "cudnnConvolutionBackwardData",
                                 "cudnnConvolutionBackwardFilter"};

TEST_F(LibraryConvolution, ComputesWhatTheCpuComputes) {
  for (auto [dtype, tolerance] : {std::pair(f32, 1e-4), std::pair(bf16, 4e-2), std::pair(f16, 5e-3)}) {
    ASSERT_NO_FATAL_FAILURE(compile(small(dtype).module()));
    std::unique_ptr<exec::Session> gpu;
    EXPECT_EQ(said(&gpu), "");
    int before[3];
    for (int kind = 0; kind < 3; ++kind) before[kind] = count(kRuns[kind]);
    expect_like_cpu(*gpu, inputs_of(dtype), tolerance);
    // The third run replays what the second recorded.
    for (int kind = 0; kind < 3; ++kind) EXPECT_EQ(count(kRuns[kind]) - before[kind], 2) << kRuns[kind];
  }
}

TEST_F(LibraryConvolution, OneAndThreeDimensionsGroupsStridesAndDilation) {
  auto expect = [&](const Shape& x, const Shape& w, const Shape& g, const Convolve& conv) {
    int before = count(kRuns[2]);
    ASSERT_NO_FATAL_FAILURE(compile(all_three(f32, x, w, g, conv).module()));
    auto extents = [](const Shape& s) {
      std::vector<int64_t> out;
      for (const ir::Dim& d : s) out.push_back(d.value());
      return out;
    };
    expect_like_cpu(*open("sm_80"), {noise(f32, extents(x), 1), noise(f32, extents(w), 2), noise(f32, extents(g), 3)},
                    1e-4);
    EXPECT_GT(count(kRuns[2]), before);
  };
  expect({2, 11, 4}, {3, 4, 6}, {2, 5, 6}, [](Tensor x, Tensor w) { return conv1d(x, w, 2); });
  expect({2, 5, 4, 6, 2}, {2, 3, 1, 2, 3}, {2, 4, 2, 6, 3}, [](Tensor x, Tensor w) { return conv3d(x, w); });
  expect({2, 9, 8, 6}, {3, 3, 2, 9}, {2, 4, 3, 9}, [](Tensor x, Tensor w) { return conv2d(x, w, 2, 1, 2, 3); });
}

// Strides of 2 leave a row and a column unread: padding that nothing reads need not be the same on both sides.
TEST_F(LibraryConvolution, PaddingMustBeEvenWhereItIsRead) {
  auto calls = [&](ir::Ints strides, ir::Ints low, ir::Ints high) {
    Program program;
    program.entry("f", {{"x", f32, {3, 7, 6, 4}}, {"w", f32, {3, 3, 4, 5}}},
                  [&](const std::vector<Tensor>& in) -> Outputs {
                    return {{"y", convolution(in[0], in[1], strides, low, high, {1, 1}, 1)}};
                  });
    driver::CompileOptions options{.target = "sm_80", .tuning_file = scratch("all.tuning")};
    return driver::lower_module(program.module(), options)->report.find("cudnn") != std::string::npos;
  };
  EXPECT_TRUE(calls({1, 1}, {1, 1}, {1, 1}));
  EXPECT_FALSE(calls({1, 1}, {0, 0}, {1, 1}));
  EXPECT_TRUE(calls({2, 2}, {0, 0}, {1, 0}));
  EXPECT_FALSE(calls({2, 2}, {0, 0}, {0, 1}));
}

TEST_F(LibraryConvolution, WithoutItTheGeneratedKernelsRunAndThatIsSaidOnce) {
  ASSERT_NO_FATAL_FAILURE(compile(small(f32).module()));
  setenv("NABLA_CUDNN", "/not/there.so", 1);
  std::unique_ptr<exec::Session> gpu;
  EXPECT_EQ(said(&gpu),
            "note: test.nbundle: convolutions of sm_80 run as generated kernels: cuDNN cannot be used: "
            "/not/there.so: cannot open shared object file: No such file or directory\n");
  expect_like_cpu(*gpu, inputs_of(f32), 1e-4);
  for (const char* run : kRuns) EXPECT_EQ(count(run), 0);
}

TEST_F(LibraryConvolution, AProblemThatItRefusesRunsAsAGeneratedKernel) {
  ASSERT_NO_FATAL_FAILURE(compile(small(f32).module()));
  wish("_FAIL", "cudnnGetConvolutionBackwardFilterAlgorithm_v7:0:3000");
  std::unique_ptr<exec::Session> gpu;
  EXPECT_EQ(said(&gpu),
            "note: test.nbundle: some convolutions of sm_80 run as generated kernels: cuDNN 9.28.0 has no algorithm "
            "for convolution f32 filter_grad 3x7x6x4 3x3x4x5 3x7x6x5 stride 1,1 pad 1,1 workspace 4194304: "
            "CUDNN_STATUS_NOT_SUPPORTED (3000)\n");
  expect_like_cpu(*gpu, inputs_of(f32), 1e-4);
  EXPECT_EQ(count(kRuns[0]) > 0, true);
  EXPECT_EQ(count(kRuns[2]), 0);
}

TEST_F(LibraryConvolution, CheckNanKnowsTheOperandsOfBoth) {
  ASSERT_NO_FATAL_FAILURE(compile(small(f32).module()));
  std::vector<Literal> inputs = inputs_of(f32);
  inputs[0].set(0, INFINITY);  // a corner: four windows read it
  for (const std::string& library : {std::string(std::getenv("NABLA_CUDNN")), std::string("/not/there.so")}) {
    setenv("NABLA_CUDNN", library.c_str(), 1);
    std::unique_ptr<exec::Session> gpu = open("sm_80", true);
    auto got = gpu->call(0, inputs);
    ASSERT_FALSE(got.ok());
    EXPECT_EQ(got.errors()[0].code, Code::kNotFinite);
    EXPECT_NE(got.errors()[0].message.find("result 0 of `conv` has 0 NaNs and 20 infinities"), std::string::npos)
        << got.errors()[0].message;
    EXPECT_EQ(got.errors()[0].notes.size(), 2u);  // both operands
  }
}

TEST_F(LibraryConvolution, AFailureNamesTheInstructionAndTheStatus) {
  ASSERT_NO_FATAL_FAILURE(compile(small(f32).module()));
  std::unique_ptr<exec::Session> gpu = open("sm_80");
  wish("_FAIL", "cudnnConvolutionForward:0:5000");
  auto got = gpu->call(0, inputs_of(f32));
  ASSERT_FALSE(got.ok());
  EXPECT_EQ(got.errors()[0].code, Code::kGpuFailed);
  EXPECT_NE(got.errors()[0].message.find(" `conv`: calling cuDNN: CUDNN_STATUS_EXECUTION_FAILED (5000)"),
            std::string::npos)
      << got.errors()[0].message;
}

// The second session measures nothing: it reads what the first has kept.
TEST_F(LibraryConvolution, TheFastestAlgorithmIsKeptInAFileAndInBundles) {
  ASSERT_NO_FATAL_FAILURE(compile(small(f32).module()));
  wish("_FASTEST", "0");  // the library offers 1 first
  expect_like_cpu(*open("sm_80"), inputs_of(f32), 1e-4);
  EXPECT_GE(count("algorithm 1"), 6);
  std::string file = contents(cache_ + "/gemm.records");
  EXPECT_EQ(std::count(file.begin(), file.end(), '\n'), 3) << file;
  EXPECT_NE(file.find("record Fake GPU | 9.28.0 | convolution f32 forward 3x7x6x4 3x3x4x5 3x7x6x5 stride 1,1 pad 1,1 "
                      "workspace 4194304 = 0000"),
            std::string::npos)
      << file;
  auto expect_known = [&] {
    call<void>("reset");
    expect_like_cpu(*open("sm_80"), inputs_of(f32), 1e-4);
    EXPECT_EQ(count("algorithm 0"), 6);
    EXPECT_EQ(count("algorithm 1"), 0);
  };
  expect_known();
  // Into a tuning file and from there into the bundle, without the cache.
  std::vector<GemmRecord> records;
  std::istringstream lines(file);
  for (std::string line; std::getline(lines, line);) records.push_back(GemmRecord::parse(line).value());
  std::ofstream(scratch("tuned")) << driver::with_records(contents(scratch("all.tuning")), records);
  ASSERT_NO_FATAL_FAILURE(compile(small(f32).module(), {.tuning_file = scratch("tuned")}));
  fs::remove(cache_ + "/gemm.records");
  expect_known();
  EXPECT_FALSE(fs::exists(cache_ + "/gemm.records"));
}

// The batch of the run decides the problem; only the largest is measured, when the bundle is loaded.
TEST_F(LibraryConvolution, TheCallersBatchDecides) {
  Program program;
  ir::Dim batch = program.symbol("batch", 1, 5);
  program.entry("f", {{"x", f32, {batch, 7, 6, 4}}, {"w", f32, {3, 3, 4, 5}}},
                [](const std::vector<Tensor>& in) -> Outputs {
                  return {{"y", conv2d(in[0], in[1], 1, 1)}};
                });
  ASSERT_NO_FATAL_FAILURE(compile(program.module()));
  for (const std::string& library : {std::string(std::getenv("NABLA_CUDNN")), std::string("/not/there.so")}) {
    setenv("NABLA_CUDNN", library.c_str(), 1);
    std::unique_ptr<exec::Session> gpu = open("sm_80");
    for (int64_t n : {3, 5, 1, 4, 3, 2})
      expect_like_cpu(*gpu, {noise(f32, {n, 7, 6, 4}, 1), noise(f32, {3, 3, 4, 5}, 2)}, 1e-4);
  }
  std::string last = call<const char*>("last");
  EXPECT_EQ(last, "Forward 2x5 type 0 math 3");  // four images record what three replay
}

TEST_F(LibraryConvolution, Tf32IsAnOptionOfTheCompile) {
  ASSERT_NO_FATAL_FAILURE(compile(small(f32).module(), {.tf32 = true}));
  expect_like_cpu(*open("sm_80"), inputs_of(f32), 1e-2);
  EXPECT_TRUE(std::string(call<const char*>("last")).ends_with("math 0"));
}

TEST_F(LibraryConvolution, TheReportShowsItsCalls) {
  ASSERT_NO_FATAL_FAILURE(compile(small(bf16).module()));
  std::string text = driver::report_text(report_).value();
  std::string want = "3 kinds of library call\n";
  for (auto [kind, fallback] :
       {std::pair("forward", "sum_convolution"), std::pair("input_grad", "sum_conv_input_grad"),
        std::pair("filter_grad", "sum_transpose")})
    want += fmt::format(
        "  convolution bf16 {} 3x7x6x4 3x3x4x5 3x7x6x5 stride 1,1 pad 1,1 1 call of cudnn, 2628 B buffers, sums in "
        "f32, "
        "4194.3 KB workspace, at least 1.88 ns, predicted 1.25 us\n    without the library  {}\n",
        kind, fallback);
  size_t at = text.find(want.substr(0, want.find('\n')));
  ASSERT_NE(at, std::string::npos) << text;
  EXPECT_EQ(text.substr(at, want.size()), want);
  EXPECT_EQ(text.substr(at + want.size(), 12), "\nfallbacks, ") << text;
}

TEST_F(LibraryConvolution, NothingIsLeftToItBelowAMegaflopOrWithoutAnOrder) {
  auto calls = [&](int64_t batch, driver::CompileOptions options) {
    Program program;
    program.entry("f", {{"x", f32, {batch, 8, 8, 4}}, {"w", f32, {3, 3, 4, 8}}},
                  [](const std::vector<Tensor>& in) -> Outputs {
                    return {{"y", conv2d(in[0], in[1], 1, 1)}};
                  });
    options.target = "sm_80";
    return driver::lower_module(program.module(), options)->report.find("cudnn") != std::string::npos;
  };
  EXPECT_TRUE(calls(64, {}));
  EXPECT_FALSE(calls(16, {}));
  EXPECT_FALSE(calls(64, {.library = false}));
  std::string problem = "convolution f32 forward 64x8x8x4 3x3x4x8 64x8x8x8 stride 1,1 pad 1,1";
  std::ofstream(scratch("one.tuning")) << "nabla-tuning 2\ntarget sm_80\n" << problem << " = generated\n";
  EXPECT_FALSE(calls(64, {.tuning_file = scratch("one.tuning")}));
  EXPECT_TRUE(calls(96, {.tuning_file = scratch("one.tuning")}));
}

// The classifier of digits: three steps by the library, and one by the kernels in its place.
TEST_F(LibraryConvolution, TrainingFollowsTheCpu) {
  ASSERT_NO_FATAL_FAILURE(compile(digits::make_program<digits::Cnn>(digits::kCnnLearningRate).module()));
  auto batch = [](uint64_t seed) {
    std::mt19937_64 rng(seed);
    Literal pictures(u8, {digits::kBatch, digits::kSide, digits::kSide}), labels(i32, {digits::kBatch});
    for (int64_t i = 0; i < pictures.size(); ++i) pictures.set_i(i, static_cast<int64_t>(rng() % 17));
    for (int64_t i = 0; i < labels.size(); ++i) labels.set_i(i, static_cast<int64_t>(rng() % digits::kClasses));
    return std::vector<Literal>{pictures, labels};
  };
  Literal seed(u32, {2});
  seed.set_i(0, 3);
  for (auto [library, steps] :
       {std::pair(std::string(std::getenv("NABLA_CUDNN")), 3), std::pair(std::string("/no"), 1)}) {
    setenv("NABLA_CUDNN", library.c_str(), 1);
    auto gpu = open("sm_80"), cpu = open("cpu");
    for (auto* s : {gpu.get(), cpu.get()}) ASSERT_TRUE(s->call(s->need_entry("init").value(), {seed}).ok());
    int before = count(kRuns[2]);
    for (int step = 0; step < steps; ++step) {
      auto got = gpu->call(gpu->need_entry("step").value(), batch(static_cast<uint64_t>(step)));
      auto want = cpu->call(cpu->need_entry("step").value(), batch(static_cast<uint64_t>(step)));
      ASSERT_TRUE(got.ok()) << to_string(got.errors());
      ASSERT_TRUE(want.ok()) << to_string(want.errors());
      EXPECT_NEAR((*got)[0].get(0), (*want)[0].get(0), 1e-3) << "step " << step << " by " << library;
    }
    EXPECT_EQ(count(kRuns[2]) - before, steps == 1 ? 0 : 4);  // two convolutions, issued and recorded
  }
}

}  // namespace
}  // namespace nabla
