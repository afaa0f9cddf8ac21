// Kernels of the user's in CUDA: from the frontend through NVRTC to the fake GPU, against what they mean.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <random>

#include "cli/driver/compile.h"
#include "frontend/nabla.h"
#include "ir/reference/interpreter.h"
#include "runtime/exec/session.h"
#include "runtime/format/bundle_reader.h"
#include "tests/cuda/fake_gpu.h"
#include "tests/property/compare.h"

namespace nabla {
namespace {

Result<driver::CompiledBundle> compile(const ir::Module& module, const std::string& target = "sm_80") {
  return driver::compile(module, {.target = target});
}

std::unique_ptr<exec::Session> session_of(const ir::Module& module) {
  setenv("NABLA_FAKE_CUDA_CAPABILITY", "8.0", 1);
  driver::CompiledBundle compiled = compile(module).value();
  std::string driver = fmt::format("{}/{}/tests/cuda/fake_driver/libfake_cuda.so", std::getenv("TEST_SRCDIR"),
                                   std::getenv("TEST_WORKSPACE"));
  Status ready = emulator::use_fake_gpu(compiled.bytes, driver);
  NABLA_CHECK(ready.ok(), "{}", to_string(ready.errors()));
  auto bundle = format::Bundle::from_bytes(format::FileBytes::copy_of(format::as_bytes(compiled.bytes)), "test");
  return exec::Session::create(std::move(*bundle), {.threads = 1}).value();
}

Literal drawn(DType dtype, std::vector<int64_t> shape, uint64_t seed) {
  std::mt19937_64 rng(seed);
  Literal x(dtype, std::move(shape));
  for (int64_t i = 0; i < x.size(); ++i) x.set(i, std::uniform_real_distribution<double>(-2, 2)(rng));
  return x;
}

// Entry 0 of the program against the interpreter, which knows the kernel by its reference.
void check(const Program& program, const std::vector<std::vector<Literal>>& runs, double tolerance = 1e-5) {
  ir::Module flat = driver::simplify_module(program.module(), ir::find_target("sm_80").value()).value();
  auto session = session_of(program.module());
  for (const std::vector<Literal>& inputs : runs) {
    std::vector<Literal> want = ir::interpret(flat, flat.entries[0].function, inputs).value();
    Result<std::vector<Literal>> got = session->call(0, inputs);
    ASSERT_TRUE(got.ok()) << to_string(got.errors());
    EXPECT_EQ(property::difference(want, *got, property::Tolerance{tolerance}).value_or(""), "");
  }
}

// The default launch: a thread per element, and some beyond the end.
UserKernel swish() {
  return cuda_kernel("swish", "T[n] -> T[n]", R"(
#define HALF T(0.5)
static T sigmoid(T x) { return HALF + HALF * T(tanh(double(HALF * x))); }
__device__ void swish(const T* x, T* y, int64_t n) {
  const int64_t i = int64_t(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < n) y[i] = x[i] * sigmoid(x[i]);
})")
      .reference([](Tensor x) { return x * logistic(x); })
      .factors("n->n");
}

// Row sums of x * s, and how many elements of each row are positive: a block per row.
UserKernel weighted(Batching batching) {
  bool leads = batching == leading();
  std::string text = R"(
__device__ void weighted(const float* x, const float* s, float* y, int32_t* count, BATCH int64_t n, int64_t d) {
  extern __shared__ float sums[];
  __shared__ int positive[96];
  const int64_t row = blockIdx.x, b = row / n;
  float sum = 0;
  int here = 0;
  for (int64_t j = threadIdx.x; j < d; j += blockDim.x) {
    const float v = x[row * d + j];
    sum += v * s[b * d + j];
    here += v > 0;
  }
  sums[threadIdx.x] = sum;
  positive[threadIdx.x] = here;
  __syncthreads();
  if (threadIdx.x != 0 || row >= ROWS) return;
  for (unsigned t = 1; t < blockDim.x; ++t) sum += sums[t], here += positive[t];
  y[row] = sum;
  count[row] = here;
})";
  auto put = [&](const std::string& what, const std::string& with) {
    text.replace(text.find(what), what.size(), with);
  };
  put("BATCH", leads ? "int64_t batch," : "");
  put("ROWS", leads ? "batch * n" : "n");
  return cuda_kernel("weighted", "f32[n,d], f32[d] -> f32[n], i32[n]", text,
                     {.threads = 96, .blocks = leads ? "batch * n" : "n", .shared_bytes = 96 * 4})
      .reference([](Tensor x, Tensor s) { return std::pair(sum(x * s, {1}), sum(convert(x > 0.0, i32), {1})); })
      .factors("nd,d->n,n")
      .batching(batching);
}

TEST(CudaUserKernels, AgreeWithTheirReferenceInSeveralDtypes) {
  for (DType dtype : {f32, f64}) {
    Program program;
    ir::Dim n = program.symbol("n", 0, 3000);
    program.entry("main", {{"x", dtype, {n}}}, [&](Tensor x) -> Outputs { return {{"y", swish()(x)}}; });
    std::vector<std::vector<Literal>> runs;
    for (int64_t size : {0, 1, 255, 256, 257, 1009, 3000, 3000}) runs.push_back({drawn(dtype, {size}, 1)});
    check(program, runs);
  }
}

TEST(CudaUserKernels, RunAtEverySizeOfASymbol) {
  Program program;
  ir::Dim n = program.symbol("n", 1, 500), d = program.symbol("d", 1, 300);
  program.entry("main", {{"x", f32, {n, d}}, {"s", f32, {d}}}, [&](Tensor x, Tensor s) -> Outputs {
    std::vector<Tensor> all = weighted(sequential()).results({x, s});
    return {{"y", all[0]}, {"count", all[1]}};
  });
  std::vector<std::vector<Literal>> runs;
  for (auto [rows, columns] : {std::pair<int64_t, int64_t>{1, 1}, {13, 7}, {500, 31}, {3, 300}, {13, 7}})
    runs.push_back({drawn(f32, {rows, columns}, 2), drawn(f32, {columns}, 3)});
  check(program, runs);
}

TEST(CudaUserKernels, HaveDerivativesAndBatches) {
  for (Batching batching : {sequential(), leading()}) {
    Program program;
    program.entry("main", {{"x", f32, {5, 3, 4}}, {"s", f32, {4}}}, [&](Tensor x, Tensor s) -> Outputs {
      auto loss = [&](Tensor a, Tensor b) { return sum(exp(weighted(batching).results({a, b})[0])); };
      Tensor each = vmap(grad(loss), {.in_axes = {0, unmapped}})(x, s);
      Tensor rows = vmap([&](Tensor a) { return weighted(batching).results({a, s})[0]; })(x);
      return {{"each", each}, {"rows", rows}};
    });
    check(program, {{drawn(f32, {5, 3, 4}, 5), drawn(f32, {4}, 6)}}, 3e-5);
  }
}

TEST(CudaUserKernels, TakeTheirDerivativeFromAKernel) {
  UserKernel backward = cuda_kernel("cube_back", "f32[n], f32[n] -> f32[n]", R"(
void cube_back(const float* x, const float* ct, float* dx, int64_t n) {
  for (int64_t i = threadIdx.x; i < n; i += blockDim.x) dx[i] = 3 * x[i] * x[i] * ct[i];
})",
                                    {.threads = 32, .blocks = "1"})
                            .reference([](Tensor x, Tensor ct) { return 3.0 * x * x * ct; });
  UserKernel cube = cuda_kernel("cube", "f32[n] -> f32[n]", R"(
void cube(const float* x, float* y, int64_t n) {
  for (int64_t i = threadIdx.x; i < n; i += blockDim.x) y[i] = x[i] * x[i] * x[i];
})",
                                {.threads = 32, .blocks = "min(n, 1)"})
                        .vjp([&](Tensor x, Tensor, Tensor ct) { return backward(x, ct); });
  Program program;
  program.entry("main", {{"x", f32, {70}}}, [&](Tensor x) -> Outputs {
    Tensor g = grad([&](Tensor v) { return sum(cube(v)); })(x);
    return {{"g", g}};
  });
  Literal x = drawn(f32, {70}, 8);
  std::vector<Literal> got = session_of(program.module())->call(0, {x}).value();
  for (int64_t i = 0; i < 70; ++i) EXPECT_NEAR(got[0].get(i), 3 * x.get(i) * x.get(i), 1e-5);
}

// Narrow floats are their bits; names of ours and of other kernels are free.
TEST(CudaUserKernels, ShareNothing) {
  UserKernel a = cuda_kernel("nb_team", "bf16[n] -> bf16[n]", R"(
#define float float
struct nb_bf16 { uint16_t bits; };
__device__ float wide(uint16_t x) { return __int_as_float(int(x) << 16); }
__device__ void nb_team(const uint16_t* x, uint16_t* y, int64_t n) {
  if (threadIdx.x < n) y[threadIdx.x] = uint16_t(__float_as_int(wide(x[threadIdx.x]) * -2) >> 16);
})");
  UserKernel b = cuda_kernel("nb_team", "bf16[n] -> bf16[n]", R"(
#ifdef float
#error seen
#endif
__device__ int wide(uint16_t x) { return x ^ 0x8000; }
__device__ void nb_team(const uint16_t* x, uint16_t* y, int64_t n) {
  if (threadIdx.x < n) y[threadIdx.x] = uint16_t(wide(x[threadIdx.x]));
})");
  Program program;
  program.entry("main", {{"x", bf16, {3}}}, [&](Tensor x) -> Outputs { return {{"y", b(a(x)) + x}}; });
  Literal x(bf16, {3});
  x.set(1, 1.5);
  EXPECT_EQ(session_of(program.module())->call(0, {x}).value()[0].get(1), 4.5);
}

Diagnostic refused(const UserKernel& kernel, const std::string& target = "sm_80") {
  Program program;
  program.entry("main", {{"x", f32, {3}}}, [&](Tensor x) -> Outputs { return {{"y", kernel(x)}}; });
  Result<driver::CompiledBundle> bundle = compile(program.module(), target);
  if (!bundle.ok()) return bundle.errors()[0];
  ADD_FAILURE() << "it compiles";
  return error(Code::kMisuse, "none");
}

UserKernel twice(const std::string& source) { return cuda_kernel("twice", "T[n] -> T[n]", source); }

TEST(CudaUserKernels, CodeThatDoesNotCompileIsShownAtItsLine) {
  Diagnostic d = refused(twice("\nvoid twice(const T* x, T* y, int64_t n) {\n  y[0] = undeclared;\n}\n"));
  EXPECT_EQ(d.code, Code::kUserCode);
  EXPECT_EQ(d.message, "kernel `twice` does not compile: identifier \"undeclared\" is undefined");
  ASSERT_TRUE(d.location);
  EXPECT_TRUE(d.location->file.ends_with("user_kernel_test.cc")) << d.location->file;
  EXPECT_EQ(d.location->text, "  y[0] = undeclared;");
  EXPECT_EQ(d.location->column, 10);
  EXPECT_EQ(d.help, "the source must define __device__ void twice(const float* x0, float* y0, int64_t n)");
}

TEST(CudaUserKernels, FunctionsOfAnotherTypeAreRefused) {
  const std::string body = " { if (threadIdx.x < n) y[threadIdx.x] = 2 * x[threadIdx.x]; }\n";
  const std::string good = "void twice(const float* x, float* y, int64_t n)";
  const std::string expected = "expected __device__ void twice(const float* x0, float* y0, int64_t n)";
  for (const std::string& text :
       {"void twice(const T* x, T* y, int n)" + body, "void twice(const float* x, double* y, int64_t n)" + body,
        "#define float double\n" + good + body, "#define const\n" + good + body,
        "#define static_assert(...)\n#define template\n#define class\n#define void int\n" + good + body}) {
    Diagnostic d = refused(twice(text));
    EXPECT_EQ(d.code, Code::kUserCode) << text;
    EXPECT_NE(d.message.find(expected), std::string::npos) << text << d.message;
  }
  Diagnostic missing = refused(twice("static int f(int a) { return a; }\nvoid thrice(const T* x, T* y, int64_t n) { if (n) f(1); }"));
  EXPECT_EQ(missing.message, "kernel `twice`: its source defines no function `twice`; it defines `f`, `thrice`");
  EXPECT_EQ(missing.str().find("nb_"), std::string::npos) << missing.str();
  EXPECT_EQ(refused(twice("// twice")).message, "kernel `twice`: its source defines no function `twice`; it defines none");
  Diagnostic kernel =
      refused(twice("\n__global__ void __launch_bounds__(256)\ntwice(const T* x, T* y, int64_t n)" + body));
  EXPECT_EQ(kernel.message, "kernel `twice`: its function is __global__");
  EXPECT_EQ(kernel.help,
            "every thread of a generated kernel calls it: define __device__ void twice(const float* x0, float* y0, "
            "int64_t n)");
  EXPECT_EQ(kernel.location->text, "__global__ void __launch_bounds__(256)");
  EXPECT_NE(refused(twice(good + body + "}}\nnamespace { namespace a {\n")).message.find("closes a brace"),
            std::string::npos);
}

TEST(CudaUserKernels, WhatATargetCannotRunIsTheUsers) {
  auto big = [](int bytes) {
    return cuda_kernel("big", "f32[n] -> f32[n]", R"(
__device__ void big(const float* x, float* y, int64_t n) {
  extern __shared__ float s[];
  s[threadIdx.x] = x[0];
  __syncthreads();
  if (threadIdx.x < n) y[threadIdx.x] = s[31 - threadIdx.x];
})",
                       {.threads = 32, .shared_bytes = bytes});
  };
  Diagnostic d = refused(big(200 << 10));
  EXPECT_EQ(d.code, Code::kUserCode);
  EXPECT_NE(d.message.find("takes 204800 bytes of shared memory, 204800 of them dynamic; a block on sm_80 may have "
                           "166912"),
            std::string::npos)
      << d.message;
  ASSERT_TRUE(d.location);
  EXPECT_TRUE(d.location->file.ends_with("user_kernel_test.cc"));
}

// Cubins hold these sizes in 32 bits, and nothing assembles PTX here: what the text declares counts, for every target alike.
TEST(CudaUserKernels, MemoryThatNoGpuHasIsTheUsersForEveryTarget) {
  auto with = [](const std::string& array) {
    return twice("void twice(const T* x, T* y, int64_t n) {\n  " + array + " s[SIZE];\n" +
                 "  for (int64_t i = threadIdx.x; i < n; ++i) s[i * 7 % n] = x[i];\n  __syncthreads();\n  y[threadIdx.x] = s[n - 1];\n}\n");
  };
  for (const char* target : {"sm_80", "sm_90a", "compute_80"})
    for (auto [elements, bytes] : {std::pair("16384", "65536"), {"(1 << 30)", "4294967296"}}) {
      Diagnostic d = refused(with("\n#define SIZE " + std::string(elements) + "\n__shared__ float"), target);
      EXPECT_EQ(d.code, Code::kUserCode) << d.str();
      EXPECT_EQ(d.message, fmt::format("kernel `twice` takes {} bytes of static shared memory; a block may have 49152", bytes)) << target;
    }
  for (const char* target : {"sm_80", "compute_80"})
    for (auto [elements, bytes] : {std::pair("150000", "600000"), {"(1L << 30)", "4294967296"}}) {
      Diagnostic d = refused(with("\n#define SIZE " + std::string(elements) + "\nfloat"), target);
      EXPECT_EQ(d.code, Code::kUserCode) << d.str();
      EXPECT_EQ(d.message,
                fmt::format("kernel `twice` has arrays of {} bytes per thread; a thread may have 524288 of local memory", bytes));
    }
}

TEST(CudaUserKernels, FilesThatTheTextReadsAreRefused) {
  const std::string body = "\nvoid twice(const T* x, T* y, int64_t n) {}\n";
  for (const char* line : {"#include \"mine.h\"", " #  include </tmp/mine.h>", "#include <../mine.h>", "#include MINE", "#embed <x>"}) {
    Diagnostic d = refused(twice(line + body));
    EXPECT_EQ(d.code, Code::kUserCode);
    EXPECT_NE(d.message.find("kernel `twice` reads a file of its own: `#"), std::string::npos) << d.message;
    ASSERT_TRUE(d.location);
    EXPECT_EQ(d.location->text, line);
  }
}

TEST(CudaUserKernels, ATargetWithoutSourceIsRefusedAtTheCall) {
  UserKernel cpp = cpp_kernel("plain", "f32[n] -> f32[n]", "void plain(const float*, float*, int64_t) {}");
  Diagnostic gpu = refused(cpp, "cpu,sm_80");
  EXPECT_EQ(gpu.code, Code::kNoLowering);
  EXPECT_EQ(gpu.message, "custom_call `plain` has no CUDA source, which sm_80 needs");
  EXPECT_EQ(gpu.help, "give it one with .cuda(source)");
  ASSERT_TRUE(gpu.location);
  EXPECT_TRUE(gpu.location->file.ends_with("user_kernel_test.cc"));
  EXPECT_NE(gpu.location->text.find("kernel(x)"), std::string::npos) << gpu.location->text;
  Diagnostic cpu = refused(swish(), "cpu:x86-64-v3");
  EXPECT_EQ(cpu.code, Code::kNoLowering);
  EXPECT_EQ(cpu.message, "custom_call `swish` has no C++ source, which cpu:x86-64-v3 needs");
  EXPECT_EQ(cpu.help, "give it one with cpp_kernel(name, signature, source), or compile for GPUs alone");
  ASSERT_TRUE(cpu.location);
}

std::string error_of(CudaLaunch launch, ir::Dim n) {
  try {
    Program program;
    program.entry("main", {{"x", f32, {n}}}, [&](Tensor x) -> Outputs {
      return {{"y", cuda_kernel("k", "T[n] -> T[n]", "void k() {}", launch)(x)}};
    });
  } catch (const Error& e) {
    return e.what();
  }
  return "";
}

TEST(CudaUserKernels, LaunchesThatNoGpuTakesAreRefused) {
  auto has = [](const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; };
  EXPECT_EQ(error_of({.threads = 1024, .blocks = "ceildiv(n, 1024)"}, 5), "");
  std::string text = error_of({.threads = 2048}, 5);
  EXPECT_TRUE(has(text, "custom_call: threads is 2048, expected 1 to 1024 (C10)")) << text;
  text = error_of({.blocks = "rows"}, 5);
  EXPECT_TRUE(has(text, "custom_call: blocks \"rows\", column 1: unknown symbol `rows`")) << text;
  text = error_of({.blocks = "n * 1000000000"}, 5);
  EXPECT_TRUE(has(text,
                  "blocks \"n * 1000000000\" is up to 5000000000; a grid has at most 2147483647: give fewer, and "
                  "let each thread do several elements (C11)"))
      << text;
  text = error_of({.threads = 1}, int64_t{1} << 33);
  EXPECT_TRUE(has(text, "a thread per element of result 0 makes blocks up to 8589934592; a grid has at most")) << text;
}

}  // namespace
}  // namespace nabla
