#include "ir/cost/time.h"

#include <gtest/gtest.h>

#include "ir/cost/exchange.h"
#include "ir/cost/node_time.h"
#include "ir/kernel_ir/text.h"
#include "ir/ops/all_ops.h"
#include "ir/text.h"

namespace nabla::ir {
namespace {

Module parsed(const std::string& text) {
  Result<Module> m = parse_module(text, "test.nbl", ops::all_ops());
  EXPECT_TRUE(m.ok()) << (m.ok() ? "" : m.errors()[0].message);
  return *m;
}

// What was recorded of an H200, whose memory has 4,800 GB/s by its data sheet, and an H100 3,350: a copy moves 4.3 TB/s; cuBLAS does
// 770 to 798 TFLOP/s of bf16, here without its bytes.
TEST(Gpu, ExpectationsAgreeWithWhatWasRecorded) {
  const Target target = find_target("sm_90a").value();
  EXPECT_NEAR(target.cuda.copy_gbs * 4800 / 3350, 4300, 0.01 * 4300);
  const double flops = 2.0 * 8192 * 8192 * 8192;
  const double us = library_us({0, static_cast<int64_t>(flops), DType::kBF16}, target) - kLaunchUs;
  EXPECT_GE(flops / us / 1e6, 770);
  EXPECT_LE(flops / us / 1e6, 798);
  // Clocks are those of the data sheet's rate in f32.
  for (const std::string& name : target_names()) {
    const CudaFacts gpu = find_target(name).value().cuda;
    if (gpu.compute == 0) continue;
    const double lanes = gpu.compute == 80 ? 64 : 128;
    EXPECT_NEAR(gpu.clock_ghz * 2 * lanes * gpu.multiprocessors / 1e3, gpu.f32_tflops, 0.02 * gpu.f32_tflops) << name;
  }
}

TEST(Work, OfANodeIsWhatItsRecordAndItsTypesSay) {
  Module m = parsed(R"(nabla 1 flat
symbol n in [1, 64]
entry main calls @main {
  inputs x, w
  outputs y, z
}
func @main(%x: f32[n,8], %w: f32[8,4]) {
  %y = dot_general(%x, %w) {lhs_contract=[1], rhs_contract=[0]}
  %z = mul(%x, %x)
  return %y, %z
}
)");
  const Function& f = *m.find("main");
  const Node &product = f.nodes[0], &square = f.nodes[1];
  Dim n = f.type(f.params[0]).shape[0];
  EXPECT_EQ(node_flops(f, product).str(), (Dim(2 * 8 * 4) * n).str());
  EXPECT_EQ(operand_bytes(f, product).str(), (Dim(4 * (8 + 4)) * n + Dim(4 * 8 * 4)).str());
  // An operand that stands there twice is read once.
  EXPECT_EQ(operand_bytes(f, square).str(), (Dim(2 * 4 * 8) * n).str());
}

TEST(Work, OfAKernelCountsWhatItCanReach) {
  Module m = parsed(R"(nabla 1 kernels
kernel @product(in a: f32[16,32], in b: f32[32,8], out c: f32[16,8]) {
  axes i = 16, j = 8, r0 = 32
  schedule unit 1 units 128 threads 1
  for i, j {
    let sum: f32 = sum(r0) a[i, r0] * b[r0, j]
    store c[i, j] = sum
  }
}
)");
  Work work = kernel_work(*m.kernels[0]);
  EXPECT_EQ(work.flops.str(), std::to_string(2 * 16 * 8 * 32));
  EXPECT_EQ(work.bytes.str(), std::to_string(4 * (16 * 32 + 32 * 8 + 16 * 8)));
  EXPECT_EQ(work.factors, DType::kF32);
}

// What lies in a buffer beside the part that a kernel copies is not moved.
TEST(Work, OfACopyIsWhatItCopies) {
  Module m = parsed(R"(nabla 1 kernels
kernel @part(in a: f32[1,100], out c: f32[1,10]) {
  axes i = 1, j = 10
  schedule unit 1 units 1 threads 1 vector j
  for i, j {
    store c[i, j] = a[i, j + 20]
  }
}
entry f calls @f {
  inputs a
  outputs c
}
func @f(%a: f32[1,100]) {
  %c = launch(%a) {kernel="part", results="f32[1,10]"} : f32[1,10]
  return %c
}
)");
  const Function& f = *m.find("f");
  EXPECT_EQ(operand_bytes(f, f.nodes[0]).str(), std::to_string(4 * (100 + 10)));
  EXPECT_EQ(MovedBytes(m).of(f, f.nodes[0]).str(), std::to_string(4 * (10 + 10)));
}

TEST(Work, ArithmeticIsTheSumOfTheScalarsOwnCosts) {
  const kernel_ir::ScalarFn &exp = *kernel_ir::find_scalar("exp"), &add = *kernel_ir::find_scalar("add");
  EXPECT_GT(exp.cost, add.cost);
  EXPECT_EQ(kernel_ir::find_scalar("convert")->cost, 0);
  for (const kernel_ir::ScalarFn& f : kernel_ir::all_scalars()) EXPECT_GE(f.cost, f.name == "convert" ? 0 : 1) << f.name;
}

TEST(Time, OfAGpuIsThatOfWhatTakesLonger) {
  Target gpu = *find_target("sm_90");
  double moved = 1e6 / bytes_per_us(gpu), multiplied = 1e9 / product_rate(DType::kF32, gpu).flops_per_us;
  EXPECT_DOUBLE_EQ(least_us({1000000, 0, DType::kF32}, gpu), moved);
  EXPECT_DOUBLE_EQ(least_us({1000000, 1000000000, DType::kF32}, gpu), std::max(moved, multiplied));
  EXPECT_GT(multiplied, moved);
  EXPECT_GT(product_rate(DType::kBF16, gpu).flops_per_us, product_rate(DType::kF32, gpu).flops_per_us);
  EXPECT_EQ(product_rate(DType::kF32, gpu).compute, "f32");
  gpu.tf32 = true;
  EXPECT_EQ(product_rate(DType::kF32, gpu).compute, "tf32");
}

TEST(Time, OfAThreadGrowsWithWorkAndShrinksWithLanes) {
  EXPECT_DOUBLE_EQ(thread_ns(2000, 16, 4, 8), 2 * thread_ns(1000, 16, 4, 8));
  EXPECT_DOUBLE_EQ(thread_ns(1000, 16, 4, 8), 2 * thread_ns(1000, 16, 4, 16));
  EXPECT_GT(thread_ns(1000, 60, 4, 8), thread_ns(1000, 1, 4, 8));
  EXPECT_DOUBLE_EQ(products_us(1e6, 0, 8, {}), 2 * products_us(1e6, 0, 16, {}));
}

// Rates of a machine: two threads move less each than one, and more bytes more slowly.
CpuRates measured() {
  CpuRates out;
  out.instructions_per_ns = 4, out.step_us = 0.5, out.cpus = 2;
  out.copies = {{1, 1000, 100}, {1, 1e6, 10}, {2, 1000, 80}, {2, 1e6, 5}};
  out.products = {{1e3, 1e3}, {1e5, 1e5}};
  out.exchanges = {{2, 2, 10, 100}, {2, 4, 20, 50}, {4, 4, 30, 50}};
  return out;
}

TEST(Time, OfAThreadIsItsBytesOrItsArithmeticAndAStep) {
  const CpuRates rates = measured();
  EXPECT_DOUBLE_EQ(thread_us({.bytes = 1000}, 8, rates), 0.5 + 10);
  EXPECT_DOUBLE_EQ(thread_us({.bytes = 1000}, 8, rates, {1, 5e5}), 0.5 + 100) << "it comes back to them after so many others";
  EXPECT_DOUBLE_EQ(thread_us({.bytes = 1e9}, 8, rates), 0.5 + 1e8) << "the last figure stands for more";
  EXPECT_DOUBLE_EQ(thread_us({.bytes = 1000}, 8, rates, {2, 0}), 0.5 + 12.5);
  EXPECT_DOUBLE_EQ(thread_us({.bytes = 1000}, 8, rates, {4, 0}), 2 * (0.5 + 12.5)) << "two ranks share a CPU";
  EXPECT_DOUBLE_EQ(thread_us({.operations = {8 * 4e4, 4e4}}, 8, rates), 0.5 + 10 + 10);
  EXPECT_DOUBLE_EQ(thread_us({.bytes = 1000, .products = 1e5}, 8, rates), 0.5 + 10) << "whichever takes longer";
  EXPECT_DOUBLE_EQ(products_us(1e6, 1e3, 8, rates), 1e3) << "a thousand small ones";
  EXPECT_DOUBLE_EQ(products_us(1e6, 0, 8, rates), 10) << "a large one";
  double between = products_us(1e6, 1e4, 8, rates);
  EXPECT_DOUBLE_EQ(between, (1e3 + 10) / 2);
}

// A kernel counts as its schedule has it: where lanes do not lie side by side each element is loaded by itself.
TEST(Time, OfANodeIsThatOfItsKernel) {
  const char* text = R"(nabla 1 kernels
kernel @{0}(in a: f32[64,64], out c: f32[64,64]) {{
  axes i = 64, j = 64
  schedule unit 1 units 64 threads 1 vector j
  for i, j {{
    store c[i, j] = {1}
  }}
}}
entry f calls @f {{
  inputs a
  outputs c
}}
func @f(%a: f32[64,64]) {{
  %c = launch(%a) {{kernel="{0}", results="f32[64,64]"}} : f32[64,64]
  return %c
}}
)";
  Target target = *find_target("cpu:x86-64-v3");
  target.rates = measured(), target.rates.copies = {{1, 1, 1e9}};
  auto us = [&](const char* name, const char* body) {
    Module m = parsed(fmt::format(fmt::runtime(text), name, body));
    const Function& f = *m.find("f");
    return NodeTimes(m, target).us(f, f.nodes[0], 0);
  };
  const double copied = us("copied", "a[i, j]"), turned = us("turned", "a[j, i]"), exponent = us("exponent", "exp(a[i, j])");
  EXPECT_DOUBLE_EQ(copied, 0.5 + 64 * 64 * 2 / 8 / 4e3) << "a load and a store, eight at a time";
  EXPECT_DOUBLE_EQ(turned, 0.5 + 64 * 64 * (1 + 1.0 / 8) / 4e3);
  EXPECT_GT(exponent, 2 * copied - 0.5);
}

// A library's product takes what its factors' dtype does, whatever they are widened to.
TEST(Time, OfALibrarysProductIsThatOfItsFactors) {
  const Target target = *find_target("sm_90a");
  auto us = [&](const char* dtype, const char* widened) {
    Module m = parsed(fmt::format(R"(nabla 1 kernels
entry f calls @f {{
  inputs a, b
  outputs c
}}
func @f(%a: {0}[4096,4096], %b: {0}[4096,4096]) {{
  %c = gemm.v2(%a, %b) {{implementation="cublaslt", lhs_contract=[1], rhs_contract=[1]{1}}} : bf16[4096,4096]
  return %c
}}
)",
                                  dtype, widened));
    const Function& f = *m.find("f");
    return NodeTimes(m, target).us(f, f.nodes[0], 0);
  };
  EXPECT_DOUBLE_EQ(us("bf16", ""), 2.0 * 4096 * 4096 * 4096 / (target.cuda.tensor_tflops * 1e6));
  EXPECT_DOUBLE_EQ(us("f8e4m3", ", widened=\"bf16\""), 2.0 * 4096 * 4096 * 4096 / (target.cuda.f8_tflops * 1e6));
}

TEST(Exchange, CountsMessagesAndBytes) {
  Mesh mesh{"m", {{"far", 4}, {"near", 4}}, nullptr};
  EXPECT_EQ(sent_bytes(CollectiveKind::kAllGather, 4, 100), 300);
  EXPECT_EQ(sent_bytes(CollectiveKind::kReduceScatter, 4, 100), 75);
  EXPECT_EQ(sent_bytes(CollectiveKind::kAllReduce, 4, 100), 150);
  EXPECT_EQ(sent_bytes(CollectiveKind::kAllToAll, 4, 100), 75);
  EXPECT_EQ(sent_bytes(CollectiveKind::kPermute, 4, 100), 100);
  Link link = link_along(mesh, {{"near"}});
  EXPECT_DOUBLE_EQ(exchange_us(CollectiveKind::kAllReduce, mesh, {{"near"}}, 100), 4 * link.message_us + 150 / link.bytes_per_us);
  EXPECT_EQ(exchange_us(CollectiveKind::kAllReduce, mesh, {}, 100), 0);
}

TEST(Exchange, OfThreadsIsWhatWasMeasured) {
  Mesh pair{"m", {{"a", 2}}, nullptr}, four{"m", {{"a", 2}, {"b", 2}}, nullptr}, eight{"m", {{"a", 2}, {"b", 4}}, nullptr};
  Target cpu = *find_target("cpu:x86-64-v3");
  EXPECT_EQ(exchange_us(CollectiveKind::kAllReduce, pair, {{"a"}}, 100, cpu),
            exchange_us(CollectiveKind::kAllReduce, pair, {{"a"}}, 100)) << "nothing was measured";
  EXPECT_FALSE(exchange_computes(cpu));
  cpu.rates = measured();
  EXPECT_TRUE(exchange_computes(cpu));
  EXPECT_EQ(moved_bytes(CollectiveKind::kAllGather, 4, 100), 800) << "each reads all parts and writes them";
  EXPECT_EQ(moved_bytes(CollectiveKind::kAllReduce, 4, 100), 200);
  EXPECT_DOUBLE_EQ(exchange_us(CollectiveKind::kAllReduce, pair, {{"a"}}, 1000, cpu), 10 + 2000 / 100.0);
  EXPECT_DOUBLE_EQ(exchange_us(CollectiveKind::kAllReduce, four, {{"a"}}, 1000, cpu), 20 + 2000 / 50.0);
  EXPECT_DOUBLE_EQ(exchange_us(CollectiveKind::kAllGather, four, {{"a"}, {"b"}}, 1000, cpu), 30 + 8000 / 50.0);
  EXPECT_DOUBLE_EQ(exchange_us(CollectiveKind::kAllReduce, eight, {{"b"}}, 1000, cpu), 2 * (30 + 2000 / 50.0))
      << "twice as many as were measured";
  EXPECT_EQ(exchange_us(CollectiveKind::kAllReduce, four, {}, 1000, cpu), 0);
  Target gpu = *find_target("sm_90");
  gpu.rates = cpu.rates;
  EXPECT_EQ(exchange_us(CollectiveKind::kAllReduce, pair, {{"a"}}, 100, gpu), exchange_us(CollectiveKind::kAllReduce, pair, {{"a"}}, 100));
}

// Ranks 0 to 7 share a machine: a part of `far` that reaches over eight of them is near.
TEST(Exchange, SlowestAxisCounts) {
  Mesh mesh{"m", {{"far", 4}, {"near", 4}}, nullptr};
  double near = link_along(mesh, {{"near"}}).bytes_per_us, far = link_along(mesh, {{"far"}}).bytes_per_us;
  EXPECT_GT(near, far);
  EXPECT_EQ(link_along(mesh, {{"near"}, {"far"}}).bytes_per_us, far);
  EXPECT_EQ(link_along(mesh, {{"far", 2, 2}}).bytes_per_us, near);
}

}  // namespace
}  // namespace nabla::ir
