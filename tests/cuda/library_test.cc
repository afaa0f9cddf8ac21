// Products of GPU programs by the library, on the fake driver and the fake cuBLASLt: against the CPU's program of the
// same bundle, with and without the library; which algorithm is taken, and what is kept of it.
#include <cmath>
#include <cstring>
#include <filesystem>
#include <set>

#include "cli/driver/report.h"
#include "cli/driver/tuning.h"
#include "frontend/nabla.h"
#include "runtime/exec/gpu_autotune.h"
#include "tests/cuda/library_fixture.h"

namespace nabla {
namespace {

namespace fs = std::filesystem;

class Library : public LibraryTest {
 protected:
  Library() : LibraryTest("cublaslt") {}
};

// y = gelu(x W + b), z = relu(y V), and s = z^T z.
Program layers(DType dtype) {
  Program program;
  program.entry("f", {{"x", dtype, {12, 20}}, {"w", dtype, {20, 24}}, {"b", dtype, {24}}, {"v", dtype, {16, 24}}},
                [](const std::vector<Tensor>& in) -> Outputs {
                  Tensor y = gelu(matmul(in[0], in[1]) + in[2]);
                  Tensor z = relu(matmul(y, transpose(in[3])));
                  return {{"z", z}, {"s", matmul(transpose(z), z)}};
                });
  return program;
}
std::vector<Literal> inputs_of(DType dtype) {
  return {noise(dtype, {12, 20}, 1), noise(dtype, {20, 24}, 2), noise(dtype, {24}, 3), noise(dtype, {16, 24}, 4)};
}

// The CPU rounds halves after every op, the library once.
TEST_F(Library, ComputesWhatTheCpuComputes) {
  for (auto [dtype, tolerance] : {std::pair(f32, 2e-4), std::pair(bf16, 8e-2), std::pair(f16, 1e-2)}) {
    ASSERT_NO_FATAL_FAILURE(compile(layers(dtype).module()));
    std::unique_ptr<exec::Session> gpu;
    EXPECT_EQ(said(&gpu), "");
    int before = count("cublasLtMatmul");
    expect_like_cpu(*gpu, inputs_of(dtype), tolerance);
    EXPECT_EQ(count("cublasLtMatmul") - before, 2 * 3);  // the third run replays what the second recorded
  }
}

TEST_F(Library, WithoutItTheGeneratedKernelsRunAndThatIsSaidOnce) {
  ASSERT_NO_FATAL_FAILURE(compile(layers(f32).module()));
  setenv("NABLA_CUBLASLT", "/not/there.so", 1);
  std::unique_ptr<exec::Session> gpu;
  EXPECT_EQ(said(&gpu),
            "note: test.nbundle: matrix products of sm_80 run as generated kernels: cuBLASLt cannot be used: "
            "/not/there.so: cannot open shared object file: No such file or directory\n");
  expect_like_cpu(*gpu, inputs_of(f32), 2e-4);
  EXPECT_EQ(count("cublasLtMatmul"), 0);
}

// Of sm_90a tiles are boxes of the arrays, which are described to the copy engine when a launch is issued or recorded, also
// where the kernel is a library's fallback.
TEST_F(Library, GeneratedProductsDescribeTheirArraysToTheCopyEngine) {
  setenv("NABLA_FAKE_CUDA_CAPABILITY", "9.0", 1);
  Program program;
  program.entry("f", {{"x", bf16, {136, 144}}, {"w", bf16, {3, 144, 136}}, {"b", bf16, {136}}},
                [](const std::vector<Tensor>& in) -> Outputs {
                  auto layer = [&](Tensor w) { return relu(matmul(in[0], w) + in[2]); };
                  Tensor first = layer(reshape(slice(in[1], {1, 0, 0}, {2, 144, 136}), {144, 136}));
                  return {{"y", first}, {"g", matmul(transpose(in[0]), first)}};
                });
  const std::vector<Literal> inputs = {noise(bf16, {136, 144}, 1), noise(bf16, {3, 144, 136}, 2), noise(bf16, {136}, 3)};
  for (bool library : {false, true}) {
    SCOPED_TRACE(library);
    driver::CompileOptions options;
    options.target = "sm_90a,cpu", options.library = library, options.tuning_file = scratch("hopper.tuning");
    std::ofstream(options.tuning_file) << "nabla-tuning 2\ntarget sm_90a\ngemm = cublaslt\n";
    ASSERT_NO_FATAL_FAILURE(compile(program.module(), options));
    setenv("NABLA_CUBLASLT", "/not/there.so", 1);
    const int before = driver_calls("cuTensorMapEncodeTiled");
    expect_like_cpu(*open("sm_90a"), inputs, 8e-2);
    EXPECT_EQ(driver_calls("cuTensorMapEncodeTiled") - before, 2 * 2 * 2);  // two products of two factors, issued and recorded
  }
}

TEST_F(Library, AProductThatItRefusesRunsAsAGeneratedKernel) {
  ASSERT_NO_FATAL_FAILURE(compile(layers(f32).module()));
  setenv("NABLA_FAKE_CUBLASLT_FAIL", "cublasLtMatmulAlgoGetHeuristic:1:15", 1);
  std::unique_ptr<exec::Session> gpu;
  std::string note = said(&gpu);
  EXPECT_TRUE(
      note.starts_with("note: test.nbundle: some matrix products of sm_80 run as generated kernels: cuBLASLt "
                       "13.1.0 has no algorithm for gemm f32 1x12x24x20 nn bias gelu ld 20,24,24 align "))
      << note;
  expect_like_cpu(*gpu, inputs_of(f32), 2e-4);
}

TEST_F(Library, CheckNanKnowsTheOperandsOfBoth) {
  ASSERT_NO_FATAL_FAILURE(compile(layers(f32).module()));
  std::vector<Literal> inputs = inputs_of(f32);
  inputs[2].set(5, INFINITY);
  for (const std::string& library : {std::string(std::getenv("NABLA_CUBLASLT")), std::string("/not/there.so")}) {
    setenv("NABLA_CUBLASLT", library.c_str(), 1);
    std::unique_ptr<exec::Session> gpu = open("sm_80", true);
    auto got = gpu->call(0, inputs);
    ASSERT_FALSE(got.ok());
    EXPECT_EQ(got.errors()[0].code, Code::kNotFinite);
    EXPECT_NE(got.errors()[0].message.find("result 0 of `gemm` has 0 NaNs and 12 infinities"), std::string::npos)
        << got.errors()[0].message;
    EXPECT_EQ(got.errors()[0].notes.size(), 3u);  // both factors and the bias
  }
}

TEST_F(Library, AFailureNamesTheInstructionAndTheStatus) {
  ASSERT_NO_FATAL_FAILURE(compile(layers(f32).module()));
  std::unique_ptr<exec::Session> gpu = open("sm_80");
  setenv("NABLA_FAKE_CUBLASLT_FAIL", "cublasLtMatmul:0:13", 1);
  auto got = gpu->call(0, inputs_of(f32));
  ASSERT_FALSE(got.ok());
  EXPECT_EQ(got.errors()[0].code, Code::kGpuFailed);
  EXPECT_EQ(got.errors()[0].message,
            "entry `f` on Fake GPU: instruction 0 `gemm`: calling cuBLASLt: CUBLAS_STATUS_EXECUTION_FAILED (13)");
}

// The second session measures nothing: it reads what the first has kept.
TEST_F(Library, TheFastestAlgorithmIsKeptInAFileAndInBundles) {
  ASSERT_NO_FATAL_FAILURE(compile(layers(f32).module()));
  setenv("NABLA_FAKE_CUBLASLT_FASTEST", "2", 1);
  expect_like_cpu(*open("sm_80"), inputs_of(f32), 2e-4);
  EXPECT_GE(count("algorithm 0"), 6);
  std::string file = contents(cache_ + "/gemm.records");
  EXPECT_EQ(std::count(file.begin(), file.end(), '\n'), 3) << file;
  EXPECT_TRUE(file.starts_with("record Fake GPU | 13.1.0 | gemm f32 1x12x24x20 nn bias gelu ld 20,24,24 align "))
      << file;
  auto expect_known = [&] {
    call<void>("reset");
    expect_like_cpu(*open("sm_80"), inputs_of(f32), 2e-4);
    EXPECT_EQ(count("cublasLtMatmulAlgoGetHeuristic"), 0);
    EXPECT_EQ(count("cublasLtMatmul"), 6);
    EXPECT_EQ(count("algorithm 2"), 6);
  };
  expect_known();
  // Into a tuning file and from there into the bundle, without the cache.
  std::vector<GemmRecord> records;
  std::istringstream lines(file);
  for (std::string line; std::getline(lines, line);) records.push_back(GemmRecord::parse(line).value());
  std::ofstream(scratch("tuned")) << driver::with_records(contents(scratch("all.tuning")), records);
  ASSERT_NO_FATAL_FAILURE(compile(layers(f32).module(), {.tuning_file = scratch("tuned")}));
  fs::remove(cache_ + "/gemm.records");
  expect_known();
  EXPECT_FALSE(fs::exists(cache_ + "/gemm.records"));
}

// The fastest comes first, while the chip is still slow: what is measured before it is warm would have it lose to all others.
TEST_F(Library, WhatIsMeasuredFirstLosesNothingByIt) {
  ASSERT_NO_FATAL_FAILURE(compile(layers(f32).module()));
  setenv("NABLA_FAKE_CUBLASLT_FASTEST", "0", 1);
  call<void>("cool", 8);
  expect_like_cpu(*open("sm_80"), inputs_of(f32), 2e-4);
  call<void>("reset");
  expect_like_cpu(*open("sm_80"), inputs_of(f32), 2e-4);
  EXPECT_EQ(count("algorithm 0"), 6);
  EXPECT_EQ(count("cublasLtMatmulAlgoGetHeuristic"), 0);
}

// Candidates are timed as steps will run them: in graphs.
TEST_F(Library, CandidatesAreMeasuredInGraphs) {
  ASSERT_NO_FATAL_FAILURE(compile(layers(f32).module()));
  const int before = driver_calls("cuGraphLaunch");
  (void)open("sm_80");
  EXPECT_GE(driver_calls("cuGraphLaunch") - before, 3 * (3 + 1));  // three products, three candidates, and the warm-up
}

TEST(Autotune, OperandsAreNormalNumbersInEveryFormat) {
  std::vector<unsigned char> bytes(1 << 16);
  exec::fill_with_numbers(bytes);
  for (DType dtype : {f64, f32, bf16, f16, DType::kF8E4M3, DType::kF8E5M2}) {
    Literal numbers(dtype, {static_cast<int64_t>(bytes.size() / static_cast<size_t>(bytes_of(dtype)))});
    std::memcpy(numbers.mutable_data(), bytes.data(), bytes.size());
    std::set<double> seen;
    for (int64_t i = 0; i < numbers.size(); ++i) {
      const double x = std::abs(numbers.get(i));
      EXPECT_TRUE(x > (dtype == f64 ? 1e-40 : 1e-5) && x < 2) << name_of(dtype) << " " << numbers.get(i);
      seen.insert(numbers.get(i));
    }
    EXPECT_GE(seen.size(), 16u) << name_of(dtype);
  }
}

TEST_F(Library, RecordsOfAnotherVersionAreMeasuredAgain) {
  ASSERT_NO_FATAL_FAILURE(compile(layers(f32).module()));
  (void)open("sm_80");
  setenv("NABLA_FAKE_CUBLASLT_VERSION", "120903", 1);
  call<void>("reset");
  (void)open("sm_80");
  EXPECT_EQ(count("cublasLtMatmulAlgoGetHeuristic"), 3);
  unsetenv("NABLA_FAKE_CUBLASLT_VERSION");
}

// Sizes of the run decide the problem, rounded up where that adds nothing but rows that nobody reads; only the largest
// is measured, when the bundle is loaded.
TEST_F(Library, SizesOfTheCallerDecide) {
  Program program;
  ir::Dim batch = program.symbol("batch", 1, 9);
  program.entry("f", {{"x", f32, {batch, 33}}, {"w", f32, {33, 17}}}, [](const std::vector<Tensor>& in) -> Outputs {
    return {{"y", relu(matmul(in[0], in[1]))}};
  });
  ASSERT_NO_FATAL_FAILURE(compile(program.module()));
  for (const std::string& library : {std::string(std::getenv("NABLA_CUBLASLT")), std::string("/not/there.so")}) {
    setenv("NABLA_CUBLASLT", library.c_str(), 1);
    std::unique_ptr<exec::Session> gpu = open("sm_80");
    for (int64_t n : {3, 9, 1, 4, 3, 8, 5, 6})
      expect_like_cpu(*gpu, {noise(f32, {n, 33}, 1), noise(f32, {33, 17}, 2)}, 1e-4);
  }
  std::string last = call<const char*>("last");
  EXPECT_EQ(last, "f32 17x8x33 batch 1 epilogue 2 compute 68");  // five rows record eight, which six replay
}

// What lies after the rows of this run must not be summed.
TEST_F(Library, SumsOverRowsHaveTheirExactSize) {
  Program program;
  ir::Dim batch = program.symbol("batch", 1, 9);
  program.entry("f", {{"x", f32, {batch, 33}}}, [](const std::vector<Tensor>& in) -> Outputs {
    return {{"y", matmul(transpose(in[0]), in[0])}};
  });
  ASSERT_NO_FATAL_FAILURE(compile(program.module()));
  std::unique_ptr<exec::Session> gpu = open("sm_80");
  for (int64_t n : {8, 5, 6, 5, 6, 5}) expect_like_cpu(*gpu, {noise(f32, {n, 33}, static_cast<uint64_t>(n))}, 1e-4);
  EXPECT_EQ(std::string(call<const char*>("last")), "f32 33x33x6 batch 1 epilogue 1 compute 68");
}

TEST_F(Library, BucketsAreForGpusAndForSizesThatTheModuleHas) {
  Program program;
  ir::Dim batch = program.symbol("batch", 1, 9), len = program.symbol("len", 1, 9);
  program.entry("f", {{"x", f32, {batch, len}}}, [](const std::vector<Tensor>& in) -> Outputs {
    return {{"y", -in[0]}};
  });
  auto refused = [&](const std::string& target, const std::string& buckets) {
    auto out = driver::compile(program.module(), {.target = target, .buckets = {buckets}});
    return out.ok() ? "accepted" : to_string(out.errors());
  };
  EXPECT_EQ(refused("cpu:x86-64-v3", "batch=4"),
            "error[E0901]: buckets are for launches of GPUs, and no target is one: cpu:x86-64-v3\n   = help: leave them out, or "
            "compile for a GPU: --target sm_80\n");
  EXPECT_TRUE(refused("sm_80", "batch=10").starts_with("error[E0901]: --buckets: batch = 10 is not in [1, 9]"));
  EXPECT_TRUE(refused("sm_80", "bach=4")
                  .starts_with("error[E0901]: --buckets: the module has no symbolic size `bach`; did you mean `batch`?"));
  std::string all = "batch=1,2,3,4,5,6,7,8,9";
  EXPECT_EQ(refused("sm_80", all), "accepted");
  EXPECT_TRUE(refused("sm_80", all + ",len=1,2,3,4,5,6,7")
                  .starts_with("error[E0901]: --buckets: 9 of batch times 8 of len sizes, each with its largest, make 72 combinations; a "
                               "program has at most 64\n"));
}

// Declared bounds of sizes are bound, and their products measured, when the bundle is loaded.
TEST_F(Library, ProductsOfDeclaredBucketsAreMeasured) {
  Program program;
  ir::Dim batch = program.symbol("batch", 1, 9);
  program.entry("f", {{"x", f32, {batch, 33}}, {"w", f32, {33, 17}}}, [](const std::vector<Tensor>& in) -> Outputs {
    return {{"y", matmul(in[0], in[1])}};
  });
  ASSERT_NO_FATAL_FAILURE(compile(program.module(), {.buckets = {"batch=6,3"}}));
  std::unique_ptr<exec::Session> gpu = open("sm_80");
  EXPECT_EQ(count("cublasLtMatmulAlgoGetHeuristic"), 3);
  for (int64_t n : {4, 5, 2, 7}) expect_like_cpu(*gpu, {noise(f32, {n, 33}, 1), noise(f32, {33, 17}, 2)}, 1e-4);
  EXPECT_EQ(count("cublasLtMatmulAlgoGetHeuristic"), 3);
}

// x W^T with factors of two formats, a bias and an activation, and x V^T with a residual.
Program byte_layers(DType wide, DType second = DType::kF8E5M2, int64_t deep = 32) {
  Program program;
  program.entry("f", {{"x", DType::kF8E4M3, {12, deep}}, {"w", second, {48, deep}}, {"v", DType::kF8E4M3, {48, deep}},
                 {"b", wide, {48}}, {"r", wide, {12, 48}}},
                [=](const std::vector<Tensor>& in) -> Outputs {
                  Tensor x = convert(in[0], wide), w = transpose(convert(in[1], wide)), v = convert(transpose(in[2]), wide);
                  return {{"y", gelu(matmul(x, w) + in[3])}, {"z", matmul(x, v) + in[4]}};
                });
  return program;
}
std::vector<Literal> byte_inputs(DType wide, DType second = DType::kF8E5M2, int64_t deep = 32) {
  return {noise(DType::kF8E4M3, {12, deep}, 1), noise(second, {48, deep}, 2), noise(DType::kF8E4M3, {48, deep}, 5),
          noise(wide, {48}, 3), noise(wide, {12, 48}, 4)};
}

TEST_F(Library, MultipliesBytesAsTheyLie) {
  setenv("NABLA_FAKE_CUDA_CAPABILITY", "8.9", 1);
  for (auto [wide, tolerance] : {std::pair(bf16, 8e-2), std::pair(f32, 1e-4)}) {
    ASSERT_NO_FATAL_FAILURE(compile(byte_layers(wide).module(), {.target = "sm_89,cpu"}));
    EXPECT_NE(report_.find("gemm f8e4m3 1x12x48x32 nt"), std::string::npos) << report_;
    for (const std::string& library : {std::string(std::getenv("NABLA_CUBLASLT")), std::string("/not/there.so")}) {
      setenv("NABLA_CUBLASLT", library.c_str(), 1);
      std::unique_ptr<exec::Session> gpu = open("sm_89");
      expect_like_cpu(*gpu, byte_inputs(wide), tolerance);
    }
    std::string last = call<const char*>("last");
    EXPECT_EQ(last, fmt::format("{} 48x12x32 batch 1 epilogue 1 compute 68 of f8e4m3 and f8e4m3 add", name_of(wide)));
    EXPECT_NE(report_.find(wide == f32 ? "gelu" : "bias gelu"), std::string::npos) << report_;
    setenv("NABLA_CUBLASLT", runfile("tests/cuda/fake_cublaslt/libfake_cublaslt.so").c_str(), 1);
  }
}

// Rows of 24 bytes, which the library does not take, or a tuning file that wants none: the kernels that read bytes stay.
TEST_F(Library, BytesThatItDoesNotTakeAreGenerated) {
  setenv("NABLA_FAKE_CUDA_CAPABILITY", "8.9", 1);
  const std::string tuned = scratch("bytes.tuning");
  std::ofstream(tuned) << "nabla-tuning 2\ntarget sm_89\ngemm f8e4m3 1x12x48x32 nt = generated\ngemm = cublaslt\n";
  for (auto [module, tuning] : {std::pair(byte_layers(bf16, DType::kF8E5M2, 24).module(), std::string()),
                                std::pair(byte_layers(bf16).module(), tuned)}) {
    ASSERT_NO_FATAL_FAILURE(compile(module, {.target = "sm_89,cpu", .tuning_file = tuning}));
    EXPECT_EQ(report_.find("gemm f8"), std::string::npos) << report_;
    // The two products, and nothing that converts their factors.
    std::string text = driver::report_text(report_).value();
    EXPECT_NE(text.find("\n2 kernels\n"), std::string::npos) << text;
    (void)open("sm_89");
  }
}

// Slices of a loop move, and with them the bias, whose address is part of the library's description.
TEST_F(Library, OperandsThatMoveWithALoop) {
  Program program;
  program.entry("f", {{"x", f32, {4, 12}}, {"w", f32, {3, 12, 12}}, {"b", f32, {3, 12}}},
                [](const std::vector<Tensor>& in) -> Outputs {
                  auto [last, all] = scan(
                      [](Tensor x, std::pair<Tensor, Tensor> layer) {
                        Tensor y = relu(matmul(x, layer.first) + layer.second);
                        return std::pair(y, y);
                      },
                      in[0], std::pair(in[1], in[2]));
                  return {{"last", last}, {"all", all}};
                });
  ASSERT_NO_FATAL_FAILURE(compile(program.module()));
  std::unique_ptr<exec::Session> gpu = open("sm_80");
  expect_like_cpu(*gpu, {noise(f32, {4, 12}, 1), noise(f32, {3, 12, 12}, 2), noise(f32, {3, 12}, 3)}, 1e-4);
  EXPECT_EQ(std::string(call<const char*>("last")), "f32 12x4x12 batch 1 epilogue 6 compute 68");
}

// A residual is added by the call, with the library and without.
TEST_F(Library, WhatIsAddedIsPartOfTheCall) {
  Program program;
  program.entry("f", {{"x", f32, {2, 4, 12}}, {"w", f32, {12, 12}}, {"b", f32, {12}}},
                [](const std::vector<Tensor>& in) -> Outputs {
                  Tensor h = in[0] + (matmul(in[0], in[1]) + in[2]);
                  return {{"y", h}};
                });
  ASSERT_NO_FATAL_FAILURE(compile(program.module()));
  for (const std::string& library : {std::string(std::getenv("NABLA_CUBLASLT")), std::string("/not/there.so")}) {
    setenv("NABLA_CUBLASLT", library.c_str(), 1);
    std::unique_ptr<exec::Session> gpu = open("sm_80");
    expect_like_cpu(*gpu, {noise(f32, {2, 4, 12}, 1), noise(f32, {12, 12}, 2), noise(f32, {12}, 3)}, 1e-4);
  }
  EXPECT_EQ(std::string(call<const char*>("last")), "f32 12x8x12 batch 1 epilogue 4 compute 68 add");
}

TEST_F(Library, Tf32IsAnOptionOfTheCompile) {
  ASSERT_NO_FATAL_FAILURE(compile(layers(f32).module(), {.tf32 = true}));
  expect_like_cpu(*open("sm_80"), inputs_of(f32), 2e-2);
  EXPECT_TRUE(std::string(call<const char*>("last")).ends_with("compute 77"));
  std::string text = driver::report_text(report_).value();
  EXPECT_NE(text.find(" buffers, factors in tf32, sums in f32, "), std::string::npos) << text;
  auto refused = driver::compile(layers(f32).module(), {.target = "cpu", .tf32 = true});
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.errors()[0].str(),
            "error[E0901]: tf32 is for matrix products of GPUs, and no target is one: cpu:x86-64-v3\n   = help: leave it out, or "
            "compile for a GPU: --target sm_80\n");
}

TEST_F(Library, TheReportShowsItsCalls) {
  ASSERT_NO_FATAL_FAILURE(compile(layers(bf16).module()));
  std::string text = driver::report_text(report_).value();
  EXPECT_NE(
      text.find("3 kinds of library call\n"
                "  gemm bf16 1x12x24x20 nn                      1 call of cublaslt, with bias gelu, 2064 B buffers, "
                "sums in f32, 4194.3 KB workspace, at least 1.47 ns, predicted 1.25 us\n"
                "    without the library  dot_gelu\n"),
      std::string::npos)
      << text;
  // What stands in for a call comes after all that runs.
  size_t behind = text.find("\nfallbacks, which run where the library is missing\n");
  ASSERT_NE(behind, std::string::npos) << text;
  EXPECT_NE(text.find("\n  dot_gelu                                     2064 B buffers, at least 1.47 ns, predicted "),
            std::string::npos)
      << text;
  EXPECT_GT(text.find("\n  dot_gelu "), behind) << text;
  EXPECT_NE(text.find("\n0 kernels\n\n3 kinds of library call\n"), std::string::npos) << text;
}

TEST_F(Library, NothingIsLeftToItBelowAMegaflopOrWithoutAnOrder) {
  auto products = [&](int64_t n, bool library) {
    Program program;
    program.entry("f", {{"x", f32, {n, n}}}, [](const std::vector<Tensor>& in) -> Outputs {
      return {{"y", matmul(in[0], in[0])}};
    });
    driver::CompileOptions options{.target = "sm_90a", .library = library};
    return driver::lower_module(program.module(), options)->report.find("cublaslt") != std::string::npos;
  };
  EXPECT_TRUE(products(128, true));
  EXPECT_FALSE(products(64, true));
  EXPECT_FALSE(products(128, false));
}

}  // namespace
}  // namespace nabla
