// The CUDA text of kernels, compiled for the host and run thread by thread in two orders, against the interpreter.
#include <gtest/gtest.h>

#include "codegen/cpu/toolchain.h"
#include "codegen/cuda/sketch_printer.h"
#include "tests/kernel_ir/nine_kernels.h"

namespace nabla::kernel_ir {
namespace {

constexpr const char* kShim =
#include "tests/kernel_ir/cuda_shim_text.inc"
    ;

// Stores of integers that meet; a scatter in which the last update wins; small floats; a row read through an index.
constexpr const char* kMore[] = {
    R"(kernel @histogram(in x: i32[40], out n: i32[20], out top: i64[20]) {
  axes i = 40
  for i {
    store n[convert.i64(x[i]) + 2] sum= 1:i32
    store top[convert.i64(x[i]) + 2] max= i
  }
})",
    R"(kernel @scatter_set(in ids: i32[16], in ct: f32[16,3], out init: f32[14,3], inout table: f32[14,3]) {
  axes r = 14, u = 16, j = 3, a = 14, b = 3
  for r {
    store init[r, j] over j = 1.5:f32
  }
  for u {
    store table[convert.i64(ids[u]), j] over j = ct[u, j] if convert.i64(ids[u]) >= 0 & convert.i64(ids[u]) < 14
  }
})",
    R"(kernel @small(in x: f32[50], in h: bf16[50], out a: bf16[50], out b: f16[50], out c: f8e4m3[50], out d: f8e5m2[50]) {
  axes i = 50
  for i {
    store a[i] = convert.bf16(x[i] * 3.7:f32)
    store b[i] = convert.f16(convert.f32(h[i]) * x[i])
    store c[i] = convert.f8e4m3(x[i] * 20.3:f32)
    store d[i] = convert.f8e5m2(x[i] * 0.001:f32)
  }
})",
    R"(kernel @whole(in x: f32[30], out y: f32[30]) {
  axes i = 30, j = 30
  let m: f32 = max(i) x[i]
  let e[i]: f32 = exp(x[i] - m)
  let s: f32 = sum(j) e[j]
  store y[i] over i = e[29 - i] / s
})"};

std::vector<Kernel> kernels() {
  std::vector<Kernel> out;
  for (const std::string& name : nine_kernels()) out.push_back(read_kernel(name));
  for (const char* text : kMore) out.push_back(parse_kernel(text, "more.nbk").value());
  return out;
}

TEST(CudaSketch, RunsOnTheHostAsTheInterpreterSaysInEveryOrderOfThreads) {
  std::string text = std::string(kShim) + codegen::cuda_prelude();
  for (const Kernel& k : kernels()) {
    codegen::CudaKernel code = codegen::print_cuda(k);
    text += "\n" + code.text + fmt::format("extern \"C\" void run_{}(void** args, bool backwards) {{\n", k.name);
    for (const codegen::CudaLaunch& l : code.launches)
      text += fmt::format("  shim_launch({}, args, 3, 2, backwards);\n", l.symbol);
    text += "}\n";
  }
  auto object = codegen::compile_shared_object({{"cuda.cc", text}}, ir::find_target("cpu:x86-64-v3").value(), {1, ""});
  ASSERT_TRUE(object.ok()) << to_string(object.errors());
  Library library(*object);
  for (const Kernel& k : kernels())
    for (bool backwards : {false, true}) {
      SCOPED_TRACE(backwards ? "backwards" : "forwards");
      auto run = reinterpret_cast<void (*)(void**, bool)>(library.find("run_" + k.name));
      ASSERT_NE(run, nullptr);
      std::vector<Literal> got = draw_buffers(k);
      std::vector<void*> args;
      for (Literal& b : got) args.push_back(b.mutable_data());
      run(args.data(), backwards);
      expect_near(k, interpreted(k), got);
    }
}

TEST(CudaSketch, SharesOutEveryAxisThatTheSemanticsAllow) {
  auto threads = [](const std::string& name) {
    std::vector<int64_t> out;
    for (const codegen::CudaLaunch& l : codegen::print_cuda(read_kernel(name)).launches) out.push_back(l.threads);
    return out;
  };
  using Threads = std::vector<int64_t>;
  EXPECT_EQ(threads("matmul_gelu"), Threads{37 * 50});                             // a thread per element
  EXPECT_EQ(threads("softmax"), Threads{19});                                      // a thread per row
  EXPECT_EQ(threads("attention_backward"), (Threads{2 * 9 * 24, 2 * 9 * 24, 2}));  // two clears; queries meet
  EXPECT_EQ(threads("norm_backward"), (Threads{40, 40, 1}));                       // every row adds to the same sums
  EXPECT_EQ(threads("scatter_add"), (Threads{11 * 33, 33}));                       // columns; updates stay in order
  EXPECT_EQ(codegen::print_cuda(parse_kernel(kMore[0], "more.nbk").value()).launches.back().threads, 40);  // by atomics
}

}  // namespace
}  // namespace nabla::kernel_ir
